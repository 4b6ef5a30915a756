package sweep

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/sim"
)

// guild is another small fabric. Its processes form one group and do what a team does not: they
// reduce numbers of every type and by functions, move parts of unequal lengths, start operations,
// and split. Frames are lost, and a member may die at any moment. One more may die while the
// others shrink the group. Its promises:
//
//	a reduction has the result that one process computes; by a function, in the order of ranks
//	parts arrive complete, whatever their lengths
//	operations end in the order in which they were started
//	a split makes a group of the members of each color, and no other; no two groups share a name
//	every operation ends; it fails only because of a member that has died, and names that member
//	after a shrink, and more if a member dies during one, all live members are in one group
type guild struct {
	f       *sim.Fabric
	seed    uint64
	members int
	rounds  int
	dies    int // the index of the member that dies; -1: none
	joined  int
	victim  *sim.Process
	dead    bool
	second  int // the index of the member that dies during the shrink; -1: none
	another *sim.Process
	shrinks bool               // a member has begun to shrink the group
	inSplit bool               // the member dies in a split
	gone    map[weft.Name]bool // the dead members, and those that have finished
	parts   map[string]string  // by the name of a part: its members
	done    uint64
	found   []string
}

const guildLimit = 3 * time.Minute // of virtual time

// runGuild runs the guild of a seed, and returns the violations and the number of collective
// operations.
func runGuild(seed uint64, d mutate.Defect) (violations []string, done uint64) {
	rng := rand.New(rand.NewPCG(seed, 0x6775696c64))
	t := &guild{seed: seed, members: 2 + rng.IntN(5), rounds: 4 + rng.IntN(6), dies: -1, parts: map[string]string{},
		gone: map[weft.Name]bool{}}
	if rng.IntN(2) == 0 {
		t.dies = rng.IntN(t.members)
	}
	t.second = t.drawSecond()
	nics := max(2, 1+rng.IntN(t.members))
	rate := func(most float64) float64 { return most * rng.Float64() * float64(rng.IntN(2)) }
	t.f = sim.New(simulated.Hooked(sim.Config{
		Seed: seed, NICs: nics, TorusWidth: rng.IntN(3), Replay: replay(seed, d), UnreachableAfter: teamSilent,
		Faults: sim.Faults{Loss: rate(0.05), Duplicate: rate(0.05), Reorder: rate(0.1), Corrupt: rate(0.01)},
	}, sealed(seed, simulated.Hooks{Defect: d, Pool: rng.IntN(3) == 0})))
	t.inSplit = rng.IntN(2) == 0
	death := time.Duration(rng.IntN(6000)) * time.Microsecond // after all have joined
	for i := range t.members {
		name := fmt.Sprintf("guild/%d", i)
		begin := t.f.Process
		if i == t.dies || i == t.second {
			begin = t.f.Serve
		}
		p := begin(i%nics, name, func(self *sim.Process) error {
			g, err := self.Join(context.Background(), "guild", t.members)
			if err != nil {
				return err
			}
			if t.joined++; t.joined == t.members && t.dies >= 0 && !t.inSplit {
				t.f.After(death, t.kill)
			}
			return t.work(self, g)
		})
		switch i {
		case t.dies:
			t.victim = p
		case t.second:
			t.another = p
		}
	}
	err := t.f.Run(guildLimit)
	if err == nil {
		err = t.f.Settle(teamSettle)
	}
	if err != nil {
		t.violate("%v", err)
		return t.found, t.done
	}
	for host := range nics {
		for _, leak := range simulated.Engine(t.f, host).Leaks() {
			t.violate("NIC %d leaks: %s", host, leak)
		}
	}
	return t.found, t.done
}

// kill ends the member that dies.
func (t *guild) kill() {
	if !t.dead {
		t.dead = true
		t.gone[weft.Name{App: "guild", Index: uint32(t.dies)}] = true
		t.f.Kill(t.victim)
	}
}

// drawSecond draws the member that dies during the shrink, or −1 for none. It uses separate
// random numbers, so that the other choices of a seed do not depend on it.
func (t *guild) drawSecond() int {
	rng := rand.New(rand.NewPCG(t.seed, 0x7365636f6e64))
	if t.dies < 0 || t.members < 4 || rng.IntN(4) == 0 {
		return -1
	}
	return (t.dies + 1 + rng.IntN(t.members-1)) % t.members
}

