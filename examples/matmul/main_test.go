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
	for i := 1; i <= n; i++ {
		for j := 1; j <= n; j++ {
			want := 0.0
			for k := 1; k <= n; k++ {
				want += left(i, k) * right(k, j) // exact: small whole numbers
			}
			if x := got[(i-1)*n+j-1]; x != want || x != float64(gcd(i, j)) {
				t.Fatalf("element %d,%d is %v; expected %v", i, j, x, want)
			}
		}
	}
}
