package parallel

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
)

// rankCounts are numbers of ranks that must give the same bits.
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
