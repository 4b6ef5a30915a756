package parallel

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
)

// rankCounts lists numbers of ranks that must give the same bits.
var rankCounts = []int{1, 2, 3, 5, 8}

// unevenFloat is a number whose sums round differently in each order.
func unevenFloat(i int) float64 {
	x := math.Sin(float64(i)*1.7) * math.Pow(2, float64(i%61)-30)
	return x + 1/float64(i+3)
}

func TestASumHasTheSameBitsOnAnyNumberOfRanks(t *testing.T) {
	for _, length := range []int{1, 3, 7, 1000, 1023, 1025, 40_001} {
		var mu sync.Mutex
		seen := map[uint64]int{}
		for _, n := range rankCounts {
			onRanks(t, n, func(m *Machine) error {
				ctx := context.Background()
				s := must(NewShape(ctx, m, Axis{Len: length}))
				v := must(on(s, func(pos []int) float64 { return unevenFloat(pos[0]) }))
				sum, err := Reduce(With(ctx, s), v, Sum[float64]())
				mu.Lock()
				defer mu.Unlock()
				seen[math.Float64bits(sum)]++
				return err
			})
		}
		if len(seen) != 1 {
			t.Errorf("the sum of %d floats has %d values on %v ranks: %v", length, len(seen), rankCounts, seen)
		}
	}
}

func TestAScanOfFloatsHasTheSameBitsOnAnyNumberOfRanks(t *testing.T) {
	const length = 5003
	for _, o := range []ScanOpt{{}, {Exclusive: true}, {Reverse: true}, {Exclusive: true, Reverse: true}} {
		var want []float64
		for _, n := range rankCounts {
			got := make([]float64, length)
			onRanks(t, n, func(m *Machine) error {
				ctx := context.Background()
				s := must(NewShape(ctx, m, Axis{Len: length}))
				v := must(on(s, func(pos []int) float64 { return unevenFloat(pos[0]) }))
				d := must(New[float64](s))
				if err := Scan(With(ctx, s), d, v, 0, Sum[float64](), o); err != nil {
					return err
				}
				copy(got[s.Local().Lo[0]:], d.Row())
				return nil
			})
			if want == nil {
				want = got
			}
			for i := range got {
				if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
					t.Fatalf("%+v: element %d is %v on %d ranks and %v on one", o, i, got[i], n, want[i])
				}
			}
		}
	}
}

// conjugate solves a tridiagonal system by conjugate gradients, and returns the number of steps
// and the last residual.
func conjugate(m *Machine, length int) (steps int, rr float64, err error) {
	s, err := NewShape(context.Background(), m, Axis{Len: length, Halo: 1})
	if err != nil {
		return 0, 0, err
	}
	c := With(context.Background(), s)
	fill := func(pos []int) float64 { return unevenFloat(pos[0]) }
	x, r, p := must(New[float64](s)), must(on(s, fill)), must(on(s, fill))
	ap, tmp := must(New[float64](s)), must(New[float64](s))
	dot := func(a, b *Var[float64]) (float64, error) {
		Map2(c, tmp, a, b, func(a, b float64) float64 { return a * b })
		return Reduce(c, tmp, Sum[float64]())
	}
	for rr, err = dot(r, r); err == nil && rr > 1e-12 && steps < 200; steps++ {
		err = Stencil(c, ap, p, Value(0.0), func(at *Window[float64], out []float64) {
			left, right := at.Row(-1), at.Row(1)
			for i, x := range at.Row() {
				out[i] = 2.5*x - left[i] - right[i]
			}
		})
		pap, err2 := dot(p, ap)
		alpha := rr / pap
		Map2(c, x, x, p, func(x, p float64) float64 { return x + alpha*p })
		Map2(c, r, r, ap, func(r, ap float64) float64 { return r - alpha*ap })
		next, err3 := dot(r, r)
		beta := next / rr
		Map2(c, p, p, r, func(p, r float64) float64 { return r + beta*p })
		if err = firstError(err, err2, err3); err == nil {
			rr = next
		}
	}
	return steps, rr, err
}

func TestConjugateGradientsHaveTheSameBitsOnAnyNumberOfRanks(t *testing.T) {
	wantSteps, want, err := conjugate(newMachine(nil, nil, nil, 0), 1500)
	if err != nil || wantSteps < 10 {
		t.Fatal(wantSteps, err)
	}
	for _, n := range rankCounts {
		onRanks(t, n, func(m *Machine) error {
			steps, got, err := conjugate(m, 1500)
			if err == nil && (steps != wantSteps || math.Float64bits(got) != math.Float64bits(want)) {
				err = fmt.Errorf("%d steps to %v; expected %d to %v", steps, got, wantSteps, want)
			}
			return err
		})
	}
}

func TestARankSendsFewPartialResults(t *testing.T) {
	for blocks := 1; blocks <= mostBlocks; blocks += 7 {
		for ranks := 1; ranks <= 40; ranks++ {
			for r := range ranks {
				if n := len(spans(blocks*r/ranks, blocks*(r+1)/ranks)); n > 20 {
					t.Fatalf("rank %d of %d sends %d of %d blocks", r, ranks, n, blocks)
				}
			}
		}
	}
}

func TestTheTreeDoesNotDependOnWhoHoldsABlock(t *testing.T) {
	join := func(a, b string) string { return "(" + a + b + ")" }
	for blocks := 1; blocks < 40; blocks++ {
		want := ""
		for ranks := 1; ranks < 9; ranks++ {
			all := &tree[string]{join: join, lines: 1}
			for r := range ranks {
				own := tree[string]{join: join, lines: 1}
				for b := blocks * r / ranks; b < blocks*(r+1)/ranks; b++ {
					own.push(b, 1, []string{fmt.Sprint(b, ",")})
				}
				list := spans(blocks*r/ranks, blocks*(r+1)/ranks)
				if len(list) != len(own.nodes) {
					t.Fatalf("%d nodes; expected %v", len(own.nodes), list)
				}
				for i, n := range own.nodes {
					if list[i] != [2]int{n.first, n.blocks} {
						t.Fatalf("node %d is %v; expected %v", i, n, list[i])
					}
					all.push(n.first, n.blocks, n.v)
				}
			}
			var got [1]string
			all.prefix(got[:], "")
			if want == "" {
				want = got[0]
			}
			if got[0] != want {
				t.Fatalf("%d blocks on %d ranks are %s; expected %s", blocks, ranks, got[0], want)
			}
		}
	}
}
