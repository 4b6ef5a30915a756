package coll

import (
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// pair is a team of a process here and one at the peer, that has begun: the peer has entered operation 0.
func pair(t *testing.T) *team {
	g := newTeam(newEngine(t, 1), 1, 1)
	g.hear(signalRound, 0, 1, g.member(0).g.sum)
	if g.member(0).state != memberOpen {
		t.Fatal("the group has not begun")
	}
	return g
}

// hear has the table take a signal of the peer, whose rank is 1.
func (g *team) hear(what uint8, number, rank uint32, value uint64) {
	h := wire.GroupHeader{Group: g.numbers[0], Operation: number, Rank: rank}
	g.Signal(g.peers[2], wire.Signal{GroupHeader: h, What: what, Value: value})
	g.Run()
}

// The number of an operation that has ended must not begin another, or it would never be freed.
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

// A peer that is further ahead than members can be breaks its group, and takes no more of the NIC than the limit.
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

// A NIC without a member in the group may say that the members do not agree. It is believed only if it means these very
// members: it may speak of a group that has ended, or harm one that it is not in.
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

// A rank behind the last has no seat, and a member that is lost is lost once.
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
