package rel

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// A caller that does not wait for the next Progress writes a record between Begin and End:
//
//	Begin ─► the caller writes the record ─► End
//
//	AsFrame   Reliable link: in the link's own frame; no copy  sends it
//	AsSingle  lossy link: apart, as a segment's one record     sends it, then makes the segment
//	AsPart    in the open segment of its space, after others   leaves it there, or sends the queue
//
// A single record is sent before it is noted. A segment is numbered, queued, timed and counted;
// its frame needs only the number, so the segment is made while the frame is in flight. From
// then on it is an ordinary segment. Its frame is built apart and not in the link's memory,
// because the record is read again after the frame has left.

// As is a way in which a record leaves. If several ways are named, Begin takes the first
// possible one.
type As uint8

const (
	AsFrame As = 1 << iota
	AsSingle
	AsPart
)

// singleRecord is the longest record that leaves AsSingle, in bytes: its copy uses the smallest
// of the pool's buffers.
const singleRecord = leastBuffer

// begun holds the record between Begin and End.
type begun struct {
	as      As
	space   wire.Space
	n       int // bytes
	account *Account
	frame   []byte // the link's
	told    bool   // a single record acknowledges the frames that wait to be noted
	single  [dataHead + singleRecord + wire.TagLen]byte
	apart   [dataHead + singleRecord + wire.TagLen]byte // buffer in which it is sealed
}

// Begin returns room for one record of n bytes in s if it may leave in one of the named ways,
// and the way taken. Otherwise it returns nil: another way may do, or the record has to wait.
// After AsPart, Writable will follow then. Segments are charged to a. End must follow when the
// caller has written the record, with no other call of the Module in between.
func (e *Endpoint) Begin(s wire.Space, n int, ways As, a *Account, out Frames) (b []byte, as As) {
	m, live := e.m, e.live
	if live == nil || n > e.MaxRecord(s) {
		return nil, 0
	}
	if live.finish != nil && !live.finished {
		ways &= AsPart // the handshake's last message leaves first
	}
	w := &m.begun
	w.space, w.n, w.account = s, n, a
	switch {
	case live.reliable && ways&AsFrame != 0:
		b, w.as = e.beginFrame(s, n, out), AsFrame
	case !live.reliable && ways&AsSingle != 0:
		b, w.as = e.beginSingle(n, out), AsSingle
	}
	if b == nil && ways&AsPart != 0 && m.Shares(a) {
		m.pool.account = a
		b, w.as = e.reserve(s, n), AsPart
		m.pool.account = nil
	}
	if b == nil { // so that an End would do no harm
		w.as = AsPart
	}
	return b, w.as
}

// clear reports whether the queues are empty, so that a record would overtake nothing.
func (e *Endpoint) clear() bool {
	return e.channels[wire.Command].queue.n+e.channels[wire.Data].queue.n == 0
}

// beginFrame returns room in the link's frame. Nothing is pending on the peer then, so its
// silence does not count.
func (e *Endpoint) beginFrame(space wire.Space, n int, out Frames) []byte {
	s := e.live
	if !e.clear() || s.send[space].room() <= 0 {
		return nil
	}
	b := s.frame(out)
	if b == nil {
		return nil
	}
	e.m.begun.frame = b
	head := s.frameHead(space)
	return b[head : head+n : head+n]
}

// beginSingle returns room for a record of the command space that is alone in its frame.
func (e *Endpoint) beginSingle(n int, out Frames) []byte {
	s, m := e.live, e.m
	if n > singleRecord || segmentBytes+n > s.path.limit || e.overrun || !e.clear() {
		return nil
	}
	if !m.Shares(m.begun.account) || !e.ready(wire.Command, n) || !m.lodging(false) {
		return nil
	}
	if m.begun.frame = s.frame(out); m.begun.frame == nil {
		return nil
	}
	return m.begun.single[dataHead : dataHead+n : dataHead+n]
}

