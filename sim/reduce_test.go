package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/sim"
)

// folded returns the expected result of a reduction of long vectors: it combines the elements of
// all members in the order of their ranks.
func folded[T weft.Element](n, length int, of func(rank, i int) T, f func(a, b T) T) []T {
	v := make([]T, length)
	for i := range v {
		v[i] = of(0, i)
		for rank := 1; rank < n; rank++ {
			v[i] = f(v[i], of(rank, i))
		}
	}
	return v
}

// vectorOf returns the vector of a member.
func vectorOf[T weft.Element](rank, length int, of func(rank, i int) T) []T {
	v := make([]T, length)
	for i := range v {
		v[i] = of(rank, i)
	}
	return v
}

func TestLongVectorsAreReducedAsOneProcessWould(t *testing.T) {
	whole := func(rank, i int) int64 { return int64((rank+3)*(i+7)) ^ int64(i)<<40 }
	// The sums depend on the order of the elements.
	broken := func(rank, i int) float64 { return math.Sqrt(float64(rank+2)) * float64(i%1000) / 7 }
	for n := 2; n <= 5; n++ {
		// The last parts are shorter, or empty.
		for _, length := range []int{n * 8192, n*8192 + 1, n*8192 + n - 1, 100_003} {
			members(t, uint64(length), simulated.Hooks{Pool: length%2 == 0}, sim.Faults{Loss: 0.02, Reorder: 0.05, Duplicate: 0.02}, n, func(p *sim.Process, g *weft.Group) error {
				ctx, me := context.Background(), g.Rank()
				for _, o := range []struct {
					op weft.Operator
					f  func(a, b int64) int64
				}{{weft.Sum, func(a, b int64) int64 { return a + b }}, {weft.Min, func(a, b int64) int64 { return min(a, b) }}, {weft.Xor, func(a, b int64) int64 { return a ^ b }}} {
					v, want := vectorOf(me, length, whole), folded(n, length, whole, o.f)
					if err := weft.AllReduce(ctx, g, o.op, v); err != nil || !slices.Equal(v, want) {
						return fmt.Errorf("%v of %d elements at all %d members: equal %v, %w", o.op, length, n, slices.Equal(v, want), err)
					}
				}
				v, want := vectorOf(me, length, broken), folded(n, length, broken, func(a, b float64) float64 { return a + b })
				if me != n-1 {
					want = slices.Clone(v) // must not change
				}
				if err := weft.Reduce(ctx, g, n-1, weft.Sum, v); err != nil || !slices.Equal(v, want) {
					return fmt.Errorf("sum of %d floats at the last of %d members: equal %v, %w", length, n, slices.Equal(v, want), err)
				}
				return g.Close()
			})
		}
	}
}

// If a member has no memory for the parts of others, all members reduce the vectors like short
// ones. This has no other effect.
func TestAMemberWithoutMemoryReducesLongVectorsToo(t *testing.T) {
	const n, length = 3, 3*8192 + 5
	of := func(rank, i int) int64 { return int64(rank*i + 1) }
	members(t, 1, simulated.Hooks{}, sim.Faults{}, n, func(p *sim.Process, g *weft.Group) error {
		ctx := context.Background()
		want := folded(n, length, of, func(a, b int64) int64 { return a + b })
		var regions []*weft.Region
		for g.Rank() == 1 && len(regions) < limits.Regions { // all regions that it may have
			r, err := p.Alloc(1)
			if err != nil {
				return err
			}
			regions = append(regions, r)
		}
		for _, way := range []string{"without memory", "with memory", "once more"} {
			v := vectorOf(g.Rank(), length, of)
			if err := weft.AllReduce(ctx, g, weft.Sum, v); err != nil || !slices.Equal(v, want) {
				return fmt.Errorf("%s: equal %v, %w", way, slices.Equal(v, want), err)
			}
			for _, r := range regions {
				if err := r.Close(); err != nil {
					return err
				}
			}
			regions = nil
		}
		return g.Close()
	})
}

