package rel

import (
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
)

// These tests check when frames leave, on the wire and in virtual time.

// sighting is a frame that a node has sent.
type sighting struct {
	at     clock.Time
	kind   wire.Kind
	space  wire.Space // of a data frame
	seq    wire.Seq
	reason wire.AckReason // of an ACK
	size   int
}

// watch notes each frame that n sends from now on, and loses those for which lose returns true.
func (n *node) watch(lose func(s sighting) bool) *[]sighting {
	var seen []sighting
	n.w.filter = func(from, to *node, frame []byte) bool {
		o, _, err := wire.ParseOuter(frame)
		if err != nil || from != n {
			return true
		}
		s := sighting{at: n.w.now, kind: o.Kind, size: len(frame)}
		body := frame[wire.OuterLen : len(frame)-wire.TagLen]
		switch o.Kind {
		case wire.KindData:
			h, _, err := wire.ParseInner(body)
			if err != nil {
				n.w.t.Fatal(err)
			}
			s.space, s.seq = h.Space, h.Seq
		case wire.KindAck:
			var a wire.Ack
			if err := a.Parse(body); err != nil {
				n.w.t.Fatal(err)
			}
			s.reason = a.Reason
		}
		seen = append(seen, s)
		return lose == nil || !lose(s)
	}
	return &seen
}

// kinds returns the sightings of a kind.
func kinds(seen []sighting, k wire.Kind) (l []sighting) {
	for _, s := range seen {
		if s.kind == k {
			l = append(l, s)
		}
	}
	return l
}

// USNIC-45: as long as no round trip was measured, a segment is retransmitted after 100 ms, no
// earlier and hardly later.
func TestTheFirstTimerIsOf100Milliseconds(t *testing.T) {
	w, a, b, e := joined(t, nil)
	e.live.rtt = roundTrip{}
	b.dead = true
	seen := a.watch(nil)
	sent := w.now
	a.frag(e, wire.Command, "into silence")
	w.run(150 * time.Millisecond)
	l := kinds(*seen, wire.KindData)
	if len(l) != 2 {
		t.Fatalf("%d data frames were sent within 150 ms; want the first and one more", len(l))
	}
	if d := l[1].at.Sub(l[0].at); l[0].at != sent || d < limits.FirstRetransmit || d > limits.FirstRetransmit*5/4 {
		t.Errorf("it was sent after %v and again %v later; want at once, and %v later", l[0].at.Sub(sent), d, limits.FirstRetransmit)
	}
}

// Round trips of an even path do not vary. A peer that is scheduled a little late after many of
// them is not taken for a loss.
func TestALateAnswerOverAnEvenPathIsNoLoss(t *testing.T) {
	w, a, b, e := joined(t, nil)
	w.weather.delay, e.live.rtt = 2*time.Millisecond, roundTrip{}
	send := func(late time.Duration) {
		a.frag(e, wire.Command, "a message")
		b.asleep = w.now.Add(w.weather.delay + late)
		w.run(3 * w.weather.delay)
	}
	for range 200 {
		send(0)
	}
	before, trips := a.m.Stats().Resends, e.live.rtt
	if send(limits.LeastLateness * 3 / 4); trips.vary > time.Microsecond || a.m.Stats().Resends != before {
		t.Errorf("after round trips of %v that varied by %v, %d segments were sent again", trips.smooth, trips.vary, a.m.Stats().Resends-before)
	}
}

// A path whose round trips become much longer is measured anew, and then nothing is
// retransmitted.
func TestRoundTripsThatBecomeLongerAreMeasured(t *testing.T) {
	w, a, b, e := joined(t, nil)
	w.weather.delay = 5 * time.Millisecond
	answers := 0
	b.deliver = func(back *Endpoint, r wire.Record) { b.frag(back, wire.Command, "answer") }
	a.deliver = func(*Endpoint, wire.Record) { answers++ }
	again := []uint64{}
	for range 100 {
		want, before := answers+1, a.m.Stats().Resends
		a.frag(e, wire.Command, "question")
		w.runUntil(time.Second, "the answer", func() bool { return answers == want })
		again = append(again, a.m.Stats().Resends-before)
	}
	if got := e.live.rtt.smooth; got < 8*time.Millisecond || slices.Max(again[20:]) > 0 {
		t.Errorf("round trips are thought to take %v, and each question was sent %v times again; want 10 ms, and none after 20", got, again)
	}
}

