package nic

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// flooded sends b many messages for which it never posts a receive, and waits until all have
// arrived.
func flooded(f *fabric, a, b *tester, messages int) {
	f.t.Helper()
	have := func() int { return b.e.process(b.slot).stray.n }
	for n := range messages {
		a.wantSent(a.send(b.name.String(), uint64(n), 0, nil))
	}
	f.until(time.Second, "they have come", func() bool { return have() == messages })
}

// QNIX-49 as amended by decision 10: the messages that a process leaves behind must not cost the
// others a tenth of a second.
func TestWhoLeavesThousandsOfMessagesBehindKeepsNobodyWaiting(t *testing.T) {
	const messages = 2000
	for _, from := range []int{0, 1} { // the NIC of the receiver, another
		f := newFabric(t, 2, fault.Config{})
		a, b, c := f.process(from, "a/0"), f.process(0, "b/0"), f.process(0, "c/0")
		f.known("a/0", "b/0", "c/0")
		flooded(f, a, b, messages)

		e := b.e
		before := e.inbounds.InUse()
		at := post(e, driver.Command{Code: driver.DeleteProcess, Index: b.slot})
		answered := func() bool { _, ok := e.Driver().Answered(at); return ok }
		buf := make([]byte, 1)
		r, served := c.recv("a/0", 5, 0, buf), false
		s := a.send("c/0", 5, 0, []byte{7})
		for e.inbounds.InUse() > 0 {
			if answered() {
				t.Fatalf("Delete_Process is answered, and %d messages are left", e.inbounds.InUse())
			}
			f.step()
			if dropped := before - e.inbounds.InUse(); dropped > 2*limits.DropsPerPoll {
				t.Fatalf("%d messages dropped between two polls; expected %d at most", dropped, limits.DropsPerPoll)
			}
			before = e.inbounds.InUse()
			served = served || c.done(true, r)
		}
		if !served {
			t.Error("a message to another process had to wait until all that was left behind was gone")
		}
		f.until(time.Second, "Delete_Process is answered", answered)
		e.Driver().GiveBack(b.slot)
		a.wantSent(s)
		c.wantReceived(r, buf, []byte{7})
		f.noLeaks()
	}
}

func TestHoweverManyLeaveAtOnceAPollLetsGoOfAFewMessages(t *testing.T) {
	const messages = 200
	f := newFabric(t, 1, fault.Config{})
	a := f.process(0, "a/0")
	e, d, at := a.e, a.e.Driver(), map[uint16]int{}
	var all []*tester
	for i := range 4 {
		b := f.process(0, fmt.Sprintf("b/%d", i))
		flooded(f, a, b, messages)
		all = append(all, b)
	}
	for _, b := range all {
		at[b.slot] = post(e, driver.Command{Code: driver.DeleteProcess, Index: b.slot})
	}
	for e.inbounds.InUse() > 0 {
		before := e.inbounds.InUse()
		f.step()
		if dropped := before - e.inbounds.InUse(); dropped == 0 || dropped > limits.DropsPerPoll {
			t.Fatalf("a poll drops %d of %d messages; expected some, and %d at most", dropped, before, limits.DropsPerPoll)
		}
	}
	for slot, at := range at {
		if _, ok := d.Answered(at); !ok {
			t.Fatalf("the Delete_Process of slot %d is not answered", slot)
		}
		d.GiveBack(slot)
	}
	f.noLeaks()
}

// floodedAndGoing makes two processes of a NIC, of which b is leaving with many messages behind
// it. It returns the position of b's Delete_Process.
func floodedAndGoing(t *testing.T) (f *fabric, a, b *tester, at int) {
	f = newFabric(t, 1, fault.Config{})
	a, b = f.process(0, "a/0"), f.process(0, "b/0")
	f.known("a/0", "b/0")
	flooded(f, a, b, 1000)
	return f, a, b, post(b.e, driver.Command{Code: driver.DeleteProcess, Index: b.slot})
}

func TestTheNameOfWhoLeavesMuchBehindIsFreeAtOnce(t *testing.T) {
	f, a, b, at := floodedAndGoing(t)
	next := f.process(0, "b/0")
	if _, ok := b.e.Driver().Answered(at); ok {
		t.Fatal("nothing was left behind: this test shows nothing")
	}
	s, buf := a.send("b/0", 1, 0, []byte{9}), make([]byte, 1)
	next.wantReceived(next.recv("a/0", 1, 0, buf), buf, []byte{9})
	a.wantSent(s)
	f.until(time.Second, "the first is gone", func() bool { _, ok := b.e.Driver().Answered(at); return ok })
	b.e.Driver().GiveBack(b.slot)
	f.noLeaks()
}

func TestAClosedNICLetsGoOfAllThatIsLeftBehind(t *testing.T) {
	f, _, b, at := floodedAndGoing(t)
	b.e.Close(f.now)
	b.e.Poll(f.now)
	if _, ok := b.e.Driver().Answered(at); !ok || b.e.inbounds.InUse() != 0 {
		t.Errorf("answered %v, and %d messages are left", ok, b.e.inbounds.InUse())
	}
}

// The name of a process is refused while many messages wait for the process, and its driver
// withdraws it before it knows. Both commands are answered when nothing is left.
func TestAProcessThatIsRefusedMayBeDeletedBeforeItsDriverHears(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a := f.process(0, "flood/0")
	e, name := a.e, f.homed(1)
	owner := f.claim(1, name)
	b := f.claim(0, name)
	p := e.process(b.slot)
	for range 4 * limits.DropsPerPoll { // by address: no NIC knows the name yet
		a.start(vni.CodeSend, &vni.SendContext{NIC: e.ID(), Slot: b.slot, Gen: p.gen, Tag: 1, Flags: vni.WantNotify}, nil)
	}
	for p.stray.n < 4*limits.DropsPerPoll { // the home is slow
		e.Poll(f.now)
		f.now++
	}
	f.until(5*time.Second, "it is refused", func() bool { return p.gone })
	if e.process(b.slot) != p {
		t.Fatal("nothing was left behind: this test shows nothing")
	}
	at, answered := post(e, driver.Command{Code: driver.DeleteProcess, Index: b.slot}), false
	f.until(time.Second, "Delete_Process is answered", func() bool { _, answered = e.Driver().Answered(at); return answered })
	if !b.claimed() || !errors.Is(b.refused, ErrNameTaken) {
		t.Errorf("New_Process is answered: %v, with %v; expected %v", b.claimed(), b.refused, ErrNameTaken)
	}
	if e.process(b.slot) != nil || e.leaving.n != 0 {
		t.Error("the process is answered for, and not forgotten")
	}
	e.Driver().GiveBack(b.slot)
	f.until(time.Second, "the owner has the name", owner.claimed)
}
