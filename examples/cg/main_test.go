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

// serial solves the equation by the same method in plain loops. Its sums add the points in
// order.
func serial() []float64 {
	const n = side * side
	x, r, p, ap := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	dot := func(a, b []float64) (sum float64) {
		for i := range a {
			sum += a[i] * b[i]
		}
		return sum
	}
	for i := range r {
		r[i] = source(i/side, i%side)
		p[i] = r[i]
	}
	at := func(i, j int) float64 {
		if i < 0 || i >= side || j < 0 || j >= side {
			return 0
		}
		return p[i*side+j]
	}
	for rr := dot(r, r); math.Sqrt(rr) > tolerance; {
		for k := range ap {
			i, j := k/side, k%side
			ap[k] = 4*p[k] - at(i-1, j) - at(i+1, j) - at(i, j-1) - at(i, j+1)
		}
		step := rr / dot(p, ap)
		for k := range x {
			x[k] += step * p[k]
			r[k] -= step * ap[k]
		}
		next := dot(r, r)
		for k := range p {
			p[k] = r[k] + next/rr*p[k]
		}
		rr = next
	}
	return x
}

// The sums have another order, so the last bits may differ.
func TestTheSolutionIsThatOfPlainLoops(t *testing.T) {
	m, err := parallel.Init(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	_, got, err := solve(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range serial() {
		// the condition number of the equation is about 1,700
		if math.Abs(got[i]-want) > 1000*tolerance {
			t.Fatalf("the solution at %d,%d is %v; expected %v", i/side, i%side, got[i], want)
		}
	}
}
