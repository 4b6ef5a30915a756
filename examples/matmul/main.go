// Command matmul multiplies two matrices on any number of ranks. Each rank holds some rows of all
// matrices. In step k, row k of the second matrix goes to all ranks. The product at i and j is the
// greatest common divisor of i and j, by a theorem of H. J. S. Smith:
//
//	go build -o matmul ./examples/matmul
//	weft run -n 4 -- ./matmul
//
// It prints, with and without a launcher:
//
//	the product of two matrices of 96 rows has the trace 4656, and 16 at 48,80
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/weftnet/weft/parallel"
)

const n = 96 // rows and columns, which are numbered from 1

// left returns an element of the first matrix: 1 if k divides i, else 0.
func left(i, k int) float64 {
	if i%k == 0 {
		return 1
	}
	return 0
}

// right returns an element of the second matrix. If k divides j, the element is Euler's totient
// of k: the count of the numbers from 1 to k that have no divisor in common with k. Else it is
// 0.
func right(k, j int) float64 {
	count := 0
	if j%k == 0 {
		for i := range k {
			if gcd(i+1, k) == 1 {
				count++
			}
		}
	}
	return float64(count)
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

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
		fmt.Printf("the product of two matrices of %d rows has the trace %v, and %v at 48,80\n",
			n, trace, product[(48-1)*n+80-1])
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
	parallel.Fill(a, func(pos []int) float64 { return left(pos[0]+1, pos[1]+1) })
	parallel.Fill(b, func(pos []int) float64 { return right(pos[0]+1, pos[1]+1) })
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
