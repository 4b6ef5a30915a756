package main

import (
	"slices"
	"testing"
)

func TestRatesMayShareAUnit(t *testing.T) {
	for text, want := range map[string][]int64{
		"10,100,155Mbit":  {10e6, 100e6, 155e6},
		"100Mbit":         {100e6},
		"1000kbit, 1Gbit": {1e6, 1e9},
		"2.5Gbit":         {2.5e9},
		"10":              nil, // without a unit
		"10Mbit,7":        nil,
		"10MB":            nil,
		"0Mbit":           nil,
		"999kbit":         nil,
		"11Gbit":          nil,
		"NaNMbit":         nil,
		"":                nil,
		",10Mbit":         nil,
	} {
		got, ok := parseRates(text)
		if ok != (want != nil) || !slices.Equal(got, want) {
			t.Errorf("%q is %d, %v; expected %d", text, got, ok, want)
		}
		if again, ok := parseRates(ratesText(got)); want != nil && (!ok || !slices.Equal(again, want)) {
			t.Errorf("%q is written as %q, which is %d", text, ratesText(got), again)
		}
	}
}