// The last chunk of a message is acknowledged in the poll in which it arrives, since its sender
// waits for that; the ACK of other chunks is delayed (USNIC-48).
func TestTheLastChunkIsAcknowledgedInTheSamePoll(t *testing.T) {
	for name, last := range map[string]bool{"the last": true, "another": false} {
		t.Run(name, func(t *testing.T) {
			w, a, b, e := joined(t, nil)
			var came clock.Time
			b.deliver = func(e *Endpoint, r wire.Record) {
				came = w.now
				if last {
					e.AckNow()
				}
			}
			seen := b.watch(nil)
			a.frag(e, wire.Data, "a chunk")
			w.run(time.Millisecond)
			l := kinds(*seen, wire.KindAck)
			if came == 0 || len(l) != 1 {
				t.Fatalf("it came at %v, and %d ACKs were sent", came, len(l))
			}
			want := came
			if !last {
				want = came.Add(limits.AckDelay)
			}
			if l[0].at < want || l[0].at > want.Add(20*time.Microsecond) || last != (l[0].reason == wire.AckLast) {
				t.Errorf("it was acknowledged after %v, because of %v", l[0].at.Sub(came), l[0].reason)
			}
		})
	}
}

// An ACK that the hook fails is not on the wire, and counts as sent: it is not sent a little
// later.
func TestAFailedAckIsMissingOnTheWire(t *testing.T) {
	failed := 0
	w, a, b, e := joined(t, func(c *Config) {
		c.Faults.FailAck = func() bool { failed++; return true }
	})
	w.run(time.Second)
	failed = 0
	acks := b.watch(nil)
	sends := 0
	b.deliver = func(*Endpoint, wire.Record) { sends++ }
	a.frag(e, wire.Command, "unacknowledged")
	w.run(limits.AckDelay + 50*time.Microsecond) // and no longer, or the sender asks
	if sends != 1 || failed != 1 {
		t.Fatalf("%d records came, and %d ACKs failed; want 1 of each", sends, failed)
	}
	if l := kinds(*acks, wire.KindAck); len(l) > 0 {
		t.Errorf("%d ACKs were sent though each fails", len(l))
	}
	if st := b.m.Stats(); st.AckSends != 0 {
		t.Errorf("%d ACKs are counted though none was sent", st.AckSends)
	}
}

// USNIC-51: an acknowledgement that later ones have overtaken changes nothing, and is counted.
func TestAnAcknowledgementThatWasOvertakenIsIgnored(t *testing.T) {
	w, a, _, e := joined(t, nil)
	for range 3 {
		a.frag(e, wire.Command, "acknowledged")
		w.run(time.Second)
	}
	window, old := &e.live.send[wire.Command], e.m.stats.OldAcks
	before := *window
	var n news
	if a.m.cumulative(w.now, e.live, wire.Command, window.base.Add(-2), &n) {
		t.Error("it counts as one of the present window, so that its selective bits would be read")
	}
	if n.progress || window.base != before.base || window.next != before.next || e.m.stats.OldAcks != old+1 {
		t.Errorf("window from %d to %d before, from %d to %d now; %d were old", before.base, before.next, window.base, window.next, e.m.stats.OldAcks-old)
	}
}

