package parallel

import (
	"context"
	"testing"
)

// allocsOf returns the number of allocations of an operation on a machine of one rank.
func allocsOf(t *testing.T, length int, op func(c *Ctx, dst, src *Var[float64]) error) float64 {
	t.Helper()
	s := must(NewShape(context.Background(), newMachine(nil, nil, nil, 0), Axis{Len: length, Halo: 1}))
	dst, src := must(New[float64](s)), must(New[float64](s))
	c := With(context.Background(), s)
	return testing.AllocsPerRun(5, func() {
		if err := op(c, dst, src); err != nil {
			t.Fatal(err)
		}
	})
}

func TestNoOperationAllocatesForEachElement(t *testing.T) {
	for name, op := range map[string]func(c *Ctx, dst, src *Var[float64]) error{
		"Reduce": func(c *Ctx, _, src *Var[float64]) error { _, err := Reduce(c, src, Max[float64]()); return err },
		"Scan": func(c *Ctx, dst, src *Var[float64]) error {
			return Scan(c, dst, src, 0, Sum[float64](), ScanOpt{Reverse: true})
		},
		"ReduceAxis": func(c *Ctx, dst, src *Var[float64]) error { return ReduceAxis(c, dst, src, 0, Sum[float64]()) },
		"Spread":     func(c *Ctx, dst, src *Var[float64]) error { return Spread(c, dst, src, 0, 7) },
		"Shift":      func(c *Ctx, dst, src *Var[float64]) error { return Shift(c, dst, src, 0, 3, Torus[float64]()) },
		"Stencil": func(c *Ctx, dst, src *Var[float64]) error {
			return Stencil(c, dst, src, Value(0.0), func(at *Window[float64], out []float64) { copy(out, at.Row(1)) })
		},
		"Map": func(c *Ctx, dst, src *Var[float64]) error {
			Map(c, dst, src, func(x float64) float64 { return -x })
			return nil
		},
	} {
		short, long := allocsOf(t, 2000, op), allocsOf(t, 200_000, op)
		if long > short+2 {
			t.Errorf("%s allocates %v times for 2,000 elements and %v times for 200,000", name, short, long)
		}
		// Scan and ReduceAxis may allocate for each of 1,024 blocks.
		if name != "Scan" && name != "ReduceAxis" && long > 100 {
			t.Errorf("%s allocates %v times", name, long)
		}
	}
}
