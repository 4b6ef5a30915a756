package rel

import (
	"net/netip"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/wire"
)

// Flush makes a node a Flusher. It has nothing to do: frames leave when they are committed.
func (n *node) Flush(clock.Time) {}

// single sends a short message for e as a single record; false if it has to wait.
func (n *node) single(e *Endpoint, payload string) bool {
	b, _ := e.Begin(wire.Command, wire.FragLen+len(payload), AsSingle, &Account{}, n)
	if b == nil {
		return false
	}
	wire.PutFrag(b, &wire.Envelope{}, len(payload))
	copy(b[wire.FragLen:], payload)
	n.end(e, false)
	return true
}

// end ends the record that e has begun.
func (n *node) end(e *Endpoint, hold bool) {
	_, next := e.End(n.w.now, func() clock.Time { return n.w.now }, hold, n)
	n.next = clock.Min(n.next, next)
}

// singleRoom returns room for a single record of n bytes.
func singleRoom(e *Endpoint, n int, out Frames) []byte {
	b, _ := e.Begin(wire.Command, n, AsSingle, &Account{}, out)
	return b
}

func TestASingleRecordLeavesAtOnceAndIsSentAgainIfItIsLost(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w, a, b, e := joined(t, nil)
		w.filter = func(from, to *node, frame []byte) bool { return !lost }
		before := w.sent
		if !a.single(e, "hello") {
			t.Fatal("it has to wait, though nothing else is under way")
		}
		if w.sent != before+1 || a.m.InFlight() != 1 {
			t.Errorf("%d frames have left, and %d segments are kept; want one of each, within the call", w.sent-before, a.m.InFlight())
		}
		w.filter = nil
		w.run(time.Second)
		if b.got["hello"] != 1 {
			t.Errorf("lost %v: it was delivered %d times", lost, b.got["hello"])
		}
		if s := e.m.stats; s.FragSends != 1 || s.Resends > 0 != lost {
			t.Errorf("lost %v: %d sends and %d resends were counted", lost, s.FragSends, s.Resends)
		}
		w.quiet()
	}
}

// A held record keeps the timer of its peer's silence running, though nothing was in flight to
// the peer for long.
func TestThePeerOfAHeldRecordIsGivenUpIfItIsSilent(t *testing.T) {
	w, a, b, e := joined(t, nil)
	w.run(time.Minute)
	b.dead = true
	rec, _ := e.Begin(wire.Command, wire.FragLen, AsPart, &Account{}, a)
	wire.PutFrag(rec, &wire.Envelope{}, 0)
	a.end(e, true)
	a.wake()
	w.runUntil(10*time.Second, "the end of the session", func() bool { return len(a.downs) == 1 })
}

func TestARecordIsSingleOnlyWhereNothingHasToWait(t *testing.T) {
	w, a, b, e := joined(t, func(c *Config) { c.ReceiveCapacity = 20_000 })
	if singleRoom(e, singleRecord+1, a) != nil {
		t.Error("one that is longer than its copy may be is single")
	}
	a.frag(e, wire.Data, "queued")
	if a.single(e, "overtakes") {
		t.Error("it overtakes what is queued")
	}
	w.run(time.Second)
	n := 0
	for ; a.single(e, payload(n, 100)); n++ {
		if n > 1000 {
			t.Fatal("there is no end of credits")
		}
	}
	if e.Reserve(w.now, wire.Command, wire.FragLen+100) != nil {
		t.Error("it has to wait though Reserve has room")
	}
	w.run(time.Second)
	if len(b.got) != n+1 || b.got["overtakes"] != 0 {
		t.Errorf("%d messages were delivered of %d", len(b.got), n+1)
	}
	if singleRoom(e, 100, deaf{a}) != nil {
		t.Error("it is single though the driver takes no frame")
	}
	w.quiet()
	a.m.Close(w.now, a)
	if singleRoom(e, 100, a) != nil {
		t.Error("it is single though no session is open")
	}
}

// deaf is a driver that takes nothing.
type deaf struct{ *node }

func (deaf) Reserve(netip.AddrPort) []byte { return nil }