// shrink makes a group of the live members. While the first member shrinks, the second one dies:
// a shrink takes some tens of microseconds if no frame is lost.
func (t *guild) shrink(p *sim.Process, g *weft.Group) (*weft.Group, error) {
	if t.second >= 0 && !t.shrinks {
		t.shrinks = true
		t.f.After(time.Duration(p.Rand().IntN(40_000))*time.Nanosecond, func() {
			t.gone[weft.Name{App: "guild", Index: uint32(t.second)}] = true
			t.f.Kill(t.another)
		})
	}
	return g.Shrink(context.Background())
}

func (t *guild) violate(format string, args ...any) {
	t.found = append(t.found, "guild: "+fmt.Sprintf(format, args...))
}

// work runs all rounds of a member, in the group or in the group of the survivors.
func (t *guild) work(p *sim.Process, g *weft.Group) error {
	for next := 0; next < t.rounds; next++ {
		p.Runtime().Sleep(context.Background(), time.Duration(p.Rand().IntN(500))*time.Microsecond)
		err := t.round(p, g, next)
		for err != nil {
			if !t.blamesTheDead(err) {
				return fmt.Errorf("round %d of %v: %w", next, g, err)
			}
			if g, err = t.shrink(p, g); err != nil {
				return err
			}
			v := []int64{int64(next)}
			if err = weft.AllReduce(context.Background(), g, weft.Max, v); err == nil {
				next = int(v[0])
			}
		}
	}
	if err := g.Barrier(context.Background()); err != nil && !t.blamesTheDead(err) {
		return err
	}
	t.gone[p.Name()] = true
	return nil
}

func (t *guild) blamesTheDead(err error) bool {
	var ge *weft.GroupError
	return errors.Is(err, weft.ErrGroupBroken) && errors.As(err, &ge) && t.gone[ge.Dead]
}

// round runs the operations that the seed gives for a round.
func (t *guild) round(p *sim.Process, g *weft.Group, round int) error {
	drawn := rand.New(rand.NewPCG(t.seed, uint64(round)))
	length := pick(drawn, 1, 3, 5, 64, 701, 1501)
	t.done++
	switch kind := drawn.IntN(10); kind {
	case 0:
		return reduceGuild(t, p, g, drawn, length, func(x uint64) int32 { return int32(x) })
	case 1:
		return reduceGuild(t, p, g, drawn, length, func(x uint64) uint32 { return uint32(x) })
	case 2:
		return reduceGuild(t, p, g, drawn, length, func(x uint64) int64 { return int64(x) })
	case 3:
		return reduceGuild(t, p, g, drawn, length, func(x uint64) uint64 { return x })
	case 4:
		return reduceGuild(t, p, g, drawn, length, func(x uint64) float32 { return float32(x % 1000) })
	case 5:
		return reduceGuild(t, p, g, drawn, length, func(x uint64) float64 { return float64(x % 1e6) })
	case 6:
		return t.compose(p, g, pick(drawn, 1, 700, 60_000))
	case 7:
		return t.move(p, g, drawn)
	}
	return t.split(p, g, drawn)
}

// element returns the element of a member's vectors at a place.
func (t *guild) element(rank, i int) uint64 {
	x := t.seed ^ uint64(rank+1)*0x9e3779b97f4a7c15 ^ uint64(i+1)*0xbf58476d1ce4e5b9
	x ^= x >> 30
	return x * 0x94d049bb133111eb
}

// reduceGuild reduces the members' numbers twice, by an operation that some members start and
// other members call.
func reduceGuild[T weft.Element](t *guild, p *sim.Process, g *weft.Group, drawn *rand.Rand, length int,
	of func(uint64) T) error {
	o, ctx := pick(drawn, weft.Sum, weft.Min, weft.Max), context.Background()
	v, want := make([]T, length), make([]T, length)
	for i := range v {
		v[i] = of(t.element(g.Rank(), i))
		for rank := range g.Size() {
			switch x := of(t.element(rank, i)); {
			case rank == 0:
				want[i] = x
			case o == weft.Sum:
				want[i] += x
			case o == weft.Min:
				want[i] = min(want[i], x)
			case o == weft.Max:
				want[i] = max(want[i], x)
			}
		}
	}
	var begun weft.GroupOp
	var err error
	if p.Rand().IntN(2) == 0 {
		err = weft.AllReduce(ctx, g, o, v)
	} else if err = weft.StartAllReduce(ctx, g, &begun, o, v); err == nil {
		err = begun.Wait(ctx)
	}
	if err == nil && !slices.Equal(v, want) {
		t.violate("%v of %d elements like %T in %v is not what one process computes", o, length, v[0], g)
	}
	return err
}

