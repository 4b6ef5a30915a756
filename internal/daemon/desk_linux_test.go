package daemon

import (
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/proc"
)

func askedBy(nic uint64) asked { return asked{m: proc.Message{NIC: nic}} }

// takes takes n requests without ending any, and returns their NICs.
func (k *desk) takes(t *testing.T, n int) (nics []uint64) {
	t.Helper()
	for range n {
		a, ok := k.take()
		if !ok {
			t.Fatal("the desk is closed")
		}
		nics = append(nics, a.m.NIC)
	}
	return nics
}

func TestANICThatAsksMuchHoldsHalfOfTheServersAtMost(t *testing.T) {
	k := newDesk()
	for i := range limits.ControlWaiting {
		if !k.put(askedBy(1)) {
			t.Fatalf("request %d is refused", i)
		}
	}
	if k.put(askedBy(1)) {
		t.Error("one more request of the NIC is taken")
	}
	if got := k.takes(t, 2); got[0] != 1 || got[1] != 1 {
		t.Fatalf("served are %v", got)
	}
	k.put(askedBy(2)) // all the others of NIC 1 are before it
	k.put(askedBy(3))
	if got := k.takes(t, 2); got[0] != 2 || got[1] != 3 {
		t.Errorf("while two requests of NIC 1 are served, those of NICs %v follow; want 2 and 3", got)
	}
	k.done(1)
	if got := k.takes(t, 1); got[0] != 1 {
		t.Errorf("then one of NIC %d; want 1", got[0])
	}
}

func TestNICsThatWaitTakeTurns(t *testing.T) {
	k := newDesk()
	for _, nic := range []uint64{1, 1, 1, 2, 2, 3} {
		k.put(askedBy(nic))
	}
	var got []uint64
	for range 6 {
		nic := k.takes(t, 1)[0]
		k.done(nic)
		got = append(got, nic)
	}
	for i, want := range []uint64{1, 2, 3, 1, 2, 1} {
		if got[i] != want {
			t.Fatalf("served are %v", got)
		}
	}
	if len(k.queues)+len(k.turns)+k.waiting != 0 {
		t.Errorf("the desk keeps %d queues, %d turns and %d requests of NICs that have gone", len(k.queues), len(k.turns), k.waiting)
	}
}

func TestTheDeskIsBoundedAndEnds(t *testing.T) {
	k := newDesk()
	n := 0
	for nic := uint64(1); k.put(askedBy(nic)); nic++ {
		n++
	}
	if n != limits.ControlWaitingAll {
		t.Errorf("%d requests wait; want %d at most", n, limits.ControlWaitingAll)
	}
	k.close()
	if _, ok := k.take(); ok {
		t.Error("a request is taken at the end")
	}
	if k.put(askedBy(1)) {
		t.Error("a request is put at the end")
	}
}
