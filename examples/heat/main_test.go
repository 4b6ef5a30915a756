package main

import (
	"context"
	"math"
	"testing"

	"github.com/weftnet/weft/parallel"
)

// serial returns the plate after some steps, computed by a plain loop.
func serial(n, steps int) []float64 {
	plate, old := make([]float64, n*n), make([]float64, n*n)
	at := func(i, j int) float64 {
		if i < 0 || i >= n || j < 0 || j >= n {
			return 0
		}
		return old[i*n+j]
	}
	for range steps {
		plate, old = old, plate
		for i := range n {
			for j := range n {
				if plate[i*n+j] = 100; i > 0 {
					plate[i*n+j] = (at(i-1, j) + at(i+1, j) + at(i, j-1) + at(i, j+1)) / 4
				}
			}
		}
	}
	return plate
}

func TestThePlateIsThatOfAPlainLoop(t *testing.T) {
	ctx := t.Context()
	m, err := parallel.Init(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const n, count = 40, 150
	*side, *steps, *checkpoint = n, count, t.TempDir()
	if _, err := spread(ctx, m); err != nil {
		t.Fatal(err)
	}
	s, err := parallel.NewShape(ctx, m, parallel.Axis{Len: n, Halo: 1}, parallel.Axis{Len: n, Halo: 1})
	if err != nil {
		t.Fatal(err)
	}
	plate, err := parallel.New[float64](s)
	if err != nil {
		t.Fatal(err)
	}
	step, err := load(ctx, m, plate)
	if err != nil || step != saveEvery {
		t.Fatalf("the last checkpoint is of step %d, %v; expected %d", step, err, saveEvery)
	}
	all := make([]float64, n*n)
	if err := parallel.Gather(parallel.With(context.Background(), s), plate, 0, all); err != nil {
		t.Fatal(err)
	}
	for i, want := range serial(n, saveEvery) {
		if math.Float64bits(all[i]) != math.Float64bits(want) {
			t.Fatalf("point %d,%d is %v; expected %v", i/n, i%n, all[i], want)
		}
	}
}
