package rel

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// Frames and segments that wait on a queue leave it: in time, in order, and not all at once.

func TestWhatTheDriverDidNotTakeLeavesWithALaterPoll(t *testing.T) { // USNIC-18
	w, a, b, e := joined(t, nil)
	a.frag(e, wire.Command, "queued")
	a.m.Progress(w.now, deaf{a})
	if len(b.got) != 0 || e.channels[wire.Command].queue.n != 1 {
		t.Fatalf("%d segments are queued, and %v was delivered", e.channels[wire.Command].queue.n, b.got)
	}
	w.run(time.Millisecond)
	if b.got["queued"] != 1 {
		t.Errorf("a millisecond later %v was delivered", b.got)
	}
}

func TestAPollSendsAFewSegmentsAgain(t *testing.T) { // USNIC-20
	w, a, _, e := joined(t, nil)
	const lost = 3 * limits.ResendsPerPoll
	a.watch(func(s sighting) bool { return s.kind == wire.KindData })
	for i := range lost {
		a.frag(e, wire.Command, payload(i, 1200)) // it shares no frame with the next
	}
	a.poll()
	if n := e.live.flight.n; n < lost {
		t.Fatalf("%d segments are in flight; expected %d", n, lost)
	}
	for g := e.live.flight.head; g != nil; g = e.live.flight.head {
		a.m.resend(w.now, e.live, g, CauseFast)
	}
	for polls := 0; a.m.resends.n > 0; polls++ {
		before := e.m.stats.Resends
		a.m.Progress(w.now, a)
		if n := e.m.stats.Resends - before; n == 0 || n > limits.ResendsPerPoll {
			t.Fatalf("poll %d sent %d segments again; expected some, and at most %d", polls, n, limits.ResendsPerPoll)
		}
	}
}

func TestARecordInTheLinksOwnFrameOvertakesNothing(t *testing.T) { // USNIC-28
	w, a, _, e := newReliable(t, mutate.None)
	begin := func() bool {
		b, _ := e.Begin(wire.Command, wire.FragLen+10, AsFrame, nil, a)
		return b != nil
	}
	if !begin() {
		t.Fatal("there is no frame for a record where nothing is queued")
	}
	a.frag(e, wire.Command, "queued")
	if begin() {
		t.Error("a record gets a frame though one is queued that it would overtake")
	}
	w.run(time.Millisecond)
	if !begin() {
		t.Error("there is no frame for a record though what was queued has left")
	}
}

func TestALongSegmentTakesTheAcknowledgementAlong(t *testing.T) { // USNIC-35
	w, a, b, e := joined(t, nil)
	back := b.open(a)
	before, acks := e.m.stats.SegmentsAcked, back.m.stats.AckSends
	for i := range 10 {
		a.frag(e, wire.Data, payload(i, 1000))
		w.runUntil(time.Millisecond, "question", func() bool { return len(b.got) == i+1 })
		b.frag(back, wire.Data, payload(i, 1000))
		w.runUntil(time.Millisecond, "answer", func() bool { return len(a.got) == i+1 })
	}
	if n := back.m.stats.AckSends - acks; n != 0 {
		t.Errorf("%d acknowledgements went alone", n)
	}
	if n := e.m.stats.SegmentsAcked - before; n != 10 {
		t.Errorf("of 10 segments %d are acknowledged by the answers", n)
	}
}
