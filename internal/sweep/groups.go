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
	"github.com/weftnet/weft/internal/coll"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/sim"
)

// team is a small fabric in addition to the fabric of a run. Its processes form one group and
// call collective operations, while frames are lost and members end. It has its own promises:
//
//	a barrier lets no member through before all have entered it
//	a broadcast delivers the root's bytes, and a reduction the right result
//	every operation ends; it fails only because of a member that is gone, and names that member
//	an operation that a member has completed before its end completes for the others
//	processes that join a group of fewer members get the same members, or no group
//	the survivors shrink to a group of exactly themselves
//	no NIC exceeds its limits or differs from its own counts
//	in the end every NIC has released its resources and forgotten the group
type team struct {
	f       *sim.Fabric
	rng     *rand.Rand
	seed    uint64
	members int
	nics    int
	rounds  int
	ends    map[int]int   // by rank in the first group: the operation before which a member ends
	crash   bool          // a member does not end alone: its NIC crashes with all its members
	crashed time.Duration // time of the last crash
	unsure  int           // how often the first member joins and gives up
	joined  int           // members that are in the first group
	gone    map[weft.Name]bool
	// By group and operation: the members that have entered it.
	entered map[string]map[weft.Name]bool
	through map[string]map[weft.Name]bool // and the members for which it has completed
	// Members of the group that each process of the crowd has joined.
	crowd map[weft.Name][]weft.Name
	done  uint64
	polls int
	found []string
}

const (
	teamLimit  = 3 * time.Minute // of virtual time
	teamSettle = 4 * time.Second
	// Until a NIC is given up: long, so that lost probes do not suffice.
	teamSilent = 8 * time.Second
	// Until every member knows; a member that is not told finds out later.
	teamNews  = teamSilent + 2*time.Second
	teamWaits = time.Second // for the news of joins that were given up
)

// runTeam runs the team of a seed, and returns the violations and the number of collective
// operations.
func runTeam(seed uint64, d mutate.Defect) (violations []string, done uint64) {
	rng := rand.New(rand.NewPCG(seed, 0x7465616d))
	t := &team{rng: rng, seed: seed, members: 2 + rng.IntN(7), rounds: 6 + rng.IntN(10), ends: map[int]int{},
		gone:    map[weft.Name]bool{},
		entered: map[string]map[weft.Name]bool{}, through: map[string]map[weft.Name]bool{},
		crowd: map[weft.Name][]weft.Name{}}
	for range rng.IntN(3) {
		if len(t.ends) < t.members-1 {
			t.ends[rng.IntN(t.members)] = rng.IntN(t.rounds)
		}
	}
	t.nics = 1 + rng.IntN(t.members)
	t.crash, t.unsure = rng.IntN(2) == 0, 4*rng.IntN(2)
	hosts := max(t.nics, 2)
	rate := func(most float64) float64 { return most * rng.Float64() * float64(rng.IntN(2)) }
	t.f = sim.New(simulated.Hooked(sim.Config{
		Seed: seed, NICs: hosts, TorusWidth: rng.IntN(3), Replay: replay(seed, d), UnreachableAfter: teamSilent,
		Faults: sim.Faults{Loss: rate(0.05), Duplicate: rate(0.05), Reorder: rate(0.1), Corrupt: rate(0.01)},
	}, sealed(seed, simulated.Hooks{Defect: d, Pool: rng.IntN(3) == 0, Check: t.checkLimits})))
	for i := range t.members {
		t.f.Process(i%t.nics, fmt.Sprintf("team/%d", i), func(p *sim.Process) error { return t.member(p, i) })
	}
	t.startCrowd(2+rng.IntN(2), 1+rng.IntN(2))
	err := t.f.Run(teamLimit)
	if err == nil {
		err = t.f.Settle(teamSettle)
	}
	if err != nil {
		t.violate("%v", err)
		return t.found, t.done
	}
	for host := range hosts {
		e := simulated.Engine(t.f, host)
		if e == nil {
			continue // the NIC has crashed
		}
		for _, leak := range e.Leaks() {
			t.violate("NIC %d leaks: %s", host, leak)
		}
		for _, g := range e.Groups().Groups() {
			if !t.silent(g.Members) {
				t.violate("NIC %d still knows the group %+v", host, g)
			}
		}
	}
	return t.found, t.done
}

