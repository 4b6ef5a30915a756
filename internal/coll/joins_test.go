package coll

import (
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// asks posts a join of a process and returns its request.
func (e *engine) asks(p *Process, key vni.Name, group, size uint32) *request {
	r := &request{memory: make([]byte, 8*vni.RosterBytes)}
	e.Command(p, r, vni.Command{Code: vni.CodeJoinGroup, Group: group, Size: size}, &vni.SendContext{Receiver: key})
	e.Run()
	return r
}

// numbered returns a key of a group with a number in its name.
func numbered(i int) vni.Name {
	n := teamKey
	n.App[4], n.App[5] = byte('a'+i/26), byte('a'+i%26)
	return n
}

// An impossible join is refused at once, and leaves neither a group nor a seat.
func TestAJoinThatCannotBeIsRefused(t *testing.T) { // QNIX-54
	later, nameless := teamKey, teamKey
	later.Index = 1
	clear(nameless.App[:])
	for what, c := range map[string]struct {
		key  vni.Name
		size uint32
		slot uint16
		want vni.Status
	}{
		"of no member":            {teamKey, 0, 1, vni.StatusBadArgument},
		"of too many members":     {teamKey, limits.GroupMembers + 1, 1, vni.StatusBadArgument},
		"of a later epoch":        {later, 2, 1, vni.StatusBadArgument},
		"without a name":          {nameless, 2, 1, vni.StatusBadArgument},
		"by a process of no slot": {teamKey, 2, 0, vni.StatusBadArgument},
	} {
		e := newEngine(t, 1)
		p := process(0)
		p.Address.Slot = c.slot
		if r := e.asks(p, c.key, 0, c.size); !r.done || r.c.Status != c.want || e.Len() != 0 || len(e.members) != 0 || len(p.members) != 0 {
			t.Errorf("a join %s: ended %v, with %v; %d groups, %d members", what, r.done, r.c.Status, e.Len(), len(e.members))
		}
	}
	e := newEngine(t, 1)
	p := process(0)
	if r := e.asks(p, teamKey, 0, limits.GroupMembers); r.done {
		t.Errorf("a join of the largest group has ended with %v", r.c.Status)
	}
	if r := e.asks(p, teamKey, 0, limits.GroupMembers); r.c.Status != vni.StatusGroupJoined || len(p.members) != 1 {
		t.Errorf("a second join of the process ends with %v", r.c.Status)
	}
	for i := range limits.Groups - 1 {
		if r := e.asks(p, numbered(i), 0, 2); r.done {
			t.Fatalf("join %d has ended with %v", i+2, r.c.Status)
		}
	}
	if r := e.asks(p, numbered(limits.Groups), 0, 2); r.c.Status != vni.StatusNoMemory || e.Len() != limits.Groups {
		t.Errorf("one join more than a process may have ends with %v; there are %d groups", r.c.Status, e.Len())
	}
	if r := e.asks(process(1), numbered(limits.Groups), 0, 2); r.done {
		t.Errorf("the join of another process has ended with %v", r.c.Status)
	}
	e.Gone(p)
	if len(e.members) != 1 || e.Len() != 1 {
		t.Errorf("%d members and %d groups stay", len(e.members), e.Len())
	}
}

// A join ends when its process ends or cancels it. Its place is free again, and the others wait
// on.
func TestAJoinThatEndsLeavesItsPlace(t *testing.T) { // QNIX-54
	for way, want := range map[string]vni.Status{"cancelled": vni.StatusCancelled, "the process ends": vni.StatusClosed} {
		w := newWorld(t, 2)
		stays, gone, comes := w.process(0, 0), w.process(1, 1), w.process(1, 2)
		stays.joins(teamKey, 2, 0)
		lost := gone.at
		lost.cut = true // so that the group is not complete at once
		gone.joins(teamKey, 3, 0)
		if way == "cancelled" {
			lost.Cancel(gone.Process, gone.join)
		} else {
			lost.Gone(gone.Process)
		}
		if !gone.join.done || gone.join.c.Status != want || len(lost.members) != 0 || len(gone.Process.members) != 0 {
			t.Errorf("%s: the join has ended %v, with %v; %d members", way, gone.join.done, gone.join.c.Status, len(lost.members))
		}
		lost.cut = false
		comes.joins(teamKey, 2, 0)
		w.ended("the others' joins", stays.join, comes.join)
		if stays.join.c.Status != vni.StatusOK || comes.join.c.Status != vni.StatusOK {
			t.Errorf("%s: the others' joins end with %v and %v", way, stays.join.c.Status, comes.join.c.Status)
		}
		w.leave([]*actor{stays, comes})
	}
}

// A member that goes before all have joined ends the joins of the others, which are told of it.
// Its process's place in later groups of the name is free.
func TestAMemberThatGoesBeforeTheOthersHaveJoinedEndsTheirJoins(t *testing.T) {
	w := newWorld(t, 3)
	a, b, c := w.process(0, 0), w.process(1, 1), w.process(2, 2)
	a.joins(teamKey, 3, 0)
	b.joins(teamKey, 3, 0)
	w.run(5 * time.Millisecond)
	c.joins(teamKey, 3, 0) // its group is complete at once, and it goes
	c.at.Gone(c.Process)
	w.ended("the joins", a.join, b.join, c.join)
	for i, r := range []*request{a.join, b.join} {
		if r.c.Status != vni.StatusGroupBroken || r.c.NIC != 3 || r.c.Slot != c.Address.Slot {
			t.Errorf("the join of rank %d ends with %v because of NIC %d", i, r.c.Status, r.c.NIC)
		}
	}
	if c.join.c.Status != vni.StatusClosed {
		t.Errorf("the join of the process that has gone ends with %v", c.join.c.Status)
	}
	w.run(20 * time.Millisecond)
	w.wantIdle("after the joins")
	again := []*actor{a, b, w.process(2, 3)}
	for _, x := range again {
		x.joins(teamKey, 3, 0)
	}
	w.ended("the next group", a.join, b.join, again[2].join)
	if a.join.c.Status != vni.StatusOK {
		t.Errorf("the next group's join ends with %v", a.join.c.Status)
	}
	w.leave(again)
}

// A member whose NIC sees other seats cannot be in the group. Its join ends, and so do those of
// the others.
func TestMembersThatSeeOtherSeatsDoNotJoin(t *testing.T) { // QNIX-54
	// the other's round arrives before the group is complete here
	for _, early := range []bool{false, true} {
		e := newEngine(t, 1)
		g := &team{engine: e}
		r := &request{memory: make([]byte, 2*vni.RosterBytes)}
		g.local = []*Process{process(0)}
		if !early {
			e.News(e.peers[2], news(wire.TableJoin, 1, "p0", 1, 1, 2))
		}
		e.Command(g.local[0], r, vni.Command{Code: vni.CodeJoinGroup, Size: 2}, &vni.SendContext{Receiver: teamKey})
		g.numbers = []uint32{g.local[0].members[0].own.number}
		g.hear(signalRound, 0, 1, 4711)
		if early {
			if r.done {
				t.Fatalf("the join has ended with %v before the group is complete", r.c.Status)
			}
			e.News(e.peers[2], news(wire.TableJoin, 1, "p0", 1, 1, 2))
		}
		if g.Run(); !r.done || r.c.Status != vni.StatusGroupMismatch || len(e.members) != 0 {
			t.Errorf("early %v: the join has ended %v, with %v; %d members", early, r.done, r.c.Status, len(e.members))
		}
		if s := e.peers[2].signals; len(s) == 0 || !slices.ContainsFunc(s, func(s wire.Signal) bool { return s.What == signalMismatch }) {
			t.Errorf("early %v: the other is told %+v", early, s)
		}
		e.wantIdle()
	}
}

// A process that joins a complete group is told so. If none of its members is here, another NIC
// may tell it.
func TestAJoinOfAFullGroupIsAnsweredByTheNICsOfItsMembers(t *testing.T) {
	g := pair(t)
	late := news(wire.TableJoin, g.peers[2].news.heard+1, "p9", 9, 77, 2)
	g.peers[2].signals = nil
	g.News(g.peers[2], late)
	want := wire.Signal{GroupHeader: wire.GroupHeader{Group: 77}, What: signalFull, Value: 2}
	if s := g.peers[2].signals; len(s) != 1 || s[0] != want || g.Len() != 1 {
		t.Errorf("the NIC of the late process is told %+v; %d groups", s, g.Len())
	}
	e := newEngine(t, 3)
	newTeam(e, 0, 2)
	e.News(e.peers[4], news(wire.TableJoin, 1, "p9", 9, 77, 2)) // to the next group of the name
	if e.Len() != 2 || len(e.peers[4].signals) != 0 {
		t.Errorf("%d groups; the NIC is told %+v", e.Len(), e.peers[4].signals)
	}
	own := &team{engine: newEngine(t, 1), local: []*Process{process(0)}}
	r := own.asks(own.local[0], teamKey, 0, 3)
	own.numbers = []uint32{own.local[0].members[0].own.number}
	if own.hear(signalFull, 0, 5, 2); !r.done || r.c.Status != vni.StatusGroupSize || r.c.Tag != vni.GroupSizes(2, 2) || len(own.members) != 0 {
		t.Errorf("a join that is told that the group is full: ended %v, with %v, %#x", r.done, r.c.Status, r.c.Tag)
	}
}

// A NIC that wrongly believes that its process is a member is told so: its join must not wait for
// ever.
func TestAStrangerIsToldThatItIsNone(t *testing.T) {
	g := pair(t)
	pr := g.peers[2]
	// the group breaks, and the next gathers
	g.News(pr, news(wire.TableLeave, pr.news.heard+1, "p0", 1, 1, 0))
	g.News(pr, news(wire.TableJoin, pr.news.heard+1, "p5", 5, 55, 2))
	other := news(wire.TableJoin, pr.news.heard+1, "p6", 6, 66, 2)
	other[20+4] = 'x' // of another group
	g.News(pr, other)
	pr.signals = nil
	g.hear(signalRound, 0, 7, 0)
	want := wire.Signal{GroupHeader: wire.GroupHeader{Group: 55}, What: signalMismatch}
	if len(pr.signals) != 1 || pr.signals[0] != want {
		t.Errorf("the stranger is told %+v; expected %+v", pr.signals, want)
	}
}

// A shrink waits in its epoch as long as all that it waits for can come. A member that has gone
// on to a later epoch cannot.
func TestAShrinkEndsWhenAMemberHasGoneOnToALaterEpoch(t *testing.T) { // QNIX-54
	for _, c := range []struct {
		what  string
		tells func(s *shrinking)
		ends  bool
	}{
		{"the same epoch of another group", func(s *shrinking) {
			b := news(wire.TableJoin, s.peers[2].news.heard+1, "p0", 1, 9, 0)
			b[16], b[20] = 3, 'x'
			s.News(s.peers[2], b)
		}, false},
		{"a later epoch", func(s *shrinking) { s.tell(wire.TableJoin, 3, 9, 0, 0) }, true},
	} {
		s := newShrinking(t)
		r := s.shrink(s.number, 2)
		if c.tells(s); r.done != c.ends || r.done && r.c.Status != vni.StatusGroupMismatch {
			t.Errorf("%s: the shrink has ended %v, with %v", c.what, r.done, r.c.Status)
		}
		s.Gone(s.local[0])
	}
}
