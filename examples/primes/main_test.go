package main

import (
	"slices"
	"testing"

	"github.com/weftnet/weft/parallel"
)

func TestThePrimesAreThoseOfASieve(t *testing.T) {
	m, err := parallel.Init(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	got, err := list(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	var want []int
	composite := make([]bool, below)
	for n := 2; n < below; n++ {
		if composite[n] {
			continue
		}
		want = append(want, n)
		for k := n * n; k < below; k += n {
			composite[k] = true
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d primes; expected %d", len(got), len(want))
	}
}
