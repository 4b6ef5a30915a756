package main

import (
	"math"
	"testing"

	"github.com/weftnet/weft/parallel"
)

func TestTheSolutionSatisfiesTheEquation(t *testing.T) {
	m, err := parallel.Init(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	residuals, x, err := solve(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	at := func(i, j int) float64 {
		if i < 0 || i >= side || j < 0 || j >= side {
			return 0
		}
		return x[i*side+j]
	}
	for i := range side {
		for j := range side {
			got := 4*at(i, j) - at(i-1, j) - at(i+1, j) - at(i, j-1) - at(i, j+1)
			if want := source(i, j); math.Abs(got-want) > 10*tolerance {
				t.Fatalf("after %d steps the equation at %d,%d gives %v; expected %v", len(residuals)-1, i, j, got, want)
			}
		}
	}
}
