package coll

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A hanging program shows for each process which operation it waits in, and for how long.
func TestAProcessStandsInItsOldestOperation(t *testing.T) {
	g := pair(t)
	g.member(0).since = 100
	stands := func(when string, want Standing) {
		t.Helper()
		l, others := g.Standings(g.local[0], clock.Time(1001), 9)
		want.Key, want.Size, want.Present = teamKey, 2, max(want.Present, 1)
		if len(l) != 1 || others != 0 || l[0] != want {
			t.Errorf("%s: %+v and %d others; expected %+v", when, l, others, want)
		}
	}
	stands("between operations", Standing{State: StandingOpen, Present: 2, For: 901})
	sum := uint64(vni.SumUint64) << 32
	g.start(0, vni.CodeBroadcast, 1, make([]byte, 8))
	g.start(0, vni.CodeReduce, sum|vni.AllRanks, make([]byte, 8))
	g.start(0, vni.CodeBarrier, 0, nil)
	first := Step{Number: 1, Kind: StepBroadcast, Root: 1, Name: g.member(0).g.seats[1].name}
	stands("in three operations", Standing{State: StandingOpen, Present: 2, In: first, Under: 3, For: 1000})
	g.broadcast(1, 8)
	stands("in two", Standing{State: StandingOpen, Present: 2, In: Step{Number: 2, Kind: StepReduce, Root: -1}, Under: 2, Done: 1, For: 1000})
	lost := g.member(0).g.seats[1]
	g.Down(g.peers[2], false)
	stands("broken", Standing{State: StandingBroken, In: Step{Number: 2, Kind: StepReduce, Root: -1}, Done: 1, For: 1000, Lost: lost.name, LostAt: lost.Address})
	g.start(0, vni.CodeBroadcast, 0, nil) // later failures do not replace the first
	stands("broken, with a later operation", Standing{State: StandingBroken, In: Step{Number: 2, Kind: StepReduce, Root: -1}, Done: 1, For: 1000, Lost: lost.name, LostAt: lost.Address})
}

// A process whose group breaks between operations stands in the first operation that it asks for
// afterwards.
func TestAProcessOfABrokenGroupStandsInTheFirstThatFailed(t *testing.T) {
	for what, c := range map[string]struct {
		code vni.Code
		tag  uint64
		want Step
	}{
		"a barrier":                {vni.CodeBarrier, 5, Step{Number: 1, Kind: StepBarrier, Root: -1}},
		"a broadcast":              {vni.CodeBroadcast, 0, Step{Number: 1, Kind: StepBroadcast, Root: 0, Name: process(0).Name}},
		"a broadcast of no member": {vni.CodeBroadcast, 2, Step{}},
		"a reduction":              {vni.CodeReduce, uint64(vni.SumUint64) << 32, Step{Number: 1, Kind: StepReduce, Root: 0, Name: process(0).Name}},
		"a reduction for all":      {vni.CodeReduce, uint64(vni.SumUint64)<<32 | vni.AllRanks, Step{Number: 1, Kind: StepReduce, Root: -1}},
	} {
		g := pair(t)
		g.hear(signalMismatch, 0, 1, g.member(0).g.sum)
		g.start(0, c.code, c.tag, make([]byte, 8))
		if l, _ := g.Standings(g.local[0], 5, 9); l[0].In != c.want || l[0].State != StandingBroken || !l[0].Mismatch || l[0].Lost != (vni.Name{}) {
			t.Errorf("%s: %+v; expected %+v", what, l[0], c.want)
		}
	}
}

// A joining process stands in its join. If there are many groups, the first are told, and the
// others are counted.
func TestAProcessStandsInItsJoins(t *testing.T) {
	e := newEngine(t, 0)
	p := process(0)
	for i := range 5 {
		e.asks(p, numbered(i), 0, 3)
	}
	l, others := e.Standings(p, clock.Time(1+time.Second), 2)
	if len(l) != 2 || others != 3 {
		t.Fatalf("%d are told, and %d others counted", len(l), others)
	}
	for i, s := range l {
		if want := (Standing{Key: numbered(i), State: StandingJoins, Size: 3, Present: 1, Rank: -1, In: Step{Kind: StepJoin, Root: -1}, Under: 1, For: time.Second}); s != want {
			t.Errorf("group %d: %+v; expected %+v", i, s, want)
		}
	}
}

