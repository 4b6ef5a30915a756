package coll

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A process rejoins the name of a broken group while the last seat of that group is still taken.
// When that seat goes, the new group stays, and the next join completes it.
func TestTheEndOfABrokenGroupKeepsTheNextGroupOfItsName(t *testing.T) { // QNIX-54
	g := pair(t)
	pr := g.peers[2]
	g.News(pr, news(wire.TableLeave, pr.news.heard+1, "p0", 1, 1, 0))
	g.News(pr, news(wire.TableJoin, pr.news.heard+1, "p0", 1, 2, 2))
	if n := g.Len(); n != 2 {
		t.Fatalf("%d groups; expected the broken one and the next", n)
	}
	if r := g.start(0, vni.CodeLeave, 0, nil); !r.done || r.c.Status != vni.StatusOK {
		t.Fatalf("the leave has ended %v, with %v", r.done, r.c.Status)
	}
	r := g.asks(g.local[0], teamKey, 0, 2)
	g.numbers[0] = g.local[0].members[0].own.number
	g.hear(signalRound, 0, 1, g.member(0).g.sum)
	if !r.done || r.c.Status != vni.StatusOK || g.Len() != 1 {
		t.Errorf("the second join has ended %v, with %v; there are %d groups", r.done, r.c.Status, g.Len())
	}
	g.Gone(g.local[0])
	g.wantIdle()
}

// leaves passes the leave of the peer's process with a rank to the table. last is the number of the
// last operation that the process has completed.
func (g *team) leaves(rank int, last uint32) {
	pr := g.peers[uint64(rank)+1]
	b := news(wire.TableLeave, pr.news.heard+1, fmt.Sprint("p", rank-1), 1, 1, 0)
	binary.LittleEndian.PutUint32(b[76:], last)
	g.News(pr, b)
	g.Run()
}

// Two members leave a group of three, one after operation 5 and one after operation 3. The third
// member waits in operations up to 4, or enters operation 4 later. Only operation 4 fails.
func TestAnOperationThatOneOfTwoLeaversHasNotDoneFails(t *testing.T) { // QNIX-54
	for _, later := range []bool{false, true} {
		for _, last := range [][2]uint32{{5, 3}, {3, 5}} {
			g := trio(t)
			var done []*request
			for range 3 {
				done = append(done, g.start(0, vni.CodeBarrier, 0, nil))
			}
			var fails *request
			if !later {
				fails = g.start(0, vni.CodeBarrier, 0, nil)
			}
			g.leaves(1, last[0])
			g.leaves(2, last[1])
			if later {
				fails = g.start(0, vni.CodeBarrier, 0, nil)
			}
			if !fails.done || fails.c.Status != vni.StatusGroupBroken || fails.c.Tag != 1 {
				t.Errorf("leaves after %v, entered later %v: operation 4 has ended %v, with %v because of rank %d",
					last, later, fails.done, fails.c.Status, fails.c.Tag)
			}
			for i, r := range done {
				if r.done {
					t.Errorf("leaves after %v: operation %d ends with %v without the others", last, i+1, r.c.Status)
				}
				for round := range uint8(2) { // sent before the leaves, and overtaken by them
					h := wire.GroupHeader{Group: g.numbers[0], Operation: uint32(i + 1), Rank: 2 - uint32(round)}
					g.Signal(g.peers[3-uint64(round)], wire.Signal{GroupHeader: h, What: signalRound, Round: round})
				}
				if g.Run(); !r.done || r.c.Status != vni.StatusOK {
					t.Errorf("leaves after %v: operation %d has ended %v, with %v", last, i+1, r.done, r.c.Status)
				}
			}
			g.Gone(g.local[0])
			g.wantIdle()
		}
	}
}

// A hostile member sends pieces of ever later operations, for which no process asks. The NIC keeps
// a bounded number of operations, and drops the other pieces.
func TestAPieceThatIsTooFarAheadIsDropped(t *testing.T) {
	const most = 2*limits.CollectivesUnderWay + limits.GroupAhead + 1
	for what, p := range map[string]wire.Piece{
		"broadcasts":    {Root: 1, Length: 8, What: pieceBroadcast},
		"contributions": {Length: 8, What: pieceContribution, Operator: uint8(vni.SumUint64)},
	} {
		g := pair(t)
		before := g.counts[vni.DropFormat]
		for number := range uint32(2 * most) {
			p.GroupHeader = wire.GroupHeader{Group: g.numbers[0], Operation: number + 1, Rank: 1}
			g.Piece(g.peers[2], p, make([]byte, 8))
		}
		dropped := g.counts[vni.DropFormat] - before
		if n := len(g.member(0).ops); n != most || g.buffers > most || dropped != most {
			t.Errorf("%d %s: %d are kept, in %d buffers, and %d pieces are dropped; expected %d and %d",
				2*most, what, n, g.buffers, dropped, most, most)
		}
		g.Gone(g.local[0])
		g.wantIdle()
	}
}
