package sweep

import (
	"context"
	"fmt"
	"math/bits"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/coll"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/tree"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/sim"
)

// Rounds holds the cost of collective operations over a number of NICs.
type Rounds struct {
	NICs   int `json:"nics"`
	Rounds int `json:"rounds"` // of the busiest NIC in one barrier
	Bound  int `json:"bound"`  // ⌈log2 NICs⌉, for a barrier and for a binomial tree
	// VirtualNS is the virtual time in ns from the first entry to the last exit of one barrier.
	VirtualNS int64 `json:"virtual_ns"`

	// The longest path from the root of a binomial tree, in steps.
	Binomial   int `json:"binomial"`
	Torus      int `json:"torus"`       // the same on a torus that is as square as possible
	TorusBound int `json:"torus_bound"` // log2 of half the row, plus log2 of half the column
}

// Kept reports whether all values are within their bounds.
func (r Rounds) Kept() bool {
	return r.Rounds <= r.Bound && r.Binomial <= r.Bound && r.Torus <= r.TorusBound
}

const (
	roundBarriers = 4                // number of barriers that are measured together
	roundLimit    = 10 * time.Minute // of virtual time
	roundPairs    = 2 * time.Second  // time by which all pairs are open
	roundPause    = 10 * time.Millisecond
)

// Collectives runs barriers, broadcasts and reductions over 2, 4, 8 … most NICs, with one process
// on each, both without positions and on a torus. Each NIC knows only the NICs to which its
// rounds and trees lead, because a thousand NICs that all know each other form half a million
// pairs. So the NICs learn the members of the group directly.
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

func collective(seed uint64, n int) (r Rounds, err error) {
	bound := bits.Len(uint(n - 1))
	width := 1 << (bound / 2)
	plain := crowd{seed: seed, n: n}
	if err := plain.run(); err != nil {
		return r, err
	}
	square := crowd{seed: seed, n: n, width: width}
	if err := square.run(); err != nil {
		return r, fmt.Errorf("on a torus: %w", err)
	}
	return Rounds{
		NICs: n, Rounds: plain.rounds, Bound: bound,
		VirtualNS: int64(plain.left.Sub(plain.entered)) / roundBarriers,
		Binomial:  plain.deepest, Torus: square.deepest,
		TorusBound: bits.Len(uint(width/2)) + bits.Len(uint(n/width/2)),
	}, nil
}

// crowd is a fabric of n NICs with one process each. The processes form one group.
type crowd struct {
	seed          uint64
	n             int
	width         int // width of the torus; 0: no torus
	f             *sim.Fabric
	entered, left time.Time // the first entry and the last exit of the barriers
	rounds        int       // signals of the busiest NIC in one barrier
	deepest       int       // the longest path in the tree of rank 0
}

func (c *crowd) run() error {
	positions := make([]nic.Position, c.n)
	for i := range positions {
		if w := c.width; w > 0 {
			positions[i] = nic.Position{X: uint16(i % w), Y: uint16(i / w), Width: uint16(w),
				Height: uint16((c.n + w - 1) / w)}
		}
	}
	above := tree.Parents(positions, 0, c.n)
	c.f = sim.New(simulated.Hooked(sim.Config{Seed: c.seed, NICs: c.n, TorusWidth: c.width},
		simulated.Hooks{Peers: func(a, b int) bool {
			d := (b - a + c.n) % c.n
			return bits.OnesCount(uint(d)) == 1 || bits.OnesCount(uint(c.n-d)) == 1 || above[a] == b || above[b] == a
		}}))
	for i := range c.n {
		c.f.Process(i, fmt.Sprintf("m/%d", i), func(p *sim.Process) error { return c.member(p, i) })
	}
	c.f.After(roundPairs+limits.GatherWithin+100*time.Millisecond, func() { tellSeats(c.f, c.n) })
	return c.f.Run(roundLimit)
}

// member is the main function of one process.
func (c *crowd) member(p *sim.Process, i int) error {
	p.Runtime().Sleep(context.Background(), roundPairs)
	g, err := p.Join(context.Background(), "all", c.n)
	if err != nil {
		return err
	}
	count := func() int { return int(simulated.Engine(c.f, i).Count(vni.NICSignalsSent)) }
	first := count()
	if c.entered.IsZero() {
		c.entered = p.Runtime().Now()
	}
	for range roundBarriers {
		if err := g.Barrier(context.Background()); err != nil {
			return err
		}
	}
	c.left = p.Runtime().Now()
	c.rounds = max(c.rounds, (count()-first+roundBarriers-1)/roundBarriers)
	p.Runtime().Sleep(context.Background(), roundPause) // later operations send signals too
	depth, err := c.depth(i)
	if err != nil {
		return err
	}
	c.deepest = max(c.deepest, depth)
	return together(g, i, int64(c.n)*int64(c.n-1)/2)
}

// depth returns the number of steps from rank 0 to a member, according to the NICs on the path.
func (c *crowd) depth(rank int) (depth int, err error) {
	key, err := vni.MakeName("all", 0)
	for rank != 0 && err == nil {
		parent, ok := simulated.Engine(c.f, rank).Groups().Above(key, 0)
		if !ok || parent < 0 || depth > c.n {
			return 0, fmt.Errorf("rank %d has no way from rank 0", rank)
		}
		rank = parent
		depth++
	}
	return depth, err
}

// together checks the results of a broadcast and a reduction of all members.
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

// tellSeats tells every NIC about the members at all other NICs.
func tellSeats(f *sim.Fabric, n int) {
	var all []*coll.Table
	for i := range n {
		all = append(all, simulated.Engine(f, i).Groups())
	}
	for i, t := range all {
		t.Learn(all)
		simulated.Turn(f, i)
	}
}
