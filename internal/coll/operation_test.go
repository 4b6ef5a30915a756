package coll

import (
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

func TestNumbersGoOnBehindTheLast(t *testing.T) {
	g := newTeam(newEngine(t, 0), 5, 0)
	for i := range g.local {
		g.member(i).next = 1<<32 - 3
	}
	for range 6 {
		g.each(vni.CodeBarrier, 0, func(int) []byte { return nil })
		g.each(vni.CodeBroadcast, 2, func(int) []byte { return make([]byte, 5000) })
	}
	if n := g.member(0).next; n == 0 || n > 100 {
		t.Errorf("the next operation is %d; the test has not gone behind the last number", n)
	}
	g.number = 1<<32 - 1
	first := g.members[1]
	if g.nextNumber(); first == nil || g.number == 0 || g.members[g.number] != nil {
		t.Errorf("the next member has number %d, which is taken", g.number)
	}
	g.wantIdle()
}

func TestTheOldestBroadcastFindsTransitMemory(t *testing.T) {
	g := newTeam(newEngine(t, 1), 1, 1)
	m := g.member(0)
	granted := func(number uint32) bool { o := m.ops[number]; return o != nil && o.held }
	for _, c := range []struct {
		number  uint32
		granted bool
	}{{7, true}, {8, true}, {9, false}, {5, true}, {6, false}} {
		g.offerHeard(m, 1, wire.Signal{GroupHeader: wire.GroupHeader{Operation: c.number, Rank: 1}, What: signalOffer, Value: 1<<32 | limits.BroadcastBytes})
		if granted(c.number) != c.granted {
			t.Fatalf("broadcast %d: granted %v", c.number, !c.granted)
		}
	}
	g.free(m.ops[7])
	g.free(m.ops[8])
	if !granted(6) || granted(9) {
		t.Errorf("with memory for one more: 6 has it %v, 9 has it %v", granted(6), granted(9))
	}
	g.free(m.ops[9]) // one that still waits
	if m.waiting != 0 {
		t.Errorf("%d operations wait for memory, and none is left that does", m.waiting)
	}
	if err := g.Audit(); err != nil {
		t.Error(err)
	}
}

// The others wait for the operations that a member has not completed until its NIC says so. So a
// leave must not count the operation that the process gives up, nor any operation in progress.
func TestALeaveTellsWhatTheMemberHasCompleted(t *testing.T) {
	const completed, under = 2, 3
	for what, end := range map[string]func(g *team, all []*request){
		"the first operation is cancelled": func(g *team, all []*request) { g.Cancel(g.local[0], all[0]) },
		"the last operation is cancelled":  func(g *team, all []*request) { g.Cancel(g.local[0], all[under-1]) },
		"the process ends":                 func(g *team, _ []*request) { g.Gone(g.local[0]) },
		"the process leaves":               func(g *team, _ []*request) { g.start(0, vni.CodeLeave, 0, nil) },
	} {
		for kind, start := range map[string]func(g *team) *request{
			"barriers":   func(g *team) *request { return g.start(0, vni.CodeBarrier, 0, nil) },
			"broadcasts": func(g *team) *request { return g.start(0, vni.CodeBroadcast, 1, make([]byte, 8)) },
			"reductions": func(g *team) *request {
				return g.start(0, vni.CodeReduce, uint64(vni.SumUint64)<<32, make([]byte, 8))
			},
		} {
			g := pair(t)
			for number := range uint32(completed) {
				g.start(0, vni.CodeBarrier, 0, nil)
				g.hear(signalRound, number+1, 1, 0)
			}
			var all []*request
			for range under {
				all = append(all, start(g))
			}
			g.told = new([][]byte)
			g.Up(g.peers[2])
			end(g, all)
			b := (*g.told)[len(*g.told)-1]
			if _, _, last := parseSeat(1, b); b[0] != wire.TableLeave || last != completed {
				t.Errorf("%s of %s: record %d tells that operations up to %d are completed, expected a leave and %d", what, kind, b[0], last, completed)
			}
			for i, r := range all {
				if !r.done {
					t.Errorf("%s of %s: operation %d goes on", what, kind, i+1)
				}
			}
			for number := range uint32(under) { // the peer has not heard of it yet
				p := wire.Piece{GroupHeader: wire.GroupHeader{Group: g.numbers[0], Operation: completed + 1 + number, Rank: 1}, Length: 8,
					What: pieceContribution, Operator: uint8(vni.SumUint64)}
				g.Piece(g.peers[2], p, make([]byte, 8))
			}
			if g.wantIdle(); len(g.members) != 0 {
				t.Errorf("%s of %s: %d members stay", what, kind, len(g.members))
			}
		}
	}
}

// A root that ends before the members below have all the data waits for none of them, whatever it
// has sent.
func TestABroadcastThatEndsEarlyWaitsForNobody(t *testing.T) {
	for what, end := range map[string]func(g *team, r *request){
		"cancelled":          func(g *team, r *request) { g.Cancel(g.local[0], r) },
		"the process ends":   func(g *team, _ *request) { g.Gone(g.local[0]) },
		"the peer is lost":   func(g *team, _ *request) { g.Down(g.peers[2], false) },
		"the members differ": func(g *team, _ *request) { g.hear(signalMismatch, 0, 1, g.member(0).g.sum) },
		"an Ack comes before the data": func(g *team, _ *request) {
			g.hear(signalAck, 1, 1, 0)
			g.Gone(g.local[0])
		},
	} {
		for _, bytes := range []int{8, 5000} {
			g := pair(t)
			r := g.start(0, vni.CodeBroadcast, 0, make([]byte, bytes))
			if r.done || !watched(g.peers[2]) {
				t.Fatalf("%d bytes: done %v before the peer has them", bytes, r.done)
			}
			end(g, r)
			if !r.done {
				t.Errorf("%d bytes, %s: the broadcast goes on", bytes, what)
			}
			g.wantIdle()
		}
	}
}
