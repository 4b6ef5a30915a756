// Command cg solves Poisson's equation on a square by the method of conjugate gradients, on any
// number of ranks. The result has the same bits on each number of ranks:
//
//	go build -o cg ./examples/cg
//	weft run -n 4 -- ./cg
//
// It prints, with and without a launcher:
//
//	after 133 steps, the solution in the middle is -123.372174
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"

	"github.com/weftnet/weft/parallel"
)

const (
	side      = 64
	tolerance = 1e-8
)

func main() {
	ctx := context.Background()
	m, err := parallel.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	residuals, x, err := solve(ctx, m)
	if err == nil && m.Rank() == 0 {
		fmt.Printf("after %d steps, the solution in the middle is %.6f\n", len(residuals)-1, x[(side/2)*side+side/2])
	}
	if err := errors.Join(err, m.Close()); err != nil {
		log.Fatal(err)
	}
}

// source returns the right side of the equation at a position.
func source(i, j int) float64 { return float64((i*j)%5) - 2 }

// solve returns the residual before the first step and after each step, and the solution at rank 0.
// The residual is the length of the vector by which the two sides of the equation differ.
func solve(ctx context.Context, m *parallel.Machine) (residuals, solution []float64, err error) {
	s, err := parallel.NewShape(ctx, m, parallel.Axis{Len: side, Halo: 1}, parallel.Axis{Len: side, Halo: 1})
	if err != nil {
		return nil, nil, err
	}
	c := parallel.With(ctx, s)
	x, err1 := parallel.New[float64](s)
	r, err2 := parallel.New[float64](s)
	p, err3 := parallel.New[float64](s)
	ap, err4 := parallel.New[float64](s)
	tmp, err5 := parallel.New[float64](s)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return nil, nil, err
	}
	parallel.Fill(r, func(pos []int) float64 { return source(pos[0], pos[1]) })
	parallel.Fill(p, func(pos []int) float64 { return source(pos[0], pos[1]) })
	dot := func(a, b *parallel.Var[float64]) (float64, error) {
		parallel.Map2(c, tmp, a, b, func(a, b float64) float64 { return a * b })
		return parallel.Reduce(c, tmp, parallel.Sum[float64]())
	}
	rr, err := dot(r, r)
	residuals = append(residuals, math.Sqrt(rr))
	for err == nil && math.Sqrt(rr) > tolerance {
		if err := parallel.Stencil(c, ap, p, parallel.Value(0.0), laplace); err != nil {
			return nil, nil, err
		}
		pap, err := dot(p, ap)
		if err != nil {
			return nil, nil, err
		}
		addTo(c, x, p, rr/pap)
		addTo(c, r, ap, -rr/pap)
		next, err := dot(r, r)
		if err != nil {
			return nil, nil, err
		}
		beta := next / rr
		parallel.Map2(c, p, p, r, func(p, r float64) float64 { return r + beta*p })
		rr = next
		residuals = append(residuals, math.Sqrt(rr))
	}
	if err != nil {
		return nil, nil, err
	}
	if m.Rank() == 0 {
		solution = make([]float64, s.Len())
	}
	return residuals, solution, parallel.Gather(c, x, 0, solution)
}

// laplace applies the matrix of the equation.
func laplace(at *parallel.Window[float64], out []float64) {
	up, down, left, right := at.Row(-1, 0), at.Row(1, 0), at.Row(0, -1), at.Row(0, 1)
	for i, x := range at.Row() {
		out[i] = 4*x - up[i] - down[i] - left[i] - right[i]
	}
}

// addTo adds k·b to a.
func addTo(c *parallel.Ctx, a, b *parallel.Var[float64], k float64) {
	parallel.Rows2(c, a, b, func(_ []int, a, b []float64) {
		for i := range a {
			a[i] += k * b[i]
		}
	})
}
