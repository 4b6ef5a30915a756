package rel

import (
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// The fast receive path (USNIC-38, USNIC-39): if the first frame of a poll is a new segment of the command space, its
// records are delivered at once and its bookkeeping is deferred until the next frame or the next Progress, so that a lone
// short message reaches its process sooner. Push does a part of it, so that an answer takes the acknowledgement along and waits
// for no more. Only one segment can be deferred, and fastOK, which the fast path clears, is set again by Progress alone: with
// much coming, the order of work does not matter.

// deferred is the one segment whose bookkeeping waits.
type deferred struct {
	session *session // nil if none waits
	noted   bool     // that it has come; what it acknowledges still waits
	at      clock.Time
	counter uint64
	inner   wire.Inner
	length  int
}

// receiveFast takes a data frame by the fast path, if it may go there. It is called while fastOK.
func (m *Module) receiveFast(now clock.Time, s *session, o wire.Outer, h *wire.Inner, records []byte, length int) bool {
	if h.Space != wire.Command || s.receive[h.Space].judge(h.Seq) != arrivedNew {
		return false
	}
	m.fastOK = false
	m.deferred = deferred{session: s, at: now, counter: o.Counter, inner: *h, length: length}
	m.deliver(now, s, records)
	return true
}

// receiveFrag takes a data frame with a tag by the fast path, if all of it is as it mostly is: one short message in the next segment of
// its space. It has done nothing if it is false, so that the frame is judged as any other. It is called while fastOK.
func (m *Module) receiveFrag(now clock.Time, from netip.AddrPort, frame []byte) bool {
	index, counter, ok := wire.ParseTagged(frame)
	if !ok {
		return false
	}
	s := m.sessions.find(index)
	if s == nil || !s.open || s.reliable || from != s.addr {
		return false
	}
	r, ok := s.deferFrag(now, counter, frame)
	if ok {
		m.handler.Deliver(now, s.endpoint, r)
	}
	return ok
}

// takeTagged is TakeLone of a frame with a tag: the same, but that the caller delivers. He waits for this frame alone, and so it does not
// matter what the poll has brought before.
func (s *session) takeTagged(now clock.Time, frame []byte) bool {
	index, counter, ok := wire.ParseTagged(frame)
	if !ok || index != s.index {
		return false
	}
	if _, ok = s.deferFrag(now, counter, frame); ok {
		s.endpoint.m.received++
	}
	return ok
}

// deferFrag takes a frame with a tag for an open session if it has one short message in the next segment of its space, whose
// bookkeeping waits. It has done nothing if it is not ok.
func (s *session) deferFrag(now clock.Time, counter uint64, frame []byte) (r wire.Record, ok bool) {
	if len(frame) < wire.OuterLen+wire.TagLen || counter <= s.replay.top {
		return nil, false
	}
	h, r, ok := wire.ParseInnerFrag(frame[wire.OuterLen : len(frame)-wire.TagLen])
	if !ok || h.Space != wire.Command {
		return nil, false
	}
	if w := &s.receive[wire.Command]; h.Seq != w.next || w.gap() {
		return nil, false
	}
	m := s.endpoint.m
	if _, err := wire.Open(frame, s.cookie); err != nil && m.cfg.Defect != mutate.LoneUnseen { // last, since it costs as much as all else
		return nil, false
	}
	s.endpoint.stats.Receives++
	m.fastOK = false
	m.deferred = deferred{session: s, at: now, counter: counter, inner: h, length: len(frame)}
	return r, true
}

// settleFast does the deferred bookkeeping. It comes before all else that looks at the session.
func (m *Module) settleFast() {
	if m.deferred.session != nil { // asked for each frame
		m.settleDeferred()
	}
}

func (m *Module) settleDeferred() {
	m.noteDeferred()
	d := m.deferred
	m.deferred.session = nil
	if d.session.open {
		m.receivePiggyback(d.at, d.session, &d.inner)
	}
}

// noteDeferred is the part of the deferred bookkeeping that the next frame of ours to the peer speaks of. What the segment
// acknowledged is twice the work, and an answer need not wait for it.
func (m *Module) noteDeferred() {
	d := &m.deferred
	s := d.session
	if s == nil || d.noted {
		return
	}
	d.noted = true
	w := &s.receive[d.inner.Space]
	hadGap := w.gap()
	what := w.add(d.inner.Seq)
	s.countArrival(d.inner.Space, what)
	s.endpoint.stats.FastReceives++
	if s.open { // its delivery has not ended the session
		m.accept(d.at, s, d.counter)
		s.arrived(d.at, d.inner.Space, what, hadGap, 1, d.length)
	}
}
