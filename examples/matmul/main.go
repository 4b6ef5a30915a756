// Command matmul multiplies two matrices on any number of ranks. Each rank holds some rows of all
// matrices. In step k, row k of the second matrix goes to all ranks:
//
//	go build -o matmul ./examples/matmul
//	weft run -n 4 -- ./matmul
//
// It prints, with and without a launcher:
//
//	the trace of the product of two matrices of 120 rows is 13477.03125
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/weftnet/weft/parallel"
)

const n = 120

// The elements of the two matrices.
func left(i, j int) float64  { return float64((i*7+j*3)%11) / 4 }
func right(i, j int) float64 { return float64((i*5+j*j)%13) / 8 }

func main() {
	ctx := context.Background()
	m, err := parallel.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	product, err := multiply(ctx, m)
	if err == nil && m.Rank() == 0 {
		trace := 0.0
		for i := range n {
			trace += product[i*n+i]
		}
		fmt.Printf("the trace of the product of two matrices of %d rows is %v\n", n, trace)
	}
	if err := errors.Join(err, m.Close()); err != nil {
		log.Fatal(err)
	}
}

// multiply returns the product at rank 0.
func multiply(ctx context.Context, m *parallel.Machine) ([]float64, error) {
	s, err := parallel.NewShape(ctx, m, parallel.Axis{Len: n}, parallel.Axis{Len: n})
	if err != nil {
		return nil, err
	}
	a, err1 := parallel.New[float64](s)
	b, err2 := parallel.New[float64](s)
	row, err3 := parallel.New[float64](s)
	product, err4 := parallel.New[float64](s)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	parallel.Fill(a, func(pos []int) float64 { return left(pos[0], pos[1]) })
	parallel.Fill(b, func(pos []int) float64 { return right(pos[0], pos[1]) })
	c := parallel.With(ctx, s)
	for k := range n {
		if err := parallel.Spread(c, row, b, 0, k); err != nil {
			return nil, err
		}
		parallel.Rows3(c, product, a, row, func(_ []int, product, a, row []float64) {
			for j := range product {
				product[j] += a[k] * row[j]
			}
		})
	}
	var all []float64
	if m.Rank() == 0 {
		all = make([]float64, s.Len())
	}
	return all, parallel.Gather(c, product, 0, all)
}
