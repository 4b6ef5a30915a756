package coll

import (
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// granted returns the number of broadcasts that the peer was told to send.
func (g *team) granted() (n int) {
	for _, s := range g.peers[2].signals {
		if s.What == signalGrant {
			n++
		}
	}
	return n
}

// A broadcast that waits for transit memory gets it as soon as an earlier one was passed on, in
// every case: the earlier one is kept for the process, given up, delivered, or its operation
// ends.
func TestABroadcastThatWaitsForMemoryGoesOnWhenThereIsSome(t *testing.T) {
	for what, c := range map[string]struct {
		before func(g *team)
		frees  func(g *team)
	}{
		"kept":     {func(*team) {}, func(g *team) { g.longData(1) }},
		"given up": {func(g *team) { g.member(0).stagedOps = limits.GroupStagedOperations }, func(g *team) { g.longData(1); g.member(0).stagedOps = 0 }},
		"delivered": {func(g *team) { g.start(0, vni.CodeBroadcast, 1, make([]byte, limits.BroadcastBytes)) },
			func(g *team) { g.longData(1) }},
		"ended": {func(*team) {}, func(g *team) { g.free(g.member(0).ops[1]) }},
	} {
		g := pair(t)
		g.peers[2].signals = nil
		c.before(g)
		for number := range uint32(4) {
			g.hear(signalOffer, number+1, 1, 1<<32|limits.BroadcastBytes)
		}
		m := g.member(0)
		if got := g.granted(); got != 2 || m.waiting != 2 || m.inTransit != limits.TransitBytes || g.buffers != 2 {
			t.Errorf("%s: %d are granted, %d wait, %d bytes in transit", what, got, m.waiting, m.inTransit)
		}
		c.frees(g)
		if got := g.granted(); got != 3 || m.waiting != 1 || m.inTransit != limits.TransitBytes || m.ops[3] == nil || !m.ops[3].held {
			t.Errorf("%s: then %d are granted, %d wait, %d bytes in transit", what, got, m.waiting, m.inTransit)
		}
		g.Gone(g.local[0])
		g.wantIdle()
	}
}

// longData passes the data of an offered broadcast to the table.
func (g *team) longData(number uint32) {
	piece := g.member(0).g.piece
	for at, data := 0, make([]byte, limits.BroadcastBytes); at < len(data); at += piece {
		p := wire.Piece{GroupHeader: wire.GroupHeader{Group: g.numbers[0], Operation: number, Rank: 1}, Root: 1,
			Offset: uint32(at), Length: uint32(len(data)), What: pieceBroadcast}
		g.Piece(g.peers[2], p, data[at:min(at+piece, len(data))])
	}
}

// If the seats of a NIC fill its share, no more of its news are accepted. Seats that are gone do
// not count.
func TestANICHasABoundedNumberOfSeats(t *testing.T) {
	for _, there := range []int{limits.SeatsPerNIC - 1, limits.SeatsPerNIC} {
		e := newEngine(t, 2)
		e.News(e.peers[2], news(wire.TableJoin, 1, "a", 1, 1, 3))
		g := e.list[0]
		g.seats = append(g.seats, make([]seat, there-1)...)
		for i := range g.seats[1:] {
			g.seats[1+i] = seat{Address: vni.Address{NIC: 2, Slot: 1, Gen: uint32(100 + i)}, gone: true}
		}
		g.seats = append(g.seats, seat{Address: vni.Address{NIC: 3, Slot: 1}})
		e.peers[2].news.taken = limits.SeatsPerNIC
		b := news(wire.TableJoin, 2, "b", 2, 2, 3)
		b[20] = 'x'
		e.News(e.peers[2], b)
		if refused := e.counts[vni.DropFormat] == 1; refused != (there == limits.SeatsPerNIC) || e.Len() != map[bool]int{true: 1, false: 2}[refused] {
			t.Errorf("with %d seats another is refused: %v; %d groups", there, refused, e.Len())
		}
	}
}

// News that arrives far too early is not kept. The last that may be kept is.
func TestNewsThatComesFarTooEarlyIsNotKept(t *testing.T) {
	e := newEngine(t, 1)
	pr := e.peers[2]
	e.News(pr, news(wire.TableJoin, 1+limits.SeatsPerNIC, "a", 1, 1, 3))
	if len(pr.news.early) != 1 || e.counts[vni.DropFormat] != 0 {
		t.Errorf("%d changes wait, %d dropped", len(pr.news.early), e.counts[vni.DropFormat])
	}
	e.News(pr, news(wire.TableJoin, 2+limits.SeatsPerNIC, "a", 1, 1, 3))
	if len(pr.news.early) != 1 || e.counts[vni.DropFormat] != 1 {
		t.Errorf("with one too early %d changes wait, %d dropped", len(pr.news.early), e.counts[vni.DropFormat])
	}
}

// Meaningless signals change nothing: for another epoch, of an unknown kind, or about something
// that the member lacks.
func TestASignalThatMeansNothingChangesNothing(t *testing.T) {
	g := pair(t)
	m := g.member(0)
	before := g.counts[vni.DropFormat]
	if g.hear(99, 1, 1, 0); g.counts[vni.DropFormat] != before+1 {
		t.Errorf("a signal of an unknown kind: %d dropped", g.counts[vni.DropFormat]-before)
	}
	h := wire.GroupHeader{Group: g.numbers[0], Epoch: 1, Operation: 1, Rank: 1}
	g.Signal(g.peers[2], wire.Signal{GroupHeader: h, What: signalRound})
	h.Epoch, h.Group = 0, 99
	g.Signal(g.peers[2], wire.Signal{GroupHeader: h, What: signalRound})
	g.Piece(g.peers[2], wire.Piece{GroupHeader: h, Root: 1, Length: 8, What: pieceBroadcast}, make([]byte, 8))
	for _, what := range []uint8{signalGrant, signalFetch, signalAck, signalFull, signalJoined} {
		g.hear(what, 1, 1, 2)
	}
	if len(m.ops) != 0 || m.state != memberOpen || len(g.here) != 0 {
		t.Errorf("%d operations, state %d", len(m.ops), m.state)
	}
	g.hear(signalRound, 1, 1, 0) // an operation whose kind is known, but not its data
	for _, what := range []uint8{signalGrant, signalFetch, signalAck} {
		g.hear(what, 1, 1, 0)
	}
	if len(m.ops) != 1 || g.legs != 0 || m.state != memberOpen {
		t.Errorf("%d operations, %d legs, state %d", len(m.ops), g.legs, m.state)
	}
	none := &request{}
	if g.Cancel(g.local[0], none); none.c.Status != vni.StatusCancelled || len(g.local[0].members) != 1 {
		t.Errorf("a request that is nowhere ends with %v; %d memberships", none.c.Status, len(g.local[0].members))
	}
	if r := g.start(0, vni.CodeBarrier, 0, nil); r.c.Status != vni.StatusOK {
		t.Errorf("the barrier ends with %v", r.c.Status)
	}
}

// The join of a part of a group that broke by a disagreement fails as well.
func TestTheJoinOfAPartOfABrokenGroupFails(t *testing.T) {
	g := pair(t)
	before := g.counts[vni.NICCollectivesFailed]
	g.hear(signalMismatch, 0, 1, g.member(0).g.sum)
	g.member(0).g.broken = true
	if r := g.joinPart(0, partKey, 2); r.c.Status != vni.StatusGroupBroken || r.c.Slot == 0 || g.counts[vni.NICCollectivesFailed] != before+1 {
		t.Errorf("the join ends with %v, because of slot %d; %d are counted", r.c.Status, r.c.Slot, g.counts[vni.NICCollectivesFailed]-before)
	}
}

// The audit finds data that a member holds and has not counted, and a leg that waits although its
// operation has ended.
func TestTheAuditFindsWhatAMembershipDoesNotKeep(t *testing.T) {
	for what, c := range map[string]struct {
		change func(g *team, m *member)
		finds  bool
	}{
		"nothing":                  {func(*team, *member) {}, false},
		"bytes in transit":         {func(_ *team, m *member) { m.inTransit++ }, true},
		"less than nothing":        {func(_ *team, m *member) { m.inTransit, m.ops[1].length = -1, -1 }, true},
		"bytes that are kept":      {func(_ *team, m *member) { m.staged++ }, true},
		"fewer than none are kept": {func(_ *team, m *member) { m.stagedOps-- }, true},
		"operations that are kept": {func(_ *team, m *member) { m.stagedOps++ }, true},
		"more than may be kept": {func(_ *team, m *member) {
			m.ops[1].staged, m.ops[1].length, m.staged, m.stagedOps, m.inTransit = true, limits.GroupStaging+1, limits.GroupStaging+1, 1, 0
		}, true},
		"as much as may be kept": {func(_ *team, m *member) {
			m.ops[1].staged, m.ops[1].length, m.staged, m.stagedOps, m.inTransit = true, limits.GroupStaging, limits.GroupStaging, 1, 0
		}, false},
		"operations that wait":  {func(_ *team, m *member) { m.waiting++ }, true},
		"a leg of no operation": {func(g *team, _ *member) { g.up = append(g.up, g.peers[2]); g.peers[2].blocked = []*leg{{}} }, true},
		"a leg that does not wait": {func(g *team, m *member) {
			l := g.newLeg(m.ops[1], 1, 1)
			g.up = append(g.up, g.peers[2])
			g.peers[2].blocked = []*leg{l}
		}, true},
		"a leg that waits as it may": {func(g *team, m *member) {
			l := g.newLeg(m.ops[1], 1, 1)
			l.blocked = g.peers[2]
			g.up = append(g.up, g.peers[2])
			g.peers[2].blocked = []*leg{l}
		}, false},
	} {
		g := pair(t)
		g.hear(signalOffer, 1, 1, 1<<32|5000)
		c.change(g, g.member(0))
		if err := g.Audit(); (err != nil) != c.finds {
			t.Errorf("%s: the audit says %v", what, err)
		}
		if err := g.Leaks(); err == nil {
			t.Errorf("%s: an operation is not found to be left", what)
		}
	}
	e := pair(t)
	if e.Leaks() != nil || !e.Quiet() || e.Unfinished() {
		t.Errorf("nothing is under way: %v, quiet %v, unfinished %v", e.Leaks(), e.Quiet(), e.Unfinished())
	}
	e.here = append(e.here, hereSignal{})
	if e.Leaks() == nil || e.Quiet() || !e.Unfinished() {
		t.Errorf("a signal waits: %v, quiet %v, unfinished %v", e.Leaks(), e.Quiet(), e.Unfinished())
	}
	e.here, e.legs = nil, 1
	if e.Leaks() == nil || e.Quiet() {
		t.Errorf("a leg is there: %v, quiet %v", e.Leaks(), e.Quiet())
	}
}

// A member in between that has its data, and has passed it on, keeps no memory for it until those
// below have answered.
func TestAMemberInBetweenFreesItsMemoryBeforeTheAnswer(t *testing.T) {
	for _, length := range []int{8, 5000} {
		w := newWorld(t, 4)
		all := w.group(teamKey, 0, 1, 2, 3)
		i := slices.IndexFunc(all, func(a *actor) bool { return a.rank != 0 && len(a.at.branch(a.at.members[a.number], 0).Children) > 0 })
		between := all[i]
		m := between.at.members[between.number]
		below := all[between.at.branch(m, 0).Children[0]]
		r := between.does(vni.CodeBroadcast, 0, make([]byte, length))
		root := all[0].does(vni.CodeBroadcast, 0, content(0, length))
		if length > 8 { // it is offered, and those below ask for it
			w.until("all is passed on", func() bool { o := m.ops[1]; return o != nil && o.complete && o.sent() })
		} else {
			below.at.cut = true
			w.until("the member in between has it", func() bool { return r.done })
			w.run(5 * time.Millisecond)
		}
		if r.c.Status != vni.StatusOK || between.at.buffers != 0 || m.inTransit != 0 || root.done {
			t.Errorf("%d bytes: ended with %v; %d buffers in use, %d bytes in transit; the root is done %v", length, r.c.Status, between.at.buffers, m.inTransit, root.done)
		}
		below.at.cut = false
		w.ended("the broadcast", root, r)
		w.leave(all)
	}
}
