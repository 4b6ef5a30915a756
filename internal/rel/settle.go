package rel

import (
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// Three kinds of frames are noted after their payload has been handed over (USNIC-38, USNIC-39):
//
//   - a short message alone in its frame, so that its answer, which takes the acknowledgement
//     along (begin.go), need not wait for the noting
//   - a short message that the caller itself has taken out of the link (Peek, Take), so that it
//     is on its way to its process while its answer is made, or before
//   - pieces of a long message that arrive one after the other as expected (expected.go), so
//     that they are noted together
//
// Deferred notes are in one field, Module.deferred, and settle notes them. Every entry into the
// Module calls settle, except for those that neither read nor change what the noting changes.

// deferred holds the arrivals of a session that are not noted yet.
type deferred struct {
	session *session // nil if nothing waits
	at      clock.Time
	counter uint64     // packet counter of the newest frame
	kind    wire.Kind  // of it
	inner   wire.Inner // of the first segment
	taken   bool       // the frame is not counted yet either: the caller has taken it
	frames  int        // number of frames, with consecutive numbers
	bytes   int        // of those frames
	placed  int        // bytes of payload that are in their place; 0 for a message
}

// settle notes the deferred arrivals. It comes before any other look at the session.
func (m *Module) settle() {
	if m.deferred.session != nil { // asked for each frame
		m.settleDeferred()
	}
}

// Settle notes the deferred arrivals now. Callers call it when that delays nothing: once an
// answer is in flight.
func (m *Module) Settle() { m.settle() }

func (m *Module) settleDeferred() {
	d := &m.deferred
	s, placed, taken := d.session, d.placed, d.taken
	d.session, d.placed, d.taken = nil, 0, false
	if taken {
		m.stats.Receives++
		m.stats.FastReceives++
		s.replay.take(d.counter)
		s.in.count(d.bytes)
		s.endpoint.MarkChanged()
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

// arrive notes frames of s that carry segments with consecutive numbers, h being the first's
// header: window, acknowledgement and silence. It returns the receive window's verdict on the
// last segment.
func (m *Module) arrive(
	now clock.Time, s *session, k wire.Kind, counter uint64, h *wire.Inner, frames, bytes int,
) (what arrival) {
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

// Peeks returns the address whose frames Peek may examine. ok is false if Receive must take
// them.
func (e *Endpoint) Peeks() (from netip.AddrPort, ok bool) {
	s := e.live
	if s == nil || e.m.cfg.Faults.DropReceived != nil {
		return from, false
	}
	return s.addr, true
}

// Peek opens a frame that arrived from the address of Peeks and that the link still holds. It
// returns the frame's records, unparsed, if they are the next of their session, and nil for any
// other frame. Take may follow if the caller has found the record to be one short message. Every
// other frame must go to Receive.
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

// Take takes the frame of the last Peek, whose record the caller delivers. There must have been
// no other call of the Module since.
func (e *Endpoint) Take(now clock.Time) {
	d := &e.m.deferred
	d.session, d.at, d.taken = e.live, now, true
}
