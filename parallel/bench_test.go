package parallel

import (
	"context"
	"testing"
)

const benchSide = 1024

func BenchmarkJacobiPlain(b *testing.B) {
	const n = benchSide + 2
	u, next := make([]float64, n*n), make([]float64, n*n)
	for b.Loop() {
		for i := 1; i < n-1; i++ {
			out := next[i*n+1 : i*n+n-1]
			up, down := u[(i-1)*n+1:][:len(out)], u[(i+1)*n+1:][:len(out)]
			left, right := u[i*n:][:len(out)], u[i*n+2:][:len(out)]
			for j := range out {
				out[j] = (up[j] + down[j] + left[j] + right[j]) / 4
			}
		}
		u, next = next, u
	}
}

func BenchmarkJacobi(b *testing.B) {
	axis := Axis{Len: benchSide, Halo: 1}
	s := must(NewShape(context.Background(), newMachine(nil, nil, nil, 0), axis, axis))
	u, next := must(New[float64](s)), must(New[float64](s))
	c := With(context.Background(), s)
	b.ReportAllocs()
	for b.Loop() {
		err := Stencil(c, next, u, Value(0.0), func(at *Window[float64], out []float64) {
			up, down := at.Row(-1, 0)[:len(out)], at.Row(1, 0)[:len(out)]
			left, right := at.Row(0, -1)[:len(out)], at.Row(0, 1)[:len(out)]
			for j := range out {
				out[j] = (up[j] + down[j] + left[j] + right[j]) / 4
			}
		})
		if err != nil {
			b.Fatal(err)
		}
		u, next = next, u
	}
}

const benchLength = 1 << 24

func BenchmarkCopy(b *testing.B) {
	x, y := make([]int64, benchLength), make([]int64, benchLength)
	for b.Loop() {
		copy(y, x)
	}
}

func BenchmarkScan(b *testing.B) {
	s := must(NewShape(context.Background(), newMachine(nil, nil, nil, 0), Axis{Len: benchLength}))
	x, y := must(New[int64](s)), must(New[int64](s))
	c := With(context.Background(), s)
	b.ReportAllocs()
	for b.Loop() {
		if err := Scan(c, y, x, 0, Sum[int64](), ScanOpt{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSumPlain(b *testing.B) {
	x := make([]float64, benchLength)
	sum := 0.0
	for b.Loop() {
		for _, e := range x {
			sum += e
		}
	}
	_ = sum
}

func BenchmarkSum(b *testing.B) {
	s := must(NewShape(context.Background(), newMachine(nil, nil, nil, 0), Axis{Len: benchLength}))
	x := must(New[float64](s))
	c := With(context.Background(), s)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Reduce(c, x, Sum[float64]()); err != nil {
			b.Fatal(err)
		}
	}
}