func TestASingleAnswerTakesTheAcknowledgementAlong(t *testing.T) {
	w, a, b, e := joined(t, nil)
	back := b.open(a)
	asked := e.m.stats
	for i := range 10 {
		a.single(e, payload(i, 64))
		w.runUntil(time.Millisecond, "question", func() bool { return len(b.got) == i+1 })
		b.single(back, payload(i, 64))
		w.runUntil(time.Millisecond, "answer", func() bool { return len(a.got) == i+1 })
	}
	if s := back.m.stats; s.PiggybackedAcks != 10 || s.AckSends != 0 {
		t.Errorf("of 10 answers %d took an acknowledgement along, and %d went alone", s.PiggybackedAcks, s.AckSends)
	}
	if s := e.m.stats; s.SegmentsAcked-asked.SegmentsAcked != 10 {
		t.Errorf("of 10 questions %d are acknowledged", s.SegmentsAcked-asked.SegmentsAcked)
	}
	w.run(time.Second)
	w.quiet()
}

func TestASingleFrameIsHandedOverInOneStepWhereTheLinkCan(t *testing.T) {
	var p poster
	w, a, b, e := joined(t, nil)
	p.node = a
	a.m.cfg.Post = p.Post
	a.single(e, "hello")
	w.run(time.Second)
	if p.posted != 1 || b.got["hello"] != 1 {
		t.Errorf("posted %d times, delivered %d times", p.posted, b.got["hello"])
	}
}

// poster is a driver that takes a short frame in one step.
type poster struct {
	*node
	posted int
}

func (p *poster) Post(now clock.Time, frame []byte) {
	p.posted++
	p.Commit(copy(p.buf, frame))
}

func TestASingleAnswerLeavesBeforeWhatItAcknowledgesIsNoted(t *testing.T) {
	for _, gap := range []bool{false, true} {
		w, a, b, e := joined(t, nil)
		back := b.open(a)
		var frame []byte
		w.filter = func(from, _ *node, f []byte) bool {
			frame = append(frame[:0], f...)
			return false
		}
		a.single(e, "question")
		if back.Peek(frame) == nil {
			t.Fatal("the question is not shown")
		}
		back.Take(w.now)
		seq := b.m.deferred.inner.Seq
		// Then the answer cannot report the message before it is noted.
		if gap {
			back.live.receive[wire.Data].add(back.live.receive[wire.Data].next.Add(1), 1)
		}
		waits, acked := false, wire.Seq(0)
		w.filter = func(from, _ *node, f []byte) bool {
			h, ok := wire.ParseHead(f[wire.OuterLen:])
			if waits, acked = b.m.deferred.session != nil, h.Ack[wire.Command]; !ok || h.Flags&wire.AckCommand == 0 {
				t.Error("the answer acknowledges nothing")
			}
			return false
		}
		before := back.m.stats
		b.single(back, "answer")
		if waits == gap || acked != seq {
			t.Errorf("gap %v: the answer left with what it acknowledges still to be noted: %v; it acknowledged %d, expected %d", gap, waits, acked, seq)
		}
		s := back.m.stats
		if b.m.deferred.session != nil || s.FragReceives != before.FragReceives+1 || !gap && s.PiggybackedAcks != before.PiggybackedAcks+1 || !seq.Before(back.live.receive[wire.Command].next) {
			t.Errorf("gap %v: the question is not noted behind its answer: %d received, %d acknowledged by another frame", gap, s.FragReceives-before.FragReceives, s.PiggybackedAcks-before.PiggybackedAcks)
		}
		if !gap && (back.live.acks.now || back.live.acks.at != clock.Never) {
			t.Error("what the answer has acknowledged is to be acknowledged once more")
		}
	}
}

func TestASingleMessageIsDeliveredBeforeItIsNotedAndOthersBehindThat(t *testing.T) {
	w, a, b, e := joined(t, nil)
	back := b.open(a)
	var unnoted, noted int
	b.deliver = func(_ *Endpoint, r wire.Record) {
		if b.m.deferred.session != nil {
			unnoted++
		} else {
			noted++
		}
		b.got[string(r.Payload())]++
	}
	a.single(e, "lone")
	w.runUntil(time.Millisecond, "lone", func() bool { return b.got["lone"] == 1 })
	if unnoted != 1 || noted != 0 {
		t.Errorf("delivered before it was noted %d times, and behind that %d times", unnoted, noted)
	}
	if s := back.m.stats; s.FragReceives != 1 || s.FastReceives != 0 || b.m.deferred.session != nil {
		t.Errorf("%d segments are noted in all, %d of them as taken; want one that was not", s.FragReceives, s.FastReceives)
	}
	unnoted = 0
	a.frag(e, wire.Command, "two in")
	a.frag(e, wire.Command, "a segment")
	a.frag(e, wire.Data, "of the other space")
	w.runUntil(time.Millisecond, "the others", func() bool { return len(b.got) == 4 })
	if unnoted != 0 || noted != 3 {
		t.Errorf("of three others %d were delivered before they were noted", unnoted)
	}
	w.run(time.Second)
	if s := e.m.stats; s.Resends != 0 || s.SegmentsAcked != s.FragSends+s.ChunkSends {
		t.Errorf("%d resends; %d segments acknowledged of %d", s.Resends, s.SegmentsAcked, s.FragSends+s.ChunkSends)
	}
	w.quiet()
}