func TestLongVectorsThatDoNotFitFailAtAllMembers(t *testing.T) {
	const n, length = 3, 3 * 8192
	for _, c := range []struct {
		what   string
		reduce func(ctx context.Context, g *weft.Group, odd bool) error
	}{
		{"other lengths", func(ctx context.Context, g *weft.Group, odd bool) error {
			v := make([]int64, length+1)
			if odd {
				v = make([]int64, length+2)
			}
			return weft.AllReduce(ctx, g, weft.Sum, v)
		}},
		{"a short one", func(ctx context.Context, g *weft.Group, odd bool) error {
			v := make([]int64, length)
			if odd {
				v = v[:3]
			}
			return weft.AllReduce(ctx, g, weft.And, v)
		}},
		{"another operator", func(ctx context.Context, g *weft.Group, odd bool) error {
			o := weft.Min
			if odd {
				o = weft.Max
			}
			return weft.AllReduce(ctx, g, o, make([]int64, length))
		}},
		{"another type", func(ctx context.Context, g *weft.Group, odd bool) error {
			if odd {
				return weft.AllReduce(ctx, g, weft.Min, make([]float64, length))
			}
			return weft.AllReduce(ctx, g, weft.Min, make([]int64, length))
		}},
		{"another root", func(ctx context.Context, g *weft.Group, odd bool) error {
			if odd {
				return weft.Reduce(ctx, g, 2, weft.Min, make([]int64, length))
			}
			return weft.AllReduce(ctx, g, weft.Min, make([]int64, length))
		}},
	} {
		for odd := range n {
			members(t, 1, simulated.Hooks{}, sim.Faults{}, n, func(p *sim.Process, g *weft.Group) error {
				ctx := context.Background()
				if err := c.reduce(ctx, g, g.Rank() == odd); !errors.Is(err, weft.ErrGroupMismatch) {
					return fmt.Errorf("%s at rank %d: %w; want %w", c.what, odd, err, weft.ErrGroupMismatch)
				}
				if err := g.Barrier(ctx); !errors.Is(err, weft.ErrGroupMismatch) {
					return fmt.Errorf("%s at rank %d, and then a barrier: %w; want %w", c.what, odd, err, weft.ErrGroupMismatch)
				}
				g, err := g.Shrink(ctx)
				if err != nil || g.Size() != n {
					return fmt.Errorf("%s at rank %d, and then a smaller group: %w", c.what, odd, err)
				}
				v := []int64{int64(g.Rank())}
				if err := weft.AllReduce(ctx, g, weft.Sum, v); err != nil || v[0] != n*(n-1)/2 {
					return fmt.Errorf("%s at rank %d, and then a new group: %d, %w", c.what, odd, v[0], err)
				}
				return g.Close()
			})
		}
	}
}

// A member dies at some moment of the others' reductions. Each of the others learns the member's
// name, and continues without it.
func TestAMemberThatDiesLeavesLongReductionsToTheOthers(t *testing.T) {
	const n, length = 4, 4*8192 + 3
	of := func(rank, i int) int64 { return int64(rank + i) }
	for seed := range uint64(24) {
		dies := int(seed) % n
		f := sim.New(sim.Config{Seed: seed, NICs: n, Faults: sim.Faults{Loss: 0.02}})
		for i := range n {
			main := func(p *sim.Process) error {
				ctx := context.Background()
				g, err := p.Join(ctx, "m", n)
				if err != nil {
					return err
				}
				for err == nil {
					v := vectorOf(g.Rank(), length, of)
					if err = weft.AllReduce(ctx, g, weft.Sum, v); err == nil && v[length-1] != int64(n*(length-1)+n*(n-1)/2) {
						return fmt.Errorf("the last sum is %d", v[length-1])
					}
				}
				var ge *weft.GroupError
				if !errors.Is(err, weft.ErrGroupBroken) || !errors.As(err, &ge) || ge.Dead.Index != uint32(dies) {
					return fmt.Errorf("when m/%d has died: %w", dies, err)
				}
				if g, err = g.Shrink(ctx); err != nil || g.Size() != n-1 {
					return fmt.Errorf("shrink: %w", err)
				}
				v, want := vectorOf(g.Rank(), length, of), folded(n-1, length, of, func(a, b int64) int64 { return a + b })
				if err = weft.AllReduce(ctx, g, weft.Sum, v); err != nil || !slices.Equal(v, want) {
					return fmt.Errorf("the sums of those that are left: equal %v, %w", slices.Equal(v, want), err)
				}
				return g.Close()
			}
			if name := fmt.Sprintf("m/%d", i); i != dies {
				f.Process(i, name, main)
			} else {
				p := f.Serve(i, name, main)
				f.After(time.Duration(2000+seed*457)*time.Microsecond, func() { f.Kill(p) })
			}
		}
		if err := f.Run(10 * time.Minute); err != nil {
			t.Fatal(err)
		}
	}
}
