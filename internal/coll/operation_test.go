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
	if err := g.Leaks(); err != nil || g.buffers != 0 {
		t.Errorf("%v, %d buffers", err, g.buffers)
	}
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
