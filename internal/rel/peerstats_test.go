package rel

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
)

// joinedTwice joins NIC 1 with NICs 2 and 3, and returns its two endpoints.
func joinedTwice(t *testing.T) (w *world, a *node, toB, toC *Endpoint) {
	t.Helper()
	w, a, _, toB = joined(t, nil)
	c := w.add(3, nil)
	toC = a.open(c)
	c.open(a)
	toC.Connect(w.now)
	a.wake()
	w.runUntil(time.Second, "the second hello", func() bool { return toC.Up() && c.ups == 1 })
	w.run(time.Second)
	return w, a, toB, toC
}

// loseTo loses the data frames to NIC 2 for which lose returns true, and returns when each data
// frame to it has left. lose gets the number of the frame, from 0.
func (w *world) loseTo(lose func(i int) bool) *[]clock.Time {
	var left []clock.Time
	w.filter = func(from, to *node, frame []byte) bool {
		o, _, err := wire.ParseOuter(frame)
		if err != nil || o.Kind != wire.KindData || to.cfg.NIC != 2 {
			return true
		}
		left = append(left, w.now)
		return !lose(len(left) - 1)
	}
	return &left
}

func TestLostFramesAreRetransmissionsOfTheirPeerByCause(t *testing.T) {
	w, a, toB, toC := joinedTwice(t)
	lost := map[int]bool{3: true, 11: true, 20: true}
	w.loseTo(func(i int) bool { return lost[i] })
	for i := range 40 { // a message of 1,200 bytes shares no frame with the next
		a.frag(toB, wire.Command, payload(i, 1200))
		a.frag(toC, wire.Command, payload(i, 1200))
	}
	w.run(time.Second)
	b, c := toB.Stats(), toC.Stats()
	if want := [Causes]uint64{CauseFast: 3}; b.Lost != want || b.Resends != 3 || b.Sends != 40 {
		t.Errorf("to the peer behind the loss: lost %v, %d sent and %d resent; want %v, 40 and 3", b.Lost, b.Sends, b.Resends, want)
	}
	if c.Lost != [Causes]uint64{} || c.Resends != 0 || c.Sends != 40 {
		t.Errorf("to the other peer: lost %v, %d sent and %d resent; want nothing lost", c.Lost, c.Sends, c.Resends)
	}
	w.quiet()
}

// If a message is lost repeatedly, the tail timer retransmits it as often as it may, and then the
// timeout does. The durations until each loss was noticed add up to the time
// from the first posting to the last.
func TestTheTimeThatLossesTookIsExact(t *testing.T) {
	w, a, toB, _ := joinedTwice(t)
	const losses = 1 + limits.TailProbes
	left := w.loseTo(func(i int) bool { return i < losses })
	a.frag(toB, wire.Command, "a message")
	w.run(5 * time.Second)
	s := toB.Stats()
	if want := [Causes]uint64{CauseTimeout: 1, CauseTail: limits.TailProbes}; s.Lost != want || len(*left) != losses+1 {
		t.Fatalf("lost %v, and it was posted %d times; want %v and %d", s.Lost, len(*left), want, losses+1)
	}
	var sum time.Duration
	for _, d := range s.Unnoticed {
		sum += d
	}
	if took := (*left)[losses].Sub((*left)[0]); sum != took || s.Unnoticed[CauseTimeout] <= 0 || s.Unnoticed[CauseTail] <= 0 {
		t.Errorf("losses were not noticed for %v, in all %v; the message was posted over %v", s.Unnoticed, sum, took)
	}
}

func TestTheHistogramHasTheRoundTripsOfThePath(t *testing.T) {
	w, a, _, e := joined(t, nil)
	const delay = 3 * time.Millisecond
	w.weather.delay = delay
	before := e.Stats().RTT
	const messages = 100
	for range messages {
		a.frag(e, wire.Command, "a message")
		w.run(50 * time.Millisecond)
	}
	h := e.Stats().RTT.Since(&before)
	if h.Count < messages/2 || h.Count > 2*messages {
		t.Fatalf("%d round trips were recorded for %d messages", h.Count, messages)
	}
	for _, got := range []time.Duration{h.Quantile(0.1), h.Quantile(0.5), h.Quantile(0.99), h.Mean()} {
		if off := (got - 2*delay).Abs(); off > 2*delay/16 {
			t.Errorf("a quantile or the mean of the round trips is %v; want %v to a sixteenth", got, 2*delay)
		}
	}
}

