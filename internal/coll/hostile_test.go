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
	if err := g.Leaks(); err != nil || g.buffers != 0 || g.member(0).state != memberOpen {
		t.Errorf("%v, %d buffers in use, the member is in state %d", err, g.buffers, g.member(0).state)
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
	if err := g.Leaks(); err != nil || len(g.members) != 0 {
		t.Errorf("%v, %d members", err, len(g.members))
	}
}
