package sim_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/sim"
)

// members starts n processes, two on each host, joins them in a group, and runs a function in
// each.
func members(t *testing.T, seed uint64, hooks simulated.Hooks, faults sim.Faults, n int, main func(p *sim.Process, g *weft.Group) error) {
	t.Helper()
	f := sim.New(simulated.Hooked(sim.Config{Seed: seed, NICs: (n + 1) / 2, Faults: faults}, hooks))
	for i := range n {
		f.Process(i/2, fmt.Sprintf("m/%d", i), func(p *sim.Process) error {
			g, err := p.Join(context.Background(), "m", n)
			if err != nil {
				return err
			}
			return main(p, g)
		})
	}
	if err := f.Run(10 * time.Minute); err != nil {
		t.Fatal(err)
	}
}

func TestGroupsThatStageThroughTheirPool(t *testing.T) {
	for seed := range uint64(6) {
		hooks := simulated.Hooks{Pool: seed%2 == 0}
		members(t, seed, hooks, sim.Faults{Loss: 0.03, Duplicate: 0.02, Reorder: 0.05}, 5, func(p *sim.Process, g *weft.Group) error {
			ctx := context.Background()
			for k, size := range []int{0, 8, 800, 30_000, 600_000} {
				p.Runtime().Sleep(context.Background(), time.Duration(p.Rand().IntN(3000))*time.Microsecond)
				want, buf := bytes.Repeat([]byte{byte(k + 1)}, size), make([]byte, size)
				if g.Rank() == k {
					copy(buf, want)
				}
				if err := g.Broadcast(ctx, k, buf); err != nil || !bytes.Equal(buf, want) {
					return fmt.Errorf("broadcast of %d bytes: %w", size, err)
				}
				v := make([]int64, size/8)
				for i := range v {
					v[i] = int64(g.Rank() + i)
				}
				if err := weft.AllReduce(ctx, g, weft.Sum, v); err != nil {
					return err
				}
				for i, x := range v {
					if x != int64(10+5*i) {
						return fmt.Errorf("sum of %d elements: the one at %d is %d", len(v), i, x)
					}
				}
				all := make([]byte, 5*size)
				if err := g.AllGather(ctx, bytes.Repeat([]byte{byte(g.Rank())}, size), all); err != nil {
					return err
				}
				for i, b := range all {
					if int(b) != i/size {
						return fmt.Errorf("all-gather of %d bytes: byte %d is %d", size, i, b)
					}
				}
			}
			return g.Close()
		})
	}
}

func TestAGroupOutlivesItsMembersOneByOne(t *testing.T) {
	for seed := range uint64(12) {
		members(t, seed, simulated.Hooks{}, sim.Faults{Loss: 0.05}, 6, func(p *sim.Process, g *weft.Group) (err error) {
			ctx := context.Background()
			me := g.Rank()
			for alive := 6; alive > 1; alive-- {
				p.Runtime().Sleep(context.Background(), time.Duration(p.Rand().IntN(2000))*time.Microsecond)
				if me == 6-alive { // ends silently, at some moment of the others' barriers
					return nil
				}
				for err == nil {
					err = g.Barrier(ctx)
				}
				var ge *weft.GroupError
				if !errors.Is(err, weft.ErrGroupBroken) || !errors.As(err, &ge) || ge.Dead.Index != uint32(6-alive) {
					return fmt.Errorf("with %d alive: %w", alive, err)
				}
				if g, err = g.Shrink(ctx); err != nil || g.Size() != alive-1 {
					return fmt.Errorf("shrink from %d: %w", alive, err)
				}
			}
			return g.Close()
		})
	}
}

func TestSimulatedProcessesListTheirApplication(t *testing.T) { // QNIX-55
	members(t, 2, simulated.Hooks{}, sim.Faults{Loss: 0.05}, 4, func(p *sim.Process, g *weft.Group) error {
		names, err := p.AppGroup(context.Background())
		if err != nil || len(names) != 4 || names[3] != g.Member(3) {
			return fmt.Errorf("the application's group is %v, %w", names, err)
		}
		return g.Barrier(context.Background())
	})
}
