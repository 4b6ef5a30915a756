package rel

import (
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// givesUp sends a record by Refusal.
func (n *node) givesUp(e *Endpoint, text string) {
	b := e.Refusal(n.w.now, wire.FragLen+len(text))
	wire.PutFrag(b, &wire.Envelope{}, len(text))
	copy(b[wire.FragLen:], text)
	n.wake()
}

// The refusal is lost several times, and the pieces that were in flight when it was made are
// not. a gets the refusal before it has the fragment back.
func TestARefusalIsHeardBeforeTheRestOfItsFragmentIsAcknowledged(t *testing.T) {
	w, a, b, e := joined(t, nil)
	back := b.m.Endpoint(1)
	got := b.bytesOf()
	f := chunks(1, 20_000)
	f.Limit = 10_000
	a.postAll(e, f)
	w.run(time.Millisecond)

	lost := 0
	w.filter = func(from, to *node, frame []byte) bool {
		o, _, err := wire.ParseOuter(frame)
		if err != nil || from != b || o.Kind != wire.KindData || lost == 4 {
			return true
		}
		lost++
		return false
	}
	released, heard := false, false
	a.onFree = func(*Fragment) {
		if released = true; !heard {
			t.Error("the fragment was released before the refusal was heard")
		}
	}
	a.deliver = func(*Endpoint, wire.Record) { heard = true }
	for range 3 { // the third while the first is withheld
		b.givesUp(back, "no")
	}
	f.Limit = 20_000
	a.postAll(e, f)
	w.runUntil(time.Second, "the release", func() bool { return released })
	if *got != 20_000 || lost != 4 || back.live.withheld.n != 0 {
		t.Errorf("%d of 20000 bytes came, %d frames were lost, and %d refusals are withheld", *got, lost, back.live.withheld.n)
	}
	w.run(time.Second)
	w.quiet()
}

// Segments that were not acknowledged because of a refusal are acknowledged as soon as the peer
// has the refusal: it need not retransmit to find out.
func TestWhatCameBehindARefusalIsAcknowledgedOnceThatIs(t *testing.T) {
	w, a, b, e := joined(t, nil)
	b.bytesOf()
	f := chunks(1, 1000)
	b.givesUp(b.m.Endpoint(1), "no")
	a.postAll(e, f)
	w.runUntil(time.Second, "the release", func() bool { return len(a.released) == 1 })
	if n := a.m.Stats().Resends; n != 0 {
		t.Errorf("%d segments were sent again, though none was lost", n)
	}
	w.run(time.Second)
	w.quiet()
}

// Over a reliable link the answer to the probe waits until the refusal has left.
func TestARefusalLeavesBeforeTheRestOfItsFragmentIsConfirmed(t *testing.T) {
	w, a, b, e := newReliable(t, mutate.None)
	back := b.m.Endpoint(1)
	var probe []byte
	w.filter = func(from, to *node, frame []byte) bool {
		if o, _, _ := wire.ParseOuter(frame); o.Kind == wire.KindProbe && from == a && probe == nil {
			probe = slices.Clone(frame)
			return false
		}
		return true
	}
	var order []string
	a.deliver = func(*Endpoint, wire.Record) { order = append(order, "refused") }
	a.onFree = func(*Fragment) { order = append(order, "released") }
	a.postAll(e, confirmed(1, 20_000))
	w.runUntil(time.Second, "the probe", func() bool { return probe != nil })
	b.givesUp(back, "no")
	if b.m.Receive(w.now, a.addr, probe); back.owed != 1 {
		t.Fatalf("%d answers are owed", back.owed)
	}
	b.m.discharge(w.now, back, b) // as when the link takes one more frame and then no more
	w.runUntil(time.Second, "the release", func() bool { return len(order) == 2 })
	if order[0] != "refused" {
		t.Errorf("first it was %v", order)
	}
	w.quiet()
}