// End ends the record of Begin, at now or later: where the time matters, End asks read for it. A
// record in a segment leaves with those before it, or stays if hold is set. End returns the
// latest time that it knows, and when Progress must be called next, as Progress does.
func (e *Endpoint) End(now clock.Time, read func() clock.Time, hold bool, out Flusher) (at, next clock.Time) {
	m := e.m
	as := m.begun.as
	m.begun.as = AsPart
	switch as {
	case AsFrame:
		e.endFrame(now, out)
		return now, clock.Never
	case AsSingle:
		// A link that takes the frame in one step does not ask for the time, so it is read
		// afterwards.
		if m.cfg.Post == nil {
			now = max(now, read())
		}
		e.endSingle(now, out)
		if m.cfg.Post != nil {
			now = max(now, read())
		}
		return now, m.keepSingle(now, e.live)
	}
	if !hold || e.room == 0 { // the peer's silence counts from now on
		now = max(now, read())
		e.attend(now)
	}
	if hold {
		return now, clock.Never
	}
	return now, m.push(now, e, out)
}

// endFrame sends the frame of a record.
func (e *Endpoint) endFrame(now clock.Time, out Flusher) {
	s, b := e.live, &e.m.begun
	e.countDirect(b.n)
	head := s.frameHead(b.space)
	kind, seq := wire.KindPlain, s.send[b.space].pass(1)
	if head == dataHead {
		h := wire.Inner{Space: b.space, Seq: seq}
		h.Put(b.frame[wire.OuterLen:])
		kind = wire.KindData
	}
	out.Commit(s.packets.seal(kind, b.frame, head+b.n, nil))
	out.Flush(now)
}

// endSingle sends the frame of a single record.
func (e *Endpoint) endSingle(now clock.Time, out Flusher) {
	s, m := e.live, e.m
	b := m.begun.single[:]
	h := wire.Inner{Space: wire.Command, Seq: s.send[wire.Command].next}
	if m.begun.told = m.tellDeferred(s, &h); !m.begun.told {
		m.settle() // so that an acknowledgement goes along
		s.piggyback(&h)
	}
	h.Put(b[wire.OuterLen:])
	if s.sealed != nil { // sealing encrypts in place, and the record is read again
		b = m.begun.apart[:copy(m.begun.apart[:], b[:dataHead+m.begun.n])+wire.TagLen]
	}
	n := s.packets.seal(wire.KindData, b, dataHead+m.begun.n, nil)
	if m.cfg.Post != nil {
		m.cfg.Post(now, b[:n])
		return
	}
	copy(m.begun.frame, b[:n])
	m.stats.SinglesCopied++
	out.Commit(n)
	out.Flush(now)
}

// tellDeferred puts the current acknowledgements into a header, if the deferred message is all
// that they have to add. That message can then be noted while the header is in flight.
func (m *Module) tellDeferred(s *session, h *wire.Inner) bool {
	d, w := &m.deferred, &s.receive[wire.Command]
	if d.session != s || d.placed > 0 || d.inner.Seq != w.next || s.hasGap() {
		return false
	}
	h.Flags = wire.AckCommand | wire.AckData
	h.Ack[wire.Command], h.Ack[wire.Data] = d.inner.Seq, s.ackOf(wire.Data)
	if m.cfg.Defect == mutate.ToldAhead {
		h.Ack[wire.Command] = d.inner.Seq.Add(1)
	}
	return true
}

// keepSingle makes the segment of a single record that has left.
func (m *Module) keepSingle(now clock.Time, s *session) (next clock.Time) {
	e, b := s.endpoint, &m.begun
	m.work, m.choked = 0, false
	if m.cfg.Defect != mutate.SingleUnattended {
		e.attend(now)
	}
	m.pool.account = b.account
	g := m.pool.get(e, wire.Command, 1)
	m.pool.account = nil
	g.buf = append(m.pool.buffer(b.n), b.single[dataHead:dataHead+b.n]...)
	g.cost = segmentBytes + b.n
	s.number(g)
	m.posted(now, s, g, wire.Command, b.n)
	if b.told {
		if m.settle(); e.live == s {
			s.told()
		}
	}
	return m.nextPoll(now)
}

// push posts the queue of one endpoint, and flushes it.
func (m *Module) push(now clock.Time, e *Endpoint, out Flusher) (next clock.Time) {
	m.settle() // so that an acknowledgement goes along
	m.work, m.choked = 0, false
	if e.overrun {
		return now
	}
	if !m.sendQueues(now, e, out) {
		m.choked = true
	} else if n := len(m.sending); n > 0 && m.sending[n-1] == e {
		m.sending, e.listed = m.sending[:n-1], false
		if e.live.reliable {
			e.writable(now)
		}
	}
	out.Flush(now)
	return m.nextPoll(now)
}