// compose combines functions of a number, x ↦ a·x + b. Their composition depends on their order.
func (t *guild) compose(p *sim.Process, g *weft.Group, length int) error {
	type line struct{ a, b uint16 }
	after := func(into, from []line) {
		for i, f := range from {
			into[i] = line{into[i].a * f.a, into[i].a*f.b + into[i].b}
		}
	}
	of := func(rank, i int) line {
		x := t.element(rank, i)
		return line{uint16(x), uint16(x >> 16)}
	}
	v, want := make([]line, length), make([]line, length)
	for i := range v {
		v[i], want[i] = of(g.Rank(), i), of(0, i)
		for rank := 1; rank < g.Size(); rank++ {
			after(want[i:i+1], []line{of(rank, i)})
		}
	}
	ctx := context.Background()
	var op, behind weft.GroupOp
	err := cmp.Or(weft.StartAllReduceFunc(ctx, g, &op, after, v), g.StartBarrier(ctx, &behind))
	if err == nil {
		err = behind.Wait(ctx)
		if done, first := op.Test(); !done {
			t.violate("a barrier of %v has ended before what was started before it", g)
		} else {
			err = cmp.Or(first, err)
		}
	}
	if err == nil && !slices.Equal(v, want) {
		t.violate("%d functions in %v were composed in another order", length, g)
	}
	return err
}

// move moves parts of unequal lengths by every operation.
func (t *guild) move(p *sim.Process, g *weft.Group, drawn *rand.Rand) error {
	n, me, ctx := g.Size(), g.Rank(), context.Background()
	most := pick(drawn, 10, 3000, 30_000)
	length := func(from, to int) int { return int(t.element(from, to)%uint64(most)) * int(t.element(to, from)%4) / 3 }
	part := func(from, to int) []byte { return bytes.Repeat([]byte{byte(16*from + to + 1)}, length(from, to)) }
	own, all, from, to, back := part(me, me), make([][]byte, n), make([][]byte, n), make([][]byte, n),
		make([]byte, length(me, me))
	for i := range n {
		all[i], from[i], to[i] = make([]byte, length(i, i)), part(me, i), make([]byte, length(i, me))
	}
	root := drawn.IntN(n)
	var ops [2]weft.GroupOp
	err := cmp.Or(g.GatherParts(ctx, root, own, all), g.StartScatterParts(ctx, &ops[0], root, all, back),
		g.StartAllToAllParts(ctx, &ops[1], from, to))
	if err != nil {
		return err
	}
	if err := cmp.Or(ops[0].Wait(ctx), ops[1].Wait(ctx)); err != nil {
		return err
	}
	if !bytes.Equal(back, own) {
		t.violate("rank %d of %v got another part back than it gave", me, g)
	}
	for i := range n {
		if me == root && !bytes.Equal(all[i], part(i, i)) || !bytes.Equal(to[i], part(i, me)) {
			t.violate("rank %d of %v got other bytes of rank %d than it has sent", me, g, i)
		}
	}
	return nil
}

// split splits the group, and checks the members of the part.
func (t *guild) split(p *sim.Process, g *weft.Group, drawn *rand.Rand) error {
	if p == t.victim && t.inSplit && t.joined == t.members { // its part is waiting for it by then
		t.f.After(time.Duration(p.Rand().IntN(1000))*time.Microsecond, t.kill)
	}
	colors := 1 + drawn.IntN(3)
	color := func(rank int) int { return int(t.element(rank, colors)%uint64(colors+1)) - 1 }
	part, err := g.Split(context.Background(), color(g.Rank()))
	if err != nil {
		return err
	}
	var want []weft.Name
	for rank := range g.Size() {
		if c := color(rank); c >= 0 && c == color(g.Rank()) {
			want = append(want, g.Member(rank))
		}
	}
	if (part == nil) != (want == nil) {
		t.violate("rank %d of %v with color %d is in the part %v", g.Rank(), g, color(g.Rank()), part)
		return nil
	}
	if part == nil {
		return nil
	}
	var got []weft.Name
	for rank := range part.Size() {
		got = append(got, part.Member(rank))
	}
	members := fmt.Sprint(got)
	if other, ok := t.parts[part.Name()]; !slices.Equal(got, want) || ok && other != members {
		t.violate("the part %v of %v has the members %v, not %v; one of that name had %v", part, g, got, want, other)
	}
	t.parts[part.Name()] = members
	v := []uint32{1}
	if err := weft.AllReduce(context.Background(), part, weft.Sum, v); err != nil {
		if !t.dead || !errors.Is(err, weft.ErrGroupBroken) {
			return err
		}
		// The split has failed at another member, which has left the part. The whole group is
		// broken too.
		return part.Close()
	}
	if int(v[0]) != len(want) {
		t.violate("%v adds up to %d", part, v[0])
	}
	return part.Close()
}
