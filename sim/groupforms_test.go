package sim_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/sim"
)

// append16 appends the elements of higher ranks to those of lower ranks. The result is a number
// in base 16 that shows the order of the combination.
func append16(into, from []uint64) {
	for i := range into {
		digits := 0
		for x := from[i]; x > 0; x >>= 4 {
			digits++
		}
		into[i] = into[i]<<(4*digits) | from[i]
	}
}

func TestStartedReductionsOfGroupsKeepTheirOrderUnderLoss(t *testing.T) {
	const n = 4
	for seed := range uint64(4) {
		members(t, seed, simulated.Hooks{Pool: seed%2 == 0}, sim.Faults{Loss: 0.03, Reorder: 0.05, Duplicate: 0.02}, n, func(p *sim.Process, g *weft.Group) error {
			ctx := context.Background()
			for _, length := range []int{1, 3, 40_001} { // the last length is reduced in parts
				var ops [4]weft.GroupOp
				sum, product := slices.Repeat([]float32{1}, length), slices.Repeat([]uint64{uint64(g.Rank() + 1)}, length)
				from, to := make([][]byte, n), make([][]byte, n)
				for i := range n {
					from[i], to[i] = bytes.Repeat([]byte{byte(16*g.Rank() + i)}, length*i), make([]byte, length*g.Rank())
				}
				err := errors.Join(
					weft.StartAllReduce(ctx, g, &ops[0], weft.Sum, sum),
					weft.StartAllReduce(ctx, g, &ops[1], weft.Sum, sum),
					weft.StartAllReduceFunc(ctx, g, &ops[2], append16, product),
					g.StartAllToAllParts(ctx, &ops[3], from, to),
					g.Barrier(ctx),
				)
				for i := range ops {
					if done, _ := ops[i].Test(); !done {
						return fmt.Errorf("operation %d is in flight behind a barrier that was called after it", i)
					}
					err = errors.Join(err, ops[i].Wait(ctx))
				}
				if err != nil {
					return err
				}
				for i := range length {
					if sum[i] != n*n || product[i] != 0x1234 {
						return fmt.Errorf("element %d of %d is %v and %#x", i, length, sum[i], product[i])
					}
				}
				for i := range n {
					if !bytes.Equal(to[i], bytes.Repeat([]byte{byte(16*i + g.Rank())}, length*g.Rank())) {
						return fmt.Errorf("other bytes of rank %d than it has sent", i)
					}
				}
			}
			return g.Close()
		})
	}
}

// If a member has no memory for the parts of others, the vectors are broadcast instead.
func TestAMemberWithoutMemoryReducesLongVectorsByAFunctionToo(t *testing.T) {
	const n, length = 3, limits.GatheredReduction/8/3 + 1
	members(t, 1, simulated.Hooks{}, sim.Faults{}, n, func(p *sim.Process, g *weft.Group) error {
		ctx := context.Background()
		var regions []*weft.Region
		for g.Rank() == 1 && len(regions) < limits.Regions { // all regions that it may have
			r, err := p.Alloc(1)
			if err != nil {
				return err
			}
			regions = append(regions, r)
		}
		for _, way := range []string{"without memory", "with memory"} {
			all, at := slices.Repeat([]uint64{uint64(g.Rank() + 1)}, length), slices.Repeat([]uint64{uint64(g.Rank() + 1)}, length)
			if err := errors.Join(weft.AllReduceFunc(ctx, g, append16, all), weft.ReduceFunc(ctx, g, 2, append16, at)); err != nil {
				return fmt.Errorf("%s: %w", way, err)
			}
			kept := uint64(g.Rank() + 1)
			if g.Rank() == 2 {
				kept = 0x123
			}
			if !slices.Equal(all, slices.Repeat([]uint64{0x123}, length)) || !slices.Equal(at, slices.Repeat([]uint64{kept}, length)) {
				return fmt.Errorf("%s: the results are %#x … and %#x …", way, all[0], at[0])
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

// A member dies at some moment of the others' splits, alone or with its NIC. The splits fail at
// all other members, and the survivors split without the dead member.
func TestAMemberThatDiesLeavesSplitsOfGroupsToTheOthers(t *testing.T) {
	const n = 5
	failed := 0
	for seed := range uint64(40) {
		dies := int(seed) % n
		f := sim.New(sim.Config{Seed: seed, NICs: n, Faults: sim.Faults{Loss: 0.02}, UnreachableAfter: 2 * time.Second})
		joined, die := 0, func() {}
		main := func(p *sim.Process) error {
			ctx := context.Background()
			g, err := p.Join(ctx, "m", n)
			if err != nil {
				return err
			}
			if joined++; joined == n { // otherwise the others would wait for it to join
				f.After(time.Duration(seed*17%2000)*time.Microsecond, die)
			}
			for err == nil {
				var part *weft.Group
				if part, err = g.Split(ctx, g.Rank()%2); err == nil {
					part.Close()
				}
			}
			var ge *weft.GroupError
			if !errors.Is(err, weft.ErrGroupBroken) || !errors.As(err, &ge) || ge.Dead.Index != uint32(dies) {
				return fmt.Errorf("when m/%d has died: %w", dies, err)
			}
			if ge.Op == "split" {
				failed++
			}
			if g, err = g.Shrink(ctx); err != nil || g.Size() != n-1 {
				return fmt.Errorf("shrink: %w", err)
			}
			part, err := g.Split(ctx, g.Rank()%2)
			if err != nil {
				return fmt.Errorf("the split of those that are left: %w", err)
			}
			v := []uint64{1}
			if err := weft.AllReduce(ctx, part, weft.Sum, v); err != nil || v[0] != 2 {
				return fmt.Errorf("%v adds up to %d: %w", part, v[0], err)
			}
			return errors.Join(g.Barrier(ctx), part.Close())
		}
		for i := range n {
			if name := fmt.Sprintf("m/%d", i); i != dies {
				f.Process(i, name, main)
			} else {
				// The function fails when its NIC stops.
				p := f.Serve(i, name, func(p *sim.Process) error { _ = main(p); return nil })
				die = func() {
					if seed%3 == 0 {
						f.StopNIC(i)
					} else {
						f.Kill(p)
					}
				}
			}
		}
		if err := f.Run(10 * time.Minute); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if failed == 0 {
		t.Error("no member has died in a split")
	}
}

// Groups are split repeatedly while frames are lost. Each part is a separate group.
func TestGroupsSplitUnderLoss(t *testing.T) {
	const n = 7
	for seed := range uint64(6) {
		members(t, seed, simulated.Hooks{Pool: seed%2 == 0}, sim.Faults{Loss: 0.05, Reorder: 0.05, Duplicate: 0.05}, n, func(p *sim.Process, g *weft.Group) error {
			ctx := context.Background()
			for depth := 0; g.Size() > 1; depth++ {
				p.Runtime().Sleep(ctx, time.Duration(p.Rand().IntN(2000))*time.Microsecond)
				color := (g.Rank()+depth)%3 - 1
				part, err := g.Split(ctx, color)
				if err != nil || (part == nil) != (color < 0) {
					return fmt.Errorf("split of %v by color %d: %v, %w", g, color, part, err)
				}
				if part == nil {
					return nil
				}
				v := []int32{1}
				if err := weft.AllReduce(ctx, part, weft.Sum, v); err != nil || int(v[0]) != part.Size() {
					return fmt.Errorf("%v has %d members: %w", part, v[0], err)
				}
				g = part
			}
			return nil
		})
	}
}
