package coll

import (
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// pair returns a started team of a process here and one at the peer: the peer has entered
// operation 0.
func pair(t *testing.T) *team {
	g := newTeam(newEngine(t, 1), 1, 1)
	g.hear(signalRound, 0, 1, g.member(0).g.sum)
	if g.member(0).state != memberOpen {
		t.Fatal("the group has not begun")
	}
	return g
}

// hear passes a signal from the peer, whose rank is 1, to the table.
func (g *team) hear(what uint8, number, rank uint32, value uint64) {
	h := wire.GroupHeader{Group: g.numbers[0], Operation: number, Rank: rank}
	g.Signal(g.peers[2], wire.Signal{GroupHeader: h, What: what, Value: value})
	g.Run()
}

// The number of an ended operation must not begin another, or that would never be freed.
func TestSignalsOfOperationsThatHaveEndedAreForNothing(t *testing.T) {
	g := pair(t)
	r := g.start(0, vni.CodeBarrier, 0, nil)
	g.hear(signalRound, 1, 1, 0)
	if !r.done || r.c.Status != vni.StatusOK {
		t.Fatalf("the barrier has ended: %v, with %v", r.done, r.c.Status)
	}
	for number := range uint32(2) {
		g.hear(signalRound, number, 1, g.member(0).g.sum)
		g.hear(signalOffer, number, 1, 1<<32|limits.BroadcastBytes)
		p := wire.Piece{GroupHeader: wire.GroupHeader{Group: g.numbers[0], Operation: number, Rank: 1}, Root: 1, Length: 8, What: pieceBroadcast}
		g.Piece(g.peers[2], p, make([]byte, 8))
	}
	if g.wantIdle(); g.member(0).state != memberOpen {
		t.Errorf("the member is in state %d", g.member(0).state)
	}
}

func TestARankOfAnotherNICIsNotBelieved(t *testing.T) {
	g := pair(t)
	r := g.start(0, vni.CodeBarrier, 0, nil)
	for _, rank := range []uint32{0, 2, 1<<32 - 1} {
		before := g.counts[vni.DropFormat]
		g.hear(signalRound, 1, rank, 0)
		if r.done || g.counts[vni.DropFormat] != before+1 {
			t.Errorf("rank %d: the barrier has ended: %v; %d records dropped", rank, r.done, g.counts[vni.DropFormat]-before)
		}
	}
}

// A peer that is further ahead than members can be breaks its group, and takes no more of the NIC
// than the limit.
func TestAMemberThatIsTooFarAheadBreaksItsGroup(t *testing.T) {
	g := pair(t)
	const most = 2*limits.CollectivesUnderWay + limits.GroupAhead
	for number := uint32(1); number < 2*most; number++ {
		g.hear(signalRound, number, 1, 0)
		if n := len(g.member(0).ops); n > most+1 {
			t.Fatalf("%d operations of a member are under way, %d may be", n, most)
		}
	}
	if r := g.start(0, vni.CodeBarrier, 0, nil); !r.done || r.c.Status != vni.StatusGroupMismatch {
		t.Errorf("the member's own barrier ended: %v, with %v", r.done, r.c.Status)
	}
	g.Gone(g.local[0])
	if g.wantIdle(); len(g.members) != 0 {
		t.Errorf("%d members", len(g.members))
	}
}

// A NIC without a member in the group may say that the members do not agree. It is believed only
// if it means exactly these members: it may speak of a group that has ended, or harm one that it
// is not in.
func TestADisagreementCountsOnlyIfItIsAboutTheSameMembers(t *testing.T) {
	g := pair(t)
	sum := g.member(0).g.sum
	r := g.start(0, vni.CodeBarrier, 0, nil)
	for _, other := range []uint64{0, sum + 1, ^sum} {
		g.hear(signalMismatch, 0, 7, other)
		if r.done || g.member(0).state != memberOpen {
			t.Fatalf("a disagreement about other members (%#x) has ended the barrier with %v", other, r.c.Status)
		}
	}
	g.hear(signalMismatch, 0, 7, sum)
	if !r.done || r.c.Status != vni.StatusGroupMismatch {
		t.Errorf("a disagreement about these members: the barrier has ended %v, with %v", r.done, r.c.Status)
	}
	g.Gone(g.local[0])
	g.wantIdle()
}

// A rank behind the last has no seat, and a lost member is lost only once.
func TestALossNamesAMemberOfTheGroup(t *testing.T) {
	g := pair(t)
	r := g.start(0, vni.CodeBarrier, 0, nil)
	for _, rank := range []uint64{2, 3, 1 << 32, 1<<64 - 1} {
		if g.hear(signalLost, 0, 1, rank); r.done {
			t.Fatalf("the loss of rank %d has ended the barrier of a group of two", rank)
		}
	}
	g.hear(signalLost, 0, 1, 1)
	g.hear(signalLost, 0, 1, 1)
	if !r.done || r.c.Status != vni.StatusGroupBroken || r.c.Tag != 1 {
		t.Errorf("the barrier has ended %v, with %v because of rank %d", r.done, r.c.Status, r.c.Tag)
	}
	g.Gone(g.local[0])
	g.wantIdle()
}

// trio returns a started team of a process here, rank 0, and one at each of two peers.
func trio(t *testing.T) *team {
	g := newTeam(newEngine(t, 2), 1, 2)
	for round := range uint8(2) {
		h := wire.GroupHeader{Group: g.numbers[0], Rank: 2 - uint32(round)}
		g.Signal(g.peers[3-uint64(round)], wire.Signal{GroupHeader: h, What: signalRound, Round: round, Value: g.member(0).g.sum})
	}
	if g.Run(); g.member(0).state != memberOpen || g.member(0).join != nil {
		t.Fatal("the group has not begun")
	}
	return g
}

// from passes a signal from the peer with a rank, about the first operation after the join, to
// the table.
func (g *team) from(rank uint32, what uint8) {
	h := wire.GroupHeader{Group: g.numbers[0], Operation: 1, Rank: rank}
	g.Signal(g.peers[uint64(rank)+1], wire.Signal{GroupHeader: h, What: what})
	g.Run()
}

// Only the member above in the tree accepts a contribution. Another one could not have it.
func TestAContributionIsTakenByTheMemberAboveAlone(t *testing.T) {
	g := trio(t)
	r := g.start(0, vni.CodeReduce, uint64(vni.SumUint64)<<32|1, make([]byte, 8))
	g.member(0).ops[1].legs[0].next = 1 // as if it had left
	before := g.counts[vni.DropFormat]
	if g.from(2, signalAck); r.done || g.counts[vni.DropFormat] != before+1 {
		t.Errorf("an Ack of rank 2 has ended the reduction at rank 1: %v, with %v", r.done, r.c.Status)
	}
	if g.from(1, signalAck); !r.done || r.c.Status != vni.StatusOK {
		t.Errorf("the Ack of the root: ended %v, with %v", r.done, r.c.Status)
	}
	g.wantIdle()
}

// Ranks 0 and 1 are here, and rank 1 has its result from rank 0. Rank 2 could forge one.
func TestAResultComesFromTheMemberAboveAlone(t *testing.T) {
	g := twoAndOne(t)
	result := func(operation uint32) {
		p := wire.Piece{GroupHeader: wire.GroupHeader{Group: g.numbers[1], Operation: operation, Rank: 2}, Length: 8, What: pieceResult,
			Operator: uint8(vni.SumUint64) | wantedByAll}
		g.Piece(g.peers[2], p, []byte{9, 9, 9, 9, 9, 9, 9, 9})
		g.Run()
	}
	mine := make([]byte, 8)
	r := g.start(1, vni.CodeReduce, uint64(vni.SumUint64)<<32|vni.AllRanks, mine)
	before := g.counts[vni.DropFormat]
	if result(1); r.done || mine[0] != 0 || g.counts[vni.DropFormat] != before+1 {
		t.Errorf("rank 1 has taken the result of rank 2: done %v, %v", r.done, mine)
	}
	for _, p := range g.local {
		g.Gone(p)
	}
	g.wantIdle()
}

// Each member below must acknowledge a broadcast. A second acknowledgement of one member does not
// count for another.
func TestAnAckCountsOnce(t *testing.T) {
	g := trio(t)
	r := g.start(0, vni.CodeBroadcast, 0, make([]byte, 8))
	for _, l := range g.member(0).ops[1].legs { // as if it had left
		l.next = 1
	}
	for range 2 {
		if g.from(1, signalAck); r.done {
			t.Fatalf("the broadcast has ended with %v before rank 2 has it", r.c.Status)
		}
	}
	if g.from(2, signalAck); !r.done || r.c.Status != vni.StatusOK {
		t.Errorf("with both Acks it has ended %v, with %v", r.done, r.c.Status)
	}
	g.wantIdle()
}

// Memory for a broadcast is taken when it is offered, so the offer must be possible for a member.
func TestAnOfferThatCannotBeTakesNoMemory(t *testing.T) {
	for what, value := range map[string]uint64{
		"more than a broadcast may have": 1<<32 | limits.BroadcastBytes + 1,
		"what fits one piece":            1<<32 | 8,
		"of the member that hears it":    0<<32 | limits.BroadcastBytes,
		"of a rank behind the last":      2<<32 | limits.BroadcastBytes,
	} {
		g := pair(t)
		before := g.counts[vni.DropFormat]
		if g.hear(signalOffer, 1, 1, value); len(g.member(0).ops) != 0 || g.counts[vni.DropFormat] != before+1 {
			t.Errorf("an offer %s: %d operations, %d records dropped", what, len(g.member(0).ops), g.counts[vni.DropFormat]-before)
		}
		g.wantIdle()
	}
}

// A member fetches a broadcast only once, and only while the root's process has it.
func TestABroadcastIsFetchedOnceByEachMember(t *testing.T) {
	g := trio(t)
	r := g.start(0, vni.CodeBroadcast, 0, make([]byte, 5000))
	o := g.member(0).ops[1]
	fetches := func() (n int) {
		for _, l := range o.legs {
			if l.fetch {
				n++
			}
		}
		return n
	}
	for range 3 {
		if g.from(1, signalFetch); fetches() != 1 {
			t.Fatalf("rank 1 is sent the data %d times", fetches())
		}
	}
	if g.from(2, signalFetch); fetches() != 2 {
		t.Errorf("ranks 1 and 2 fetch the data, and it is sent %d times", fetches())
	}
	g.Cancel(g.local[0], r)
	g.from(1, signalFetch)
	g.wantIdle()
}

// broadcast passes a broadcast from the peer, whose rank is 1, to the table.
func (g *team) broadcast(number uint32, bytes int) {
	if bytes > g.member(0).g.piece {
		g.hear(signalOffer, number, 1, 1<<32|uint64(bytes))
	}
	for at, data := 0, make([]byte, bytes); at < bytes; at += g.member(0).g.piece {
		p := wire.Piece{GroupHeader: wire.GroupHeader{Group: g.numbers[0], Operation: number, Rank: 1}, Root: 1,
			Offset: uint32(at), Length: uint32(bytes), What: pieceBroadcast}
		g.Piece(g.peers[2], p, data[at:min(at+g.member(0).g.piece, bytes)])
	}
}

// Some broadcasts are kept for a process that does not ask for them, and no more. The others are
// fetched from the root.
func TestBroadcastsAreKeptForAProcessWithinAQuota(t *testing.T) {
	for what, c := range map[string]struct{ bytes, kept int }{
		"of their number": {8, limits.GroupStagedOperations},
		"of their bytes":  {limits.BroadcastBytes, limits.GroupStaging / limits.BroadcastBytes},
	} {
		const beyond = 3
		g := pair(t)
		m := g.member(0)
		for number := range uint32(c.kept + beyond) {
			g.broadcast(number+1, c.bytes)
		}
		if m.stagedOps != c.kept || g.buffers != c.kept || g.counts[vni.NICCollectivesLate] != beyond {
			t.Errorf("a quota %s: %d are kept in %d buffers and %d are late; expected %d and %d", what, m.stagedOps, g.buffers, g.counts[vni.NICCollectivesLate], c.kept, beyond)
		}
		if err := g.Audit(); err != nil {
			t.Error(err)
		}
		for range c.kept {
			if r := g.start(0, vni.CodeBroadcast, 1, make([]byte, c.bytes)); !r.done || r.c.Status != vni.StatusOK {
				t.Fatalf("a broadcast that is kept has ended %v, with %v", r.done, r.c.Status)
			}
		}
		if late := g.start(0, vni.CodeBroadcast, 1, make([]byte, c.bytes)); late.done || !m.ops[uint32(c.kept+1)].fetching {
			t.Errorf("a broadcast that was not kept has ended: %v", late.done)
		}
		g.Gone(g.local[0])
		g.wantIdle()
	}
}
