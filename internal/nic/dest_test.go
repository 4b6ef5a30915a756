package nic

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// A NIC's memory of the receivers of its processes is bounded, even if the receivers do not exist.
// It is freed when the sending process ends.
func TestAddressesThatAreMadeUpAreForgotten(t *testing.T) {
	for _, left := range []bool{false, true} { // whether a message has left when it is cancelled
		f := newFabric(t, 2, fault.Config{})
		a, b := f.process(0, "a/0"), f.process(1, "b/0")
		p, pr := a.e.process(a.slot), a.e.peerOf(2)
		for i := range uint32(10 * limits.BlankDestinations) {
			s := a.start(vni.CodeSend, &vni.SendContext{NIC: 2, Slot: b.slot, Gen: b.gen + 1 + i, Flags: vni.WantNotify}, []byte("x"))
			if left {
				f.step()
			}
			a.post(vni.Command{Code: vni.CodeCancel, Context: uint16(s), Size: vni.CancelSend})
			a.finish(false, s)
		}
		if n := len(p.dests); left != (n > limits.BlankDestinations) {
			t.Errorf("left %v: %d processes are remembered; expected %d at most of those that no message has left for", left, n, limits.BlankDestinations)
		}
		for _, e := range f.engines {
			if err := e.Limits(); err != nil {
				t.Error(err)
			}
		}
		at := post(a.e, driver.Command{Code: driver.DeleteProcess, Index: a.slot})
		f.until(time.Second, "Delete_Process is answered", func() bool { _, ok := a.e.Driver().Answered(at); return ok })
		if n := len(pr.remotes); n != 0 {
			t.Errorf("left %v: %d processes are remembered when the one that has sent to them has gone", left, n)
		}
		f.noLeaks()
	}
}

func TestAProcessSendsToSoManyOthersAndNoMore(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("b/0")
	p := a.e.process(a.slot)
	for i := range limits.Destinations {
		d, status := a.e.newDest(p, vni.Address{NIC: 2, Slot: b.slot, Gen: b.gen + 1 + uint32(i)})
		if status != vni.StatusOK {
			t.Fatalf("destination %d: %v", i, status)
		}
		d.leave(1, 0)
	}
	if c := a.finish(false, a.send("b/0", 0, 0, nil)); c.Status != vni.StatusNoMemory {
		t.Errorf("a send to one more ended with %v; expected %v", c.Status, vni.StatusNoMemory)
	}
	if err := a.e.Limits(); err != nil {
		t.Error(err)
	}
	at := post(a.e, driver.Command{Code: driver.DeleteProcess, Index: a.slot})
	for before := len(p.dests); before > 0; before = len(p.dests) {
		f.step()
		if n := before - len(p.dests); n == 0 || n > 2*limits.ForgottenPerPoll {
			t.Fatalf("%d are forgotten between two polls; expected %d", n, limits.ForgottenPerPoll)
		}
	}
	f.until(time.Second, "Delete_Process is answered", func() bool { _, ok := a.e.Driver().Answered(at); return ok })
}

// Otherwise the NIC that has given the credit would give no more, and would wait for ever for the
// credit that it recalls.
func TestCreditStaysWhenTheProcessHasGoneThatItWasFor(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	a.send("b/0", 0, 0, []byte("x"))
	a.e.Poll(f.now) // its request leaves
	a.exit()
	if n := len(a.e.peerOf(2).remotes); n != 0 {
		t.Fatalf("%d processes are remembered, which no process sends to", n)
	}
	f.run(10 * time.Millisecond)
	given := b.e.CreditGiven()
	if len(given) != 1 || given[0].Unspent == 0 {
		t.Fatalf("credit given: %+v; expected some", given)
	}
	if held := a.e.CreditHeld(2, b.slot, b.gen); held != given[0].Unspent {
		t.Errorf("credit for %d bytes is held, and %d are given", held, given[0].Unspent)
	}
	f.noLeaks()
}
