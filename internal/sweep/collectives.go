package sweep

import (
	"context"
	"fmt"
	"math/bits"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/sim"
)

// Rounds is what a barrier over so many NICs took.
type Rounds struct {
	NICs      int   `json:"nics"`
	Rounds    int   `json:"rounds"`     // that the busiest NIC went through in one barrier
	Bound     int   `json:"bound"`      // ⌈log2 NICs⌉
	VirtualNS int64 `json:"virtual_ns"` // from the first entry to the last exit, of one barrier, in ns of virtual time
}

// Kept reports whether the barrier kept its bound.
func (r Rounds) Kept() bool { return r.Rounds <= r.Bound }

const (
	roundBarriers = 4                // measured together
	roundLimit    = 10 * time.Minute // of virtual time
	roundPairs    = 2 * time.Second  // by when all pairs are open
)

// Collectives runs barriers and a broadcast over 2, 4, 8 … most NICs, one process on each. Each NIC knows those that its
// rounds and trees lead to, since a thousand NICs that all know each other are half a million pairs; the group is told to
// them directly.
func Collectives(ctx context.Context, seed uint64, most int) ([]Rounds, error) {
	var all []Rounds
	for n := 2; n <= most; n *= 2 {
		if err := ctx.Err(); err != nil {
			return all, err
		}
		r, err := collective(seed, n)
		if err != nil {
			return all, fmt.Errorf("%d NICs: %w", n, err)
		}
		all = append(all, r)
	}
	return all, nil
}

func collective(seed uint64, n int) (Rounds, error) {
	r := Rounds{NICs: n, Bound: bits.Len(uint(n - 1))}
	f := sim.New(sim.Config{Seed: seed, NICs: n, Hooks: sim.Hooks{Peers: func(a, b int) bool {
		d := (b - a + n) % n
		return bits.OnesCount(uint(d)) == 1 || bits.OnesCount(uint(n-d)) == 1
	}}})
	var entered, left time.Time
	var before, after uint64
	sum := int64(n) * int64(n-1) / 2
	for i := range n {
		f.Process(i, fmt.Sprintf("m/%d", i), func(p *sim.Process) error {
			p.Sleep(roundPairs)
			g, err := p.Join(context.Background(), "all", n)
			if err != nil {
				return err
			}
			count := func() uint64 { return f.Engine(i).Count(vni.NICSignalsSent) }
			first := count()
			if entered.IsZero() {
				entered = p.Now()
			}
			for range roundBarriers {
				if err := g.Barrier(context.Background()); err != nil {
					return err
				}
			}
			left = p.Now()
			if d := count() - first; d > after-before {
				before, after = first, first+d
			}
			return together(g, i, sum)
		})
	}
	f.After(roundPairs+100*time.Millisecond, func() { tellSeats(f, n) })
	if err := f.Run(roundLimit); err != nil {
		return r, err
	}
	r.Rounds = int((after - before + roundBarriers - 1) / roundBarriers)
	r.VirtualNS = int64(left.Sub(entered)) / roundBarriers
	return r, nil
}

// together looks whether a broadcast and a reduction of all members come out right.
func together(g *weft.Group, rank int, sum int64) error {
	buf := make([]byte, 8)
	if rank == 0 {
		copy(buf, "together")
	}
	if err := g.Broadcast(context.Background(), 0, buf); err != nil || string(buf) != "together" {
		return fmt.Errorf("broadcast brought %q: %w", buf, err)
	}
	v := []int64{int64(rank)}
	if err := weft.AllReduce(context.Background(), g, weft.Sum, v); err != nil || v[0] != sum {
		return fmt.Errorf("the sum of all ranks is %d, not %d: %w", v[0], sum, err)
	}
	return nil
}

// tellSeats tells every NIC who the members are.
func tellSeats(f *sim.Fabric, n int) {
	var seats []nic.Seat
	for i := range n {
		seats = append(seats, f.Engine(i).Seats()...)
	}
	for i := range n {
		f.Engine(i).AddSeats(seats)
		f.Turn(i)
	}
}
