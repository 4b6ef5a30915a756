package main

import (
	"testing"

	"github.com/weftnet/weft/parallel"
)

func TestTheProductIsThatOfThreeLoops(t *testing.T) {
	m, err := parallel.Init(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	got, err := multiply(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		for j := range n {
			want := 0.0
			for k := range n {
				want += left(i, k) * right(k, j) // exact: few bits each
			}
			if got[i*n+j] != want {
				t.Fatalf("element %d,%d is %v; expected %v", i, j, got[i*n+j], want)
			}
		}
	}
}