func TestWhatOnePeerSendsTheOtherReceives(t *testing.T) {
	w, a, b, e := joined(t, nil)
	back := b.m.Endpoint(a.cfg.NIC)
	for i := range 100 {
		a.frag(e, wire.Command, payload(i, 1+10*i))
		if i%10 == 0 {
			w.run(time.Millisecond)
		}
	}
	w.run(time.Second)
	if out, in := e.Stats().Out, back.Stats().In; out != in || out.Frames < 10 || out.Bytes < 100*500 {
		t.Errorf("one peer sent %v, the other received %v", out, in)
	}
	if out, in := back.Stats().Out, e.Stats().In; out != in || out.Frames == 0 {
		t.Errorf("back, one peer sent %v, the other received %v", out, in)
	}
	first := e.Stats().Out
	b.restart()
	b.open(a).Connect(w.now)
	b.wake()
	w.runUntil(10*time.Second, "the next session", func() bool { return e.Stats().Sessions == 2 })
	if out := e.Stats().Out; out.Frames <= first.Frames || out.Bytes <= first.Bytes {
		t.Errorf("after the second session opened, %v were sent; in the first one already %v", out, first)
	}
}

// On a plain link, the answer to a Hello is a frame of its session; the Hello is not.
func TestOfAHandshakeOnAPlainLinkOnlyTheAnswerIsCounted(t *testing.T) {
	w := newWorld(t, 1, weather{})
	a, b := w.add(1, nil), w.add(2, nil)
	kinds := map[wire.Kind]uint64{} // frames from b to a
	w.filter = func(from, _ *node, frame []byte) bool {
		if o, _, err := wire.ParseOuter(frame); err == nil && from == b {
			kinds[o.Kind]++
		}
		return true
	}
	e := a.open(b)
	b.open(a)
	e.Connect(w.now)
	a.wake()
	w.runUntil(time.Second, "hello", func() bool { return e.Up() && b.ups == 1 })
	w.run(time.Second)
	all := uint64(0)
	for k, n := range kinds {
		if k != wire.KindHello {
			all += n
		}
	}
	if in := e.Stats().In.Frames; in != all || kinds[wire.KindHelloAck] == 0 {
		t.Errorf("%d frames came in; want %d, by kind %v", in, all, kinds)
	}
}

func TestRenewalsOfKeysAreCounted(t *testing.T) {
	w := newWorld(t, 1, weather{})
	a, b := w.add(1, sealAs(1, fast)), w.add(2, sealAs(2, fast))
	rekeys := uint64(0) // frames from b to a
	other := uint64(0)
	w.filter = func(from, _ *node, frame []byte) bool {
		if o, _, err := wire.ParseOuter(frame); err == nil && from == b && o.Kind == wire.KindRekey {
			rekeys++
		} else if err == nil && from == b && !o.Kind.OfHandshake() {
			other++
		}
		return true
	}
	e := a.open(b)
	b.open(a)
	e.Connect(w.now)
	a.wake()
	w.runUntil(time.Second, "the session", func() bool { return e.Up() })
	for i := range 200 {
		a.frag(e, wire.Command, payload(i, 10))
		w.run(time.Millisecond)
	}
	w.run(time.Second)
	if in := e.Stats().In.Frames; in != rekeys+other || rekeys == 0 {
		t.Errorf("%d frames came in; want %d, of which %d renew keys", in, rekeys+other, rekeys)
	}
}

// The counts of all peers together are those of the module, under loss and duplication.
func TestTheCountsOfAllPeersAddUpToThoseOfTheNIC(t *testing.T) {
	w, a, toB, toC := joinedTwice(t)
	w.weather.loss, w.weather.dup, w.weather.reorder, w.weather.jitter = 0.05, 0.05, 0.1, 200*time.Microsecond
	got := a.got
	for i := range 2000 {
		a.frag([]*Endpoint{toB, toC}[i%2], wire.Command, payload(i, 1000))
		for _, n := range w.nodes[1:] {
			n.frag(n.m.Endpoint(1), wire.Data, payload(i, 1000))
		}
		w.run(20 * time.Microsecond)
	}
	w.weather = weather{delay: w.weather.delay}
	w.run(20 * time.Second)
	w.quiet()
	var sum PeerStats
	for _, e := range []*Endpoint{toB, toC} {
		s := e.Stats()
		sum.Sends, sum.Resends, sum.ResentBytes = sum.Sends+s.Sends, sum.Resends+s.Resends, sum.ResentBytes+s.ResentBytes
		sum.Duplicates += s.Duplicates
		for c := range Causes {
			sum.Lost[c] += s.Lost[c]
		}
	}
	st := a.m.Stats()
	if sum.Sends != st.TotalSends || sum.Resends != st.Resends || sum.ResentBytes != st.ResentBytes ||
		sum.Duplicates != st.Duplicates+st.OutOfWindowLow || sum.Lost[CauseFast] != st.FastResends ||
		sum.Lost[CauseTail] != st.TailResends || sum.Lost[CauseTimeout]+sum.Lost[CausePath] != st.TimeoutResends {
		t.Errorf("the peers have %+v; the module has %+v", sum, *st)
	}
	if sum.Resends == 0 || sum.Duplicates == 0 || len(got) < 2000 {
		t.Errorf("%d were resent, %d came twice, %d arrived: the test shows nothing", sum.Resends, sum.Duplicates, len(got))
	}
}