// checkLimits checks from time to time whether a NIC keeps its own limits.
func (t *team) checkLimits(e *nic.Engine) error {
	if t.polls++; t.polls%checkEvery != 0 {
		return nil
	}
	return e.Limits()
}

// silent reports whether all the given members are on NICs that have crashed. A NIC that has
// never waited for these members has not noticed the crash, and no other NIC is left to tell it.
func (t *team) silent(members []coll.Member) bool {
	return len(members) > 0 && !slices.ContainsFunc(members,
		func(m coll.Member) bool { return simulated.Engine(t.f, int(m.NIC-nicID(0))) != nil })
}

func (t *team) violate(format string, args ...any) {
	t.found = append(t.found, "team: "+fmt.Sprintf(format, args...))
}

// member is the main function of one process. It continues from group to group until it ends or
// all rounds are done.
func (t *team) member(p *sim.Process, i int) error {
	self := weft.Name{App: "team", Index: uint32(i)}
	g, err := t.join(p, i)
	if err != nil {
		return err // no member ends before all have joined
	}
	t.joined++
	if err := t.work(p, g, self); err != nil && !(t.gone[self] && errors.Is(err, weft.ErrNICGone)) {
		return err
	}
	return nil
}

// join joins the first group. One member may be unsure, and give up its join a few times before
// the final one. The others wait for the news of that, so that they join a group of members that
// stay.
func (t *team) join(p *sim.Process, i int) (*weft.Group, error) {
	if i > 0 && t.unsure > 0 {
		p.Runtime().Sleep(context.Background(), teamWaits)
	}
	for n := t.unsure; i == 0 && n > 0; n-- {
		ctx, cancel := p.Runtime().WithTimeout(context.Background(),
			time.Duration(1+p.Rand().IntN(200))*time.Microsecond)
		g, err := p.Join(ctx, "team", t.members)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			return g, err
		}
	}
	return p.Join(context.Background(), "team", t.members)
}

// work runs the rounds of a member in the group.
func (t *team) work(p *sim.Process, g *weft.Group, self weft.Name) error {
	for next := 0; next < t.rounds; next++ {
		p.Runtime().Sleep(context.Background(), time.Duration(p.Rand().IntN(500))*time.Microsecond)
		if at, ends := t.ends[int(self.Index)]; ends && next >= at {
			t.end(p, self)
			return nil
		}
		if err := t.operation(p, g, self, next); err != nil {
			if g, next, err = t.recover(p, g, next, err); err != nil {
				return err
			}
		}
	}
	// A member that has finished may leave before this member knows.
	if err := g.Barrier(context.Background()); err != nil && !t.blamesTheDead(err) {
		return err
	}
	t.gone[self] = true
	return g.Close()
}

// end ends a member. In a run with crashes, it ends all members on the same NIC. The NIC restarts
// after a while.
func (t *team) end(p *sim.Process, self weft.Name) {
	for t.crash && t.joined < t.members {
		p.Runtime().Sleep(context.Background(), time.Millisecond)
	}
	t.gone[self] = true
	if !t.crash {
		return
	}
	host := int(self.Index) % t.nics
	for i := host; i < t.members; i += t.nics {
		t.gone[weft.Name{App: "team", Index: uint32(i)}] = true
	}
	t.f.StopNIC(host)
	t.crashed = t.f.Elapsed()
	if p.Rand().IntN(2) == 0 {
		t.f.After(time.Duration(p.Rand().IntN(20_000))*time.Millisecond, func() { t.f.StartNIC(host) })
	}
}