// USNIC-21: the channel of a retransmission is the data channel, also for a segment that first
// left by the other one.
func TestARetransmissionTakesTheCreditOfTheDataChannel(t *testing.T) {
	w, a, b, e := joined(t, nil)
	a.frag(e, wire.Command, "to have a round trip")
	w.run(time.Second)
	b.dead = true
	a.frag(e, wire.Command, "into silence")
	a.poll()
	if c, d := e.channels[wire.Command].inFlight, e.channels[wire.Data].inFlight; c == 0 || d != 0 {
		t.Fatalf("posted: %d bytes in flight by the command channel, %d by the other", c, d)
	}
	w.runUntil(time.Second, "a retransmission", func() bool { return a.m.Stats().Resends > 0 })
	if c, d := e.channels[wire.Command].inFlight, e.channels[wire.Data].inFlight; c != 0 || d == 0 {
		t.Errorf("posted again: %d bytes in flight by the command channel, %d by the other", c, d)
	}
}

// USNIC-21: within a poll retransmissions go first, new segments follow, and an ACK that no
// segment took along comes last.
func TestAPollSendsRetransmissionsThenSegmentsThenAcks(t *testing.T) {
	w, a, b, e := joined(t, nil)
	c := w.add(3, nil)
	back := c.open(a)
	c.frag(back, wire.Command, "hello")
	a.frag(e, wire.Command, "to have a round trip")
	w.run(time.Second)

	lost := true
	seen := a.watch(func(s sighting) bool { l := lost && s.kind == wire.KindData; lost = false; return l })
	a.frag(e, wire.Command, "lost")
	a.poll()
	old := e.live.flight.head
	if old == nil || lost {
		t.Fatal("nothing is in flight")
	}
	*seen = nil
	// a owes c an ACK by the time that it polls.
	c.frag(back, wire.Command, "to be acknowledged")
	w.runUntil(time.Second, "c's message at a", func() bool { return a.m.Endpoint(3).live.acks.at != clock.Never })
	a.m.Endpoint(3).AckNow()
	a.m.resend(w.now, e.live, old, CauseTimeout)
	b.dead = true
	*seen = nil
	a.frag(e, wire.Command, "new")
	a.poll()
	var got []string
	for _, s := range *seen {
		switch {
		case s.kind == wire.KindData && s.seq == old.seq:
			got = append(got, "again")
		case s.kind == wire.KindData:
			got = append(got, "new")
		case s.kind == wire.KindAck:
			got = append(got, "ack")
		}
	}
	if len(got) != 3 || got[0] != "again" || got[1] != "new" || got[2] != "ack" {
		t.Errorf("the poll sent %v", got)
	}
}

// The high-water marks of the windows are as high as the windows were.
func TestTheStatisticsKnowTheLargestWindows(t *testing.T) {
	w, a, b, e := joined(t, nil)
	first := true
	a.watch(func(s sighting) bool { l := first && s.kind == wire.KindData; first = false; return l })
	const n = 5
	for i := range n {
		a.frag(e, wire.Command, string(rune('a'+i)))
		a.poll()
	}
	if got := e.m.stats.LargestSendWindow; got != n {
		t.Errorf("with %d segments under way the largest send window is %d", n, got)
	}
	w.run(time.Second)
	if got := b.m.stats.LargestReceiveWindow; got != n {
		t.Errorf("with %d segments behind a gap the largest receive window is %d", n-1, got)
	}
}

// USNIC-14: frames of the command channel stay short on a link that carries long ones.
func TestFramesOfTheCommandSpaceAreShort(t *testing.T) {
	w, a, _, e := joined(t, func(c *Config) { c.MTU = 9000 })
	seen := a.watch(nil)
	for range 40 {
		for _, s := range []wire.Space{wire.Command, wire.Data} {
			if !a.frag(e, s, string(make([]byte, 400))) {
				t.Fatal("no room")
			}
		}
	}
	w.run(time.Millisecond)
	longest := [wire.Spaces]int{}
	for _, s := range kinds(*seen, wire.KindData) {
		longest[s.space] = max(longest[s.space], s.size)
	}
	if longest[wire.Command] > limits.CommandMTU || longest[wire.Command] < limits.CommandMTU/2 || longest[wire.Data] <= limits.CommandMTU {
		t.Errorf("the longest frames have %d bytes in the command space, %d in the data space; the former at most %d",
			longest[wire.Command], longest[wire.Data], limits.CommandMTU)
	}
}