// Tools learn the memory use of the table. Simulations learn where a member stands in the tree,
// and what others know.
func TestATableTellsWhatItHas(t *testing.T) {
	w := newWorld(t, 3)
	all := w.group(teamKey, 0, 1, 2, 0)
	if u := w.nics[1].Usage(); u.Groups != 1 || u.SeatsInUse != 4 || u.Seats < 4 || u.GroupBytes <= 0 || u.SeatBytes <= 0 {
		t.Errorf("the usage is %+v", u)
	}
	for i, want := range []int{-1, 0, 0} { // a binomial tree
		if parent, ok := w.nics[i].Above(teamKey, 0); !ok || parent != want {
			t.Errorf("above the member of NIC %d is rank %d, %v; expected %d", i+1, parent, ok, want)
		}
	}
	if _, ok := w.nics[0].Above(numbered(1), 0); ok {
		t.Error("a group that is not there has a tree")
	}
	if _, ok := w.nics[0].Above(teamKey, 4); ok {
		t.Error("a rank behind the last has a tree")
	}
	fresh := New(Config{NIC: 9, MTU: 1472, Counts: w.nics[0].counts}, w.nics[0])
	fresh.Learn([]*Table{w.nics[0].Table, w.nics[1].Table, w.nics[2].Table, fresh})
	if l := fresh.Groups(); len(l) != 1 || l[0].State != "complete" || len(l[0].Members) != 4 || l[0].Size != 4 {
		t.Errorf("a table that has learned knows %+v", l)
	}
	w.leave(all)
	e := newEngine(t, 1)
	for i, key := range []vni.Name{numbered(1), numbered(0)} {
		b := news(wire.TableJoin, uint32(i+1), "a", 1, uint32(i+1), uint32(i+2))
		copy(b[20:44], key.App[:])
		e.News(e.peers[2], b)
	}
	if l := e.Groups(); len(l) != 2 || l[0].Name != "teamaa" || l[0].Size != 3 || l[0].State != "gathering" || l[1].Size != 2 {
		t.Errorf("the groups are %+v", l)
	}
}

// A member remembers its place in the trees of a bounded number of roots.
func TestABoundedNumberOfTreesIsKept(t *testing.T) {
	e := newEngine(t, 1)
	m := newTeam(e, 1, 1).member(0)
	m.branches = nil
	for root := range limits.TreesKept + 2 {
		e.branch(m, root%2)
		for k := 2; k <= root; k++ {
			m.branches[k] = m.branches[0]
		}
		if delete(m.branches, root%2); len(m.branches) > limits.TreesKept {
			t.Fatalf("%d places are kept", len(m.branches))
		}
	}
	if b := e.branch(m, 0); b != e.branch(m, 0) || len(m.branches) > 2 {
		t.Errorf("%d places are kept when there were too many", len(m.branches))
	}
}

// On a torus the data goes from neighbour to neighbour.
func TestAGroupOnATorusHasItsTree(t *testing.T) { // QNIX-52
	e := newEngine(t, 3)
	e.cfg.Position = wire.Position{X: 0, Y: 0, Width: 2, Height: 2}
	r := &request{memory: make([]byte, 4*vni.RosterBytes)}
	e.Command(process(0), r, vni.Command{Code: vni.CodeJoinGroup, Size: 4}, &vni.SendContext{Receiver: teamKey})
	for i, at := range []wire.Position{{X: 1, Y: 1, Width: 2, Height: 2}, {X: 1, Y: 0, Width: 2, Height: 2}, {X: 0, Y: 1, Width: 2, Height: 2}} {
		b := news(wire.TableJoin, 1, "p"+string(rune('0'+i)), 1, 1, 4)
		at.Put(b[84:])
		e.News(e.peers[uint64(i+2)], b)
	}
	g := e.list[0]
	if !g.complete || len(g.places) != 4 || g.places[0] != e.cfg.Position || g.places[1] != (wire.Position{X: 1, Y: 1, Width: 2, Height: 2}) {
		t.Fatalf("complete %v, the places are %+v", g.complete, g.places)
	}
	if parent, ok := e.Above(teamKey, 1); !ok || parent == 1 { // not a neighbour
		t.Errorf("above rank 0 in the tree of rank 1 is rank %d, %v", parent, ok)
	}
}
