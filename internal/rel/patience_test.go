package rel

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/weftnet/weft/internal/hotel"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
)

// The silence of a peer does not count while it was not asked anything: neither idle time before
// a Watch …
func TestAPeerWatchedAfterALongIdleTimeIsAskedFirst(t *testing.T) {
	w, a, _, e := joined(t, nil)
	w.run(time.Hour)
	e.Watch(1)
	a.wake()
	w.run(10 * time.Second)
	if len(a.downs) != 0 {
		t.Errorf("told %v", a.downs)
	}
	e.Watch(-1)
}

// … nor a time in which we were not polled.
func TestOwnAbsenceIsNotThePeersSilence(t *testing.T) {
	w, a, b, e := joined(t, nil)
	b.asleep = w.now.Add(6 * time.Second)
	a.frag(e, wire.Command, "x")
	w.run(time.Millisecond)
	a.asleep = w.now.Add(5 * time.Second)
	w.run(10 * time.Second)
	if len(a.downs) != 0 || b.got["x"] != 1 {
		t.Errorf("told %v, delivered %v", a.downs, b.got)
	}
	w.quiet()
}

// Nor does an attempt at a session end by it: no Hello left meanwhile.
func TestAnAttemptOutlastsOwnAbsence(t *testing.T) {
	w := newWorld(t, 5, weather{})
	a, b := w.add(1, nil), w.add(2, nil)
	b.dead = true
	e := a.open(b)
	e.Connect(w.now)
	a.wake()
	w.run(time.Millisecond)
	a.asleep = w.now.Add(5 * time.Second)
	w.run(4 * time.Second)
	b.dead = false
	w.run(2 * time.Second)
	if len(a.downs) != 0 || !e.Up() {
		t.Errorf("told %v, up %v", a.downs, e.Up())
	}
}

func TestAShortPatienceStillTriesSeveralTimes(t *testing.T) {
	w := newWorld(t, 1, weather{})
	short := func(c *Config) { c.UnreachableAfter = 40 * time.Millisecond }
	a, b := w.add(1, short), w.add(2, short)
	lost := 0
	w.filter = func(from, to *node, frame []byte) bool { lost++; return lost > 5 }
	e := a.open(b)
	e.Connect(w.now)
	a.wake()
	w.run(35 * time.Millisecond)
	if !e.Up() {
		t.Error("no session after the sixth Hello")
	}
	b.dead = true
	e.Watch(1)
	a.wake()
	start := w.now
	w.runUntil(time.Second, "unreachable", func() bool { return len(a.downs) == 1 })
	if took := w.now.Sub(start); took > 50*time.Millisecond {
		t.Errorf("unreachable after %v, want about 40 ms", took)
	}
}

// The end of one peer may cause the owner to wait for another, in the middle of a Progress,
// after its look at the newly watched endpoints.
func TestAPeerThatIsWatchedWithinAProgressIsLookedAfter(t *testing.T) {
	w, a, b, e := joined(t, nil)
	c := w.add(3, nil)
	other := a.open(c)
	other.Connect(w.now)
	a.wake()
	w.runUntil(time.Second, "a session with the other", func() bool { return other.Up() && c.ups == 1 })
	w.run(time.Second)
	a.onDown = func(ended *Endpoint, _ error) {
		if ended == e {
			other.Watch(1)
		}
	}
	b.dead, c.dead = true, true
	e.Watch(1)
	a.wake()
	w.runUntil(10*time.Second, "the end of both", func() bool { return len(a.downs) == 2 })
}

// The hotel's last rooms are for control and retransmissions; a sender that finds none free
// waits and continues.
func TestAFullHotelDelaysAndLosesNothing(t *testing.T) {
	w := newWorld(t, 3, weather{loss: 0.05})
	const rooms = 2 * limits.RoomReserve
	a, b := w.add(1, func(c *Config) { c.Rooms = rooms }), w.add(2, nil)
	c := w.add(3, nil)
	b.open(a)
	tr := newTraffic(a, b, 300, []int{200_000})
	other := a.open(c)
	other.Connect(w.now)
	tr.pump()
	most, homeless := 0, 0
	w.runUntil(20*time.Second, "the transfer", func() bool {
		most, homeless = max(most, a.m.InFlight()), homeless+len(a.m.homeless)
		if len(c.got) < 20 {
			a.frag(other, wire.Command, fmt.Sprint("to the other ", len(c.got)))
			a.next = w.now.Add(100)
		}
		return tr.finished() && len(c.got) == 20
	})
	w.run(time.Second)
	tr.exactly(t)
	w.quiet()
	if most > rooms || most < rooms-a.m.reserve {
		t.Errorf("%d guests at most", most)
	}
	if homeless == 0 || a.m.Stats().Resends == 0 {
		t.Errorf("senders were found without a room %d times, and %d segments were sent again", homeless, a.m.Stats().Resends)
	}
}

// Several senders share one receiver's socket buffer, and it is polled seldom: much is thrown
// away, all arrives.
func TestManySendersOneSmallSocket(t *testing.T) {
	w := newWorld(t, 1, weather{nsPerByte: 0.8, socket: 208 << 10})
	to := w.add(1, nil)
	const senders, bytes = 6, 1 << 20
	got := 0
	to.deliver = func(e *Endpoint, r wire.Record) {
		got += len(r.Payload())
		to.asleep = w.now.Add(100 * time.Microsecond)
	}
	done := 0
	for i := range senders {
		n := w.add(2+i, nil)
		e := n.open(to)
		f := chunks(1, bytes)
		pump := func(e *Endpoint) {
			for e.Post(w.now, f, 44) > 0 {
			}
			n.wake()
		}
		n.onRoom = pump
		n.onFree = func(*Fragment) { done++ }
		pump(e)
	}
	start := w.now
	w.runUntil(20*time.Second, "the transfers", func() bool { return done == senders })
	took := w.now.Sub(start)
	if got != senders*bytes {
		t.Errorf("%d bytes were delivered, want %d", got, senders*bytes)
	}
	// The buffer holds some 95 frames of 1,408 bytes per 100 µs, which is 1.3 GB/s.
	least := time.Duration(senders * bytes * 10 / 13)
	t.Logf("%v, %.1f times the least possible; %d overflows", took, float64(took)/float64(least), w.overflowed)
	if took > 4*least {
		t.Errorf("took %v, though %v would do", took, least)
	}
	if w.overflowed == 0 {
		t.Error("nothing was thrown away")
	}
	w.run(time.Second)
	w.quiet()
}

// The prices that docs/rel.md quotes.
func TestAnIdlePeerCostsLittle(t *testing.T) {
	session := int(unsafe.Sizeof(session{})) + wire.Spaces*(limits.FirstRing*8+limits.FirstRing/8)
	if n := int(unsafe.Sizeof(Endpoint{})) + session; n > 3072 {
		t.Errorf("an idle peer costs %d bytes, want 3 KiB at most", n)
	}
	if n := int(unsafe.Sizeof(PeerStats{})); n > 2048 {
		t.Errorf("the counts of a peer cost %d bytes, want 2 KiB at most", n)
	}
	if n := int(unsafe.Sizeof(segment{})); n > 144 {
		t.Errorf("a segment costs %d bytes, want 144 at most", n)
	}
	if n := 3 * int(unsafe.Sizeof(hotel.Hotel[int]{})); n > 64<<10 {
		t.Errorf("empty hotels cost %d bytes, want 64 KiB at most", n)
	}
}
