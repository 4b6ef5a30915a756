package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/sim"
)

// team is a small fabric beside the one of a run, whose processes are one group and do things together, while frames are
// lost and members end. It has promises of its own:
//
//	a barrier lets nobody through before all have entered it
//	a broadcast brings the root's bytes, a reduction the right result
//	everything ends; it fails only because of a member that has gone, and names that one
//	the survivors shrink to a group of exactly themselves
//	in the end every NIC has given back what it held, and forgotten the group
type team struct {
	f       *sim.Fabric
	rng     *rand.Rand
	seed    uint64
	members int
	rounds  int
	ends    map[int]int // by rank in the first group: the operation before which the member ends
	gone    map[weft.Name]bool
	entered map[string]map[weft.Name]bool // by group and operation: who has entered it
	done    uint64
	found   []string
}

const (
	teamLimit  = 2 * time.Minute // of virtual time
	teamSettle = 4 * time.Second
)

// runTeam makes the team run of a seed, and returns what it has found and how many collective operations were done.
func runTeam(seed uint64, d mutate.Defect) (violations []string, done uint64) {
	rng := rand.New(rand.NewPCG(seed, 0x7465616d))
	t := &team{rng: rng, seed: seed, members: 2 + rng.IntN(7), rounds: 6 + rng.IntN(10), ends: map[int]int{}, gone: map[weft.Name]bool{},
		entered: map[string]map[weft.Name]bool{}}
	for range rng.IntN(3) {
		if len(t.ends) < t.members-1 {
			t.ends[rng.IntN(t.members)] = rng.IntN(t.rounds)
		}
	}
	nics := 1 + rng.IntN(t.members)
	rate := func(most float64) float64 { return most * rng.Float64() * float64(rng.IntN(2)) }
	t.f = sim.New(sim.Config{
		Seed: seed, NICs: max(nics, 2), TorusWidth: rng.IntN(3), Replay: replay(seed, d), UnreachableAfter: 8 * time.Second, // no bad luck with probes
		Faults: sim.Faults{Loss: rate(0.05), Duplicate: rate(0.05), Reorder: rate(0.1), Corrupt: rate(0.01)},
		Hooks:  sim.Hooks{Defect: d, Pool: rng.IntN(3) == 0},
	})
	for i := range t.members {
		t.f.Process(i%nics, fmt.Sprintf("team/%d", i), func(p *sim.Process) error { return t.member(p, i) })
	}
	err := t.f.Run(teamLimit)
	if err == nil {
		err = t.f.Settle(teamSettle)
	}
	if err != nil {
		t.violate("%v", err)
		return t.found, t.done
	}
	for host := range max(nics, 2) {
		e := t.f.Engine(host)
		for _, leak := range e.Leaks() {
			t.violate("NIC %d leaks: %s", host, leak)
		}
		if g := e.Groups(); len(g) > 0 {
			t.violate("NIC %d still knows the groups %+v", host, g)
		}
	}
	return t.found, t.done
}

func (t *team) violate(format string, args ...any) {
	t.found = append(t.found, "team: "+fmt.Sprintf(format, args...))
}

// member is the main function of one. It goes on from group to group until it ends or all rounds are done.
func (t *team) member(p *sim.Process, i int) error {
	self := weft.Name{App: "team", Index: uint32(i)}
	g, err := p.Join(context.Background(), "team", t.members)
	if err != nil {
		return err // nobody ends before all have joined
	}
	for next := 0; next < t.rounds; next++ {
		p.Sleep(time.Duration(p.Rand().IntN(500)) * time.Microsecond)
		if at, ends := t.ends[i]; ends && next >= at {
			t.gone[self] = true
			return nil
		}
		if err := t.operation(p, g, self, next); err != nil {
			if g, next, err = t.recover(p, g, next, err); err != nil {
				return err
			}
		}
	}
	if err := g.Barrier(context.Background()); err != nil && !t.blamesTheDead(err) { // who is through may leave before we know
		return err
	}
	t.gone[self] = true
	return g.Close()
}

// recover shrinks a broken group, and has its members agree on the operation to go on after.
func (t *team) recover(p *sim.Process, g *weft.Group, next int, err error) (*weft.Group, int, error) {
	for {
		if !t.blamesTheDead(err) {
			return nil, 0, err
		}
		n, err := g.Shrink(context.Background())
		if err != nil {
			return nil, 0, err
		}
		g = n
		for rank := range g.Size() {
			if name := g.Member(rank); t.gone[name] && g.Size() == t.members {
				t.violate("%v has gone, and is in the group of epoch %d", name, g.Epoch())
			}
		}
		v := []int64{int64(next)}
		if err = weft.AllReduce(context.Background(), g, weft.Max, v); err == nil {
			return g, int(v[0]), nil
		}
		if !t.blamesTheDead(err) {
			return nil, 0, err
		}
	}
}

// blamesTheDead reports whether an operation failed because of a member that has gone.
func (t *team) blamesTheDead(err error) bool {
	var ge *weft.GroupError
	return errors.Is(err, weft.ErrGroupBroken) && errors.As(err, &ge) && t.gone[ge.Dead]
}

// operation does what the seed has for the round, and looks at the outcome.
func (t *team) operation(p *sim.Process, g *weft.Group, self weft.Name, round int) error {
	ctx := context.Background()
	drawn := rand.New(rand.NewPCG(t.seed, uint64(round)))
	kind, root := drawn.IntN(4), drawn.IntN(g.Size())
	size := pick(drawn, 0, 8, 64, 1000, 5000, 70_000, 600_000)
	key := fmt.Sprint(g.Epoch(), " ", round)
	if t.entered[key] == nil {
		t.entered[key] = map[weft.Name]bool{}
	}
	t.entered[key][self] = true
	t.done++
	switch kind {
	case 0, 1:
		if err := g.Barrier(ctx); err != nil {
			return err
		}
		for rank := range g.Size() {
			if m := g.Member(rank); !t.entered[key][m] {
				t.violate("%v came through the barrier of round %d, epoch %d, before %v had entered it", self, round, g.Epoch(), m)
			}
		}
	case 2:
		buf, want := make([]byte, size), bytes.Repeat([]byte{byte(round + 1)}, size)
		if g.Rank() == root {
			copy(buf, want)
		}
		if err := g.Broadcast(ctx, root, buf); err != nil {
			return err
		}
		if !bytes.Equal(buf, want) {
			t.violate("%v got other bytes than were broadcast in round %d", self, round)
		}
	case 3:
		v := slices.Repeat([]int64{int64(g.Rank() + round)}, size/64)
		if err := weft.AllReduce(ctx, g, weft.Sum, v); err != nil {
			return err
		}
		n := int64(g.Size())
		for _, x := range v {
			if want := n*(n-1)/2 + n*int64(round); x != want {
				t.violate("%v got %d as the sum of round %d, not %d", self, x, round, want)
				break
			}
		}
	}
	return nil
}