// Peek shows only a frame that is good in every respect. Every other frame is judged and counted
// as usual.
func TestAFrameThatIsNotGoodInEveryRespectIsNeitherShownNorTaken(t *testing.T) {
	w, a, b, e := joined(t, nil)
	a.single(e, "first")
	w.run(time.Second)
	var frame []byte
	w.filter = func(from, _ *node, f []byte) bool {
		if from == a && frame == nil {
			frame = append(frame, f...)
		}
		return from != a
	}
	a.single(e, "second")
	s := b.m.byNIC[1].live
	try := func(what string, from netip.AddrPort, count *uint64, change func(f []byte)) {
		f := append([]byte(nil), frame...)
		change(f)
		before, handed := *count, len(b.order)
		b.m.Receive(w.now, from, f)
		if *count != before+1 || len(b.order) != handed {
			t.Errorf("%s: counted %d times, %d records delivered", what, *count-before, len(b.order)-handed)
		}
	}
	back := s.endpoint
	refuse := func(what string, change func(f []byte)) {
		f := append([]byte(nil), frame...)
		change(f)
		before := b.m.stats.Receives
		if back.Peek(f) != nil || b.m.stats.Receives != before || b.m.deferred.session != nil {
			t.Errorf("%s: shown to the one that waits for it", what)
		}
	}
	refuse("damaged", func(f []byte) { f[len(f)-wire.TagLen-1]++ })
	refuse("of another cookie", func(f []byte) { f[len(f)-1]++ })
	refuse("of another session", func(f []byte) { f[7]++ })
	refuse("of another kind", func(f []byte) { f[0]++ })
	refuse("of the other space", func(f []byte) { f[wire.OuterLen]++ })
	refuse("of another number", func(f []byte) { f[wire.OuterLen+4]++ })
	st := &s.endpoint.m.stats
	try("damaged", a.addr, &st.CRCErrors, func(f []byte) { f[len(f)-wire.TagLen-1]++ })
	try("of another cookie", a.addr, &st.CRCErrors, func(f []byte) { f[len(f)-1]++ })
	try("from elsewhere", address(9), &st.Foreign, func([]byte) {})
	try("of another session", a.addr, &b.m.stats.NoSession, func(f []byte) { f[7]++ })
	try("malformed outside", a.addr, &b.m.stats.Malformed, func(f []byte) { f[1] |= 0x80 })
	if back.Peek(frame) == nil {
		t.Error("not shown to the one that waits for it")
	}
	b.m.Receive(w.now, a.addr, frame)
	if b.got["second"] != 1 {
		t.Errorf("delivered %d times", b.got["second"])
	}
	try("again", a.addr, &st.Replays, func([]byte) {})
	refuse("again", func([]byte) {})
	w.filter = nil
	w.run(time.Second)
	w.quiet()
}

func TestAFragmentIsTakenWholeIfItsAccountMayBeginAllItsPieces(t *testing.T) {
	const rooms, pieces = 31, 8 // none of them reserved
	_, a, _, e := joined(t, func(c *Config) { c.Rooms = rooms })
	n := pieces * e.PieceLen(wire.TypeEager)
	var one, other Account
	for id, test := range []struct {
		a    *Account
		left int // vacancies
	}{{&one, 23}, {&other, 15}} {
		if !e.TakesWhole(wire.TypeEager, n, test.a) {
			t.Fatalf("with %d vacancies an account of %d segments is refused %d more", a.m.Vacancies(), test.a.Segments(), pieces)
		}
		f := chunks(wire.FragmentID(id+1), n)
		e.PostWhole(a.w.now, f, test.a, false, a)
		if a.m.Vacancies() != test.left {
			t.Fatalf("%d vacancies are left, not %d", a.m.Vacancies(), test.left)
		}
		for _, b := range []*Account{&one, &other} {
			if b.Segments()+pieces-1 >= a.m.Vacancies()-pieces+1 && e.TakesWhole(wire.TypeEager, n, b) {
				t.Errorf("an account of %d segments may begin %d more, though there are %d vacancies", b.Segments(), pieces, a.m.Vacancies())
			}
		}
	}
}