// recover shrinks a broken group, and makes its members agree on the operation after which they
// continue.
func (t *team) recover(p *sim.Process, g *weft.Group, next int, err error) (*weft.Group, int, error) {
	if late := t.f.Elapsed() - t.crashed; t.crash && late > teamNews {
		t.violate("a member on host %d learned only after %v that a NIC of members has crashed", p.Host(), late)
	}
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

// blamesTheDead reports whether an operation failed because of a member that is gone.
func (t *team) blamesTheDead(err error) bool {
	var ge *weft.GroupError
	return errors.Is(err, weft.ErrGroupBroken) && errors.As(err, &ge) && t.gone[ge.Dead]
}

// operation calls the operation that the seed gives for the round, and checks the result.
func (t *team) operation(p *sim.Process, g *weft.Group, self weft.Name, round int) error {
	key := fmt.Sprint(g.Epoch(), " ", round)
	err := t.begin(p, g, self, round, key)
	var ge *weft.GroupError
	if err == nil {
		note(t.through, key, self)
	} else if errors.As(err, &ge) && !t.crash && t.through[key][ge.Dead] {
		t.violate("%v failed in round %d, epoch %d, because of %v, which had completed it: %v", self, round,
			g.Epoch(), ge.Dead, err)
	}
	return err
}

// note adds a member to the members of a group and operation.
func note(at map[string]map[weft.Name]bool, key string, member weft.Name) {
	if at[key] == nil {
		at[key] = map[weft.Name]bool{}
	}
	at[key][member] = true
}

func (t *team) begin(p *sim.Process, g *weft.Group, self weft.Name, round int, key string) error {
	ctx := context.Background()
	drawn := rand.New(rand.NewPCG(t.seed, uint64(round)))
	kind, root := drawn.IntN(5), drawn.IntN(g.Size())
	size := pick(drawn, 0, 8, 64, 1000, 5000, 70_000, 600_000)
	note(t.entered, key, self)
	t.done++
	switch kind {
	case 0, 1:
		if err := g.Barrier(ctx); err != nil {
			return err
		}
		for rank := range g.Size() {
			if m := g.Member(rank); !t.entered[key][m] {
				t.violate("%v came through the barrier of round %d, epoch %d, before %v had entered it", self, round,
					g.Epoch(), m)
			}
		}
	case 2:
		return t.broadcast(g, self, root, size, byte(round))
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
	case 4: // more than a NIC keeps for a late member
		if g.Rank() == drawn.IntN(g.Size()) && g.Rank() != root {
			p.Runtime().Sleep(context.Background(), 20*time.Millisecond)
		}
		for k := range byte(4) {
			if err := t.broadcast(g, self, root, 180_000, k); err != nil {
				return err
			}
		}
	}
	return nil
}

// broadcast checks whether all members get the root's bytes.
func (t *team) broadcast(g *weft.Group, self weft.Name, root, size int, with byte) error {
	buf, want := make([]byte, size), bytes.Repeat([]byte{with + 1}, size)
	if g.Rank() == root {
		copy(buf, want)
	}
	if err := g.Broadcast(context.Background(), root, buf); err != nil {
		return err
	}
	if !bytes.Equal(buf, want) {
		t.violate("%v got other bytes than rank %d has broadcast in epoch %d", self, root, g.Epoch())
	}
	return nil
}

// startCrowd makes processes join a group of fewer members, at about the same time. It is open
// which members the NICs agree on, if any. But the processes that join must have the same
// members.
func (t *team) startCrowd(size, more int) {
	for i := range size + more {
		name := weft.Name{App: "crowd", Index: uint32(i)}
		t.f.Process(i%t.nics, name.String(), func(p *sim.Process) error {
			p.Runtime().Sleep(context.Background(), time.Duration(p.Rand().IntN(40))*time.Microsecond)
			ctx, cancel := p.Runtime().WithTimeout(context.Background(), teamWaits)
			defer cancel()
			g, err := p.Join(ctx, "crowd", size)
			if err != nil {
				return nil
			}
			for rank := range g.Size() {
				t.crowd[name] = append(t.crowd[name], g.Member(rank))
			}
			for other, members := range t.crowd {
				if slices.Contains(members, name) != slices.Equal(members, t.crowd[name]) {
					t.violate("%v is in a group with %v, %v in one with %v", name, t.crowd[name], other, members)
				}
			}
			return nil
		})
	}
}
