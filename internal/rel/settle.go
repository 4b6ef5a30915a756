package rel

import (
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// Three kinds of frames are noted after their payload has been handed over (USNIC-38, USNIC-39):
//
//   - a short message alone in its frame, so that its answer, which takes the acknowledgement along (begin.go), need not wait for that
//   - a short message that the caller has taken out of the link itself (Peek, Take), so that it is on its way to its process while, or
//     after, its answer is made
//   - pieces of a long message that come one behind the other as expected (expected.go), so that they are noted together
//
// What waits to be noted is in one field, Module.deferred, and settle notes it. Every entry into the Module calls settle, but for those
// that neither read nor change what the noting does.

// deferred is what waits to be noted of a session.
type deferred struct {
	session *session // nil if nothing waits
	at      clock.Time
	counter uint64     // packet counter of the newest frame
	kind    wire.Kind  // of it
	inner   wire.Inner // of the first segment
	taken   bool       // the frame has not been counted either: the caller has taken it
	frames  int        // that have come, with numbers one behind the other
	bytes   int        // of those frames
	placed  int        // bytes of payload that are in their place; 0 of a message
}

// settle notes what waits. It comes before all else that looks at the session.
func (m *Module) settle() {
	if m.deferred.session != nil { // asked for each frame
		m.settleDeferred()
	}
}

// Settle notes what waits now, where that costs no time: with an answer on its way.
func (m *Module) Settle() { m.settle() }

func (m *Module) settleDeferred() {
	d := &m.deferred
	s, placed, taken := d.session, d.placed, d.taken
	d.session, d.placed, d.taken = nil, 0, false
	if taken {
		m.stats.Receives++
		m.stats.FastReceives++
		s.replay.take(d.counter)
	}
	if !s.open { // its delivery has ended the session
		return
	}
	m.arrive(d.at, s, d.kind, d.counter, &d.inner, d.frames, d.bytes)
	if placed > 0 {
		m.placer.Placed(d.at, s.endpoint, s.expected.ID(), placed)
		return
	}
	if !s.reliable {
		m.receivePiggyback(d.at, s, &d.inner)
	}
}

// arrive notes frames of s that carry segments with numbers one behind the other, h the first's: window, acknowledgement and silence. It
// returns what the receive window said of the last.
func (m *Module) arrive(now clock.Time, s *session, k wire.Kind, counter uint64, h *wire.Inner, frames, bytes int) (what arrival) {
	m.hear(now, s, counter)
	w := &s.receive[h.Space]
	hadGap := w.gap()
	if h.Seq == w.next && !hadGap { // its bit would be set and cleared
		if w.next = w.next.Add(frames); m.cfg.Defect == mutate.PlainUncounted && k == wire.KindPlain {
			w.next = h.Seq
		}
		w.top = w.next
		m.countNew(h.Space, frames)
	} else {
		what = w.add(h.Seq, frames)
		m.countArrival(s, h.Space, what, frames)
	}
	if !s.reliable && what != arrivedHigh {
		s.scheduleAck(now, h.Space, what, hadGap, frames, bytes)
	}
	return what
}

// hear notes that the peer has been heard.
func (m *Module) hear(now clock.Time, s *session, counter uint64) {
	if !s.reliable {
		s.acks.note(now, counter)
	}
	s.confirmed = true
	s.endpoint.heard = now
	if s.sealed != nil {
		s.sealed.tend(now)
	}
}

// Peeks returns from where frames of the peer come that Peek may look at; ok is false if they are to be seen by Receive.
func (e *Endpoint) Peeks() (from netip.AddrPort, ok bool) {
	s := e.live
	if s == nil || e.m.cfg.Faults.DropReceived != nil {
		return from, false
	}
	return s.addr, true
}

// Peek opens a frame that has come from where Peeks says and that the link still has. It returns the frame's records, unparsed, if they are
// the next of their session; nil if the frame is anything else. Take may follow, of a record that the caller has found to be
// one short message: of all else the frame is to be received.
func (e *Endpoint) Peek(frame []byte) (records []byte) {
	s, m := e.live, e.m
	m.settle()
	if s == nil || !s.open {
		return nil
	}
	o, ok := wire.ParseNext(frame, s.word())
	if !ok || o.Counter <= s.replay.top {
		return nil
	}
	body := frame[wire.OuterLen:]
	if s.packets.tag > 0 {
		body = s.packets.guard.peek(o, frame)
	}
	if body == nil {
		return nil
	}
	d := &m.deferred
	switch {
	case o.Kind == wire.KindPlain && s.bareFrames():
		d.inner.Space, d.inner.Flags, d.inner.Seq = wire.Command, 0, s.receive[wire.Command].next
	case o.Kind == wire.KindData:
		if body, ok = s.nextSegment(body, &d.inner); !ok {
			return nil
		}
	default:
		return nil
	}
	d.counter, d.kind, d.frames, d.bytes = o.Counter, o.Kind, 1, len(frame)
	return body
}

// nextSegment returns the records of a data frame with the next segment of the command space.
func (s *session) nextSegment(body []byte, h *wire.Inner) (records []byte, ok bool) {
	w := &s.receive[wire.Command]
	if *h, ok = wire.ParseHead(body); !ok || h.Space != wire.Command || h.Seq != w.next || w.gap() {
		return nil, false
	}
	return body[wire.InnerLen:], true
}

// Take takes the frame of the last Peek, whose record the caller delivers. Nothing of the Module may have been called since.
func (e *Endpoint) Take(now clock.Time) {
	d := &e.m.deferred
	d.session, d.at, d.taken = e.live, now, true
}
