package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/testbed"
)

// rateUnits are decimal, as network cards have them: 10 Mbit is 10,000,000 bits per second.
var rateUnits = []struct {
	name string
	bits float64
}{{"kbit", 1e3}, {"Mbit", 1e6}, {"Gbit", 1e9}}

// ratesFlag defines a flag that takes rates of cables in bits per second.
func ratesFlag(fs *pflag.FlagSet, p *[]int64, usage string) {
	fs.Var(&checkedFlag{
		kind: "RATE,…",
		want: "rates from 1Mbit to 10Gbit such as 100Mbit, or several such as 10,100,155Mbit",
		set: func(s string) bool {
			rates, ok := parseRates(s)
			if ok {
				*p = rates
			}
			return ok
		},
	}, "rate", usage)
}

// parseRates parses rates in bits per second. A rate without a unit has the unit of the next
// rate that has one.
func parseRates(s string) (rates []int64, ok bool) {
	unit := 0.0
	all := strings.Split(s, ",")
	for i := len(all) - 1; i >= 0; i-- {
		number := strings.TrimSpace(all[i])
		for _, u := range rateUnits {
			if n, found := strings.CutSuffix(number, u.name); found {
				number, unit = n, u.bits
			}
		}
		n, err := strconv.ParseFloat(number, 64)
		if bits := n * unit; err != nil || !(bits >= testbed.LeastRate && bits <= testbed.MostRate) {
			return nil, false
		}
		rates = append(rates, int64(n*unit))
	}
	slices.Reverse(rates)
	return rates, true
}

// rateText formats a rate in the largest unit in which it is at least 1.
func rateText(bits int64) string {
	for i := len(rateUnits) - 1; i > 0; i-- {
		if u := rateUnits[i]; float64(bits) >= u.bits {
			return strconv.FormatFloat(float64(bits)/u.bits, 'f', -1, 64) + u.name
		}
	}
	return strconv.FormatFloat(float64(bits)/1e3, 'f', -1, 64) + rateUnits[0].name
}

// ratesText formats rates so that parseRates can parse them.
func ratesText(rates []int64) string {
	texts := make([]string, len(rates))
	for i, r := range rates {
		texts[i] = rateText(r)
	}
	return strings.Join(texts, ",")
}
