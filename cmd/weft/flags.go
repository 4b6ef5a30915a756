package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// checkedFlag is a flag that checks its value when it is set. Its error names the flag, the
// value and the expected values: invalid argument "x" for "--hosts" flag: expected a whole
// number from 1 to 128.
type checkedFlag struct {
	kind string // the word for the value in help
	text string
	set  func(s string) bool
	want string
}

func (f *checkedFlag) String() string { return f.text }
func (f *checkedFlag) Type() string   { return f.kind }

func (f *checkedFlag) Set(s string) error {
	if !f.set(s) {
		return fmt.Errorf("expected %s", f.want)
	}
	f.text = s
	return nil
}

// intFlag defines a flag that takes a whole number from least to most.
func intFlag(fs *pflag.FlagSet, p *int, name string, value, least, most int, usage string) {
	fs.Var(intValue(p, value, least, most), name, usage)
}

// intValue returns the value of a flag that takes a whole number from least to most.
func intValue(p *int, value, least, most int) *checkedFlag {
	*p = value
	return &checkedFlag{
		kind: "N",
		text: strconv.Itoa(value),
		want: fmt.Sprintf("a whole number from %d to %d", least, most),
		set: func(s string) bool {
			n, err := strconv.Atoi(s)
			if err != nil || n < least || n > most {
				return false
			}
			*p = n
			return true
		},
	}
}

// seedFlag defines a flag that takes a seed.
func seedFlag(fs *pflag.FlagSet, p *uint64, name string, value uint64, usage string) {
	*p = value
	fs.Var(&checkedFlag{
		kind: "N",
		text: strconv.FormatUint(value, 10),
		want: "a whole number from 0 to 2⁶⁴-1",
		set: func(s string) bool {
			n, err := strconv.ParseUint(s, 10, 64)
			if err == nil {
				*p = n
			}
			return err == nil
		},
	}, name, usage)
}

// durationFlag defines a flag that takes a length of time from least to most.
func durationFlag(fs *pflag.FlagSet, p *time.Duration, name string, value, least, most time.Duration, usage string) {
	*p = value
	such := cmp.Or(value, min(max(time.Second, least), most)) // an example that the flag accepts
	fs.Var(&checkedFlag{
		kind: "D",
		text: durationText(value),
		want: fmt.Sprintf("a length of time such as %v, from %v to %v", such, least, most),
		set: func(s string) bool {
			d, err := time.ParseDuration(s)
			if err != nil || d < least || d > most {
				return false
			}
			*p = d
			return true
		},
	}, name, usage)
}

// durationText formats a default. For 0 it returns the empty text: the usage says what 0 means.
func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// choiceFlag defines a flag that takes one of some words.
func choiceFlag(fs *pflag.FlagSet, p *string, name, value string, choices []string, usage string) {
	*p = value
	fs.Var(&checkedFlag{
		kind: strings.Join(choices, "|"),
		text: value,
		want: "one of " + strings.Join(choices, ", "),
		set: func(s string) bool {
			ok := slices.Contains(choices, s)
			if ok {
				*p = s
			}
			return ok
		},
	}, name, usage)
}

// shareFlag defines a flag that takes a share of a whole, from 0 to 1, written as 0.05 or as 5%.
func shareFlag(fs *pflag.FlagSet, p *float64, name string, usage string) {
	fs.Var(&checkedFlag{
		kind: "P",
		want: "a share such as 5% or 0.05, from 0% to 100%",
		set: func(s string) bool {
			v, ok := parseShare(s)
			if ok {
				*p = v
			}
			return ok
		},
	}, name, usage)
}

func parseShare(s string) (float64, bool) {
	number, percent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(number, 64)
	if percent {
		v /= 100
	}
	return v, err == nil && v >= 0 && v <= 1 // false for a NaN, too
}

// bytesFlag defines a flag that takes a number of bytes: a multiple of unit.
func bytesFlag(fs *pflag.FlagSet, p *int64, name string, value, unit int64, usage string) {
	*p = value
	fs.Var(&checkedFlag{
		kind: "BYTES",
		text: byteText(value),
		want: fmt.Sprintf(
			"a number of bytes such as 64MiB or 8GiB, a multiple of %d and more than 0; its unit may be %s",
			unit, strings.Join(byteUnits, ", ")),
		set: func(s string) bool {
			n, ok := parseBytes(s)
			if !ok || n <= 0 || n%unit != 0 {
				return false
			}
			*p = n
			return true
		},
	}, name, usage)
}

var byteUnits = []string{"KiB", "MiB", "GiB", "TiB"}

// parseBytes parses a number of bytes with or without a unit.
func parseBytes(s string) (int64, bool) {
	number, shift := s, 0
	for i, unit := range byteUnits {
		if n, ok := strings.CutSuffix(s, unit); ok {
			number, shift = n, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return 0, false
	}
	return n << shift, true
}

// byteText formats a number of bytes in the largest unit that divides it. For 0 it returns the
// empty text.
func byteText(n int64) string {
	if n == 0 {
		return ""
	}
	unit := ""
	for _, u := range byteUnits {
		if n%1024 != 0 {
			break
		}
		n, unit = n/1024, u
	}
	return strconv.FormatInt(n, 10) + unit
}
