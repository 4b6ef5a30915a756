package nic

import (
	"math"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/vni"
)

func TestACancelledReceiveEndsThoughItsMessageIsWithdrawn(t *testing.T) { // decision 9
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "app/0"), f.process(1, "app/1")
	f.known("app/0", "app/1")
	buf := make([]byte, 64<<20)
	r := b.recv("", 0, vni.AnyTag, buf)
	s := a.send("app/1", 1, 0, pattern(len(buf), 1))
	f.until(5*time.Second, "the message is matched", func() bool { return b.e.procs.at(b.slot).recvs[r].state == recvMatched })
	b.post(vni.Command{Code: vni.CodeCancel, Context: uint16(r), Size: vni.CancelReceive})
	f.until(5*time.Second, "the Cancel is read", func() bool { return b.e.procs.at(b.slot).recvs[r].recall })
	a.post(vni.Command{Code: vni.CodeCancel, Context: uint16(s), Size: vni.CancelSend})
	if c := a.finish(false, s); c.Status != vni.StatusCancelled {
		t.Fatalf("the send ended with %v", c.Status)
	}
	if c := b.finish(true, r); c.Status != vni.StatusCancelled {
		t.Fatalf("the receive ended with %v", c.Status)
	}
	f.noLeaks()
}

// Message numbers wrap around. Number 0 is like the others, even if its message is given up.
func TestAMessageWithNumber0IsPassedOverWhenItIsGivenUp(t *testing.T) {
	f := newFabric(t, 2, fault.Config{Seed: 1})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	buf := make([]byte, 10)
	r := b.recv("a/0", 0, vni.AnyTag, buf)
	a.wantSent(a.send("b/0", 0, 0, []byte("x")))
	b.wantReceived(r, buf, []byte("x"))
	f.run(10 * time.Millisecond)
	for _, d := range a.e.process(a.slot).dests { // four thousand million messages later
		d.number = 0
	}
	for _, s := range b.e.process(b.slot).sources {
		s.expected = 0
	}
	f.faults[1].Cut(mem.Address(1))
	s := a.send("b/0", 7, 0, pattern(5000, 1)) // on credit, in pieces, which are lost
	f.run(time.Millisecond)
	a.post(vni.Command{Code: vni.CodeCancel, Context: uint16(s), Size: vni.CancelSend})
	a.finish(false, s)
	f.faults[1].Heal()
	r = b.recv("a/0", 0, vni.AnyTag, buf)
	a.wantSent(a.send("b/0", 0, 0, []byte("y")))
	b.wantReceived(r, buf, []byte("y"))
}

// The Withdraw of a PUT names no message of any process, in any life of its slot.
func TestGeneration0IsNoProcesss(t *testing.T) {
	var table processTable
	table.init(1, math.MaxUint32-1)
	if first, second := table.generation(1), table.generation(1); first != math.MaxUint32 || second != 1 {
		t.Errorf("the generations of a slot are %d and %d; expected %d and 1", first, second, uint32(math.MaxUint32))
	}
}
