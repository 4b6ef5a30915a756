package rel

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// A lone record is sent before it is noted. What a link may lose is kept until it is acknowledged, in a segment that is numbered,
// queued, timed and counted; but of all that its frame has only the number. So where nothing else waits to be sent, the record is written
// straight into the frame, the frame leaves, and its segment is made while it is on its way:
//
//	Lone ─► the owner writes the record ─► CommitLone: headers, tag ─► frame leaves ─► KeepLone: copy, window, flight, hotel
//
// From then on it is a segment as any other. Whatever would have to wait goes by Reserve.

// loneRecord is the longest record that goes so, in bytes: the copy that is kept has the smallest of the pool's buffers.
const loneRecord = leastBuffer

// loneFrame is a frame under construction. It is put together apart and not in the link's memory, since the record is read again
// when the frame has left.
type loneFrame struct {
	link   []byte // the link's frame, which waits for it
	told   bool   // it acknowledges what waits to be noted
	staged [dataHead + loneRecord + wire.TagLen]byte
}

// Lone returns room for one record of n bytes in the command space if it may leave at once, alone, and the session's link is not
// Reliable; nil otherwise, and then Reserve may do. The caller writes the record, nothing else of the Module is called, and it
// leaves with CommitLone.
func (e *Endpoint) Lone(n int, out Frames) []byte {
	s, m := e.live, e.m
	if s == nil || s.reliable || n > loneRecord || e.overrun || e.channels[wire.Command].queue.n+e.channels[wire.Data].queue.n > 0 {
		return nil
	}
	if n > e.MaxRecord(wire.Command) || segmentBytes+n > s.path.limit || !e.ready(wire.Command, n) || !m.lodging(false) {
		return nil
	}
	l := &m.lone
	if l.link = frame(out, s.addr); l.link == nil {
		return nil
	}
	return l.staged[dataHead : dataHead+n : dataHead+n]
}

// CommitLone lets the frame of Lone leave, with its record of n bytes, and flushes it. KeepLone must follow.
func (e *Endpoint) CommitLone(now clock.Time, n int, out Flusher) {
	s, m := e.live, e.m
	l := &m.lone
	b := l.staged[:]
	h := wire.Inner{Space: wire.Command, Seq: s.send[wire.Command].next}
	if l.told = m.tellDeferred(s, &h); !l.told {
		m.settle() // so that an acknowledgement goes along
		s.piggyback(&h)
	}
	h.Put(b[wire.OuterLen:])
	n = s.packets.seal(wire.KindData, b, dataHead+n, nil)
	if m.cfg.Post != nil {
		m.cfg.Post(now, b[:n])
		return
	}
	copy(l.link, b[:n])
	out.Commit(n)
	out.Flush(now)
}

// tellDeferred puts the acknowledgements of the moment into a header if all that they say besides what is noted is the message that waits to
// be: that can wait until the header is on its way.
func (m *Module) tellDeferred(s *session, h *wire.Inner) bool {
	d, w := &m.deferred, &s.receive[wire.Command]
	if d.session != s || d.placed > 0 || d.inner.Seq != w.next || s.hasGap() {
		return false
	}
	h.Flags = wire.AckCommand | wire.AckData
	h.Ack[wire.Command], h.Ack[wire.Data] = d.inner.Seq, s.receive[wire.Data].ack()
	if m.cfg.Defect == mutate.ToldAhead {
		h.Ack[wire.Command] = d.inner.Seq.Add(1)
	}
	return true
}

// KeepLone makes the segment of a record of n bytes that has left at now. It returns when Progress wants to be called, as Progress does.
func (e *Endpoint) KeepLone(now clock.Time, n int) (next clock.Time) {
	m := e.m
	m.work, m.choked = 0, false
	s := e.live
	m.keepLone(now, s, n)
	if m.lone.told {
		if m.settle(); e.live == s {
			s.told()
		}
	}
	return m.nextPoll(now)
}

// keepLone makes the segment of a record that has left.
func (m *Module) keepLone(now clock.Time, s *session, n int) {
	e := s.endpoint
	if m.cfg.Defect != mutate.LoneUnattended {
		e.attend(now)
	}
	g := m.pool.get(e, wire.Command, 1)
	g.buf = append(m.pool.buffer(n), m.lone.staged[dataHead:dataHead+n]...)
	g.cost = segmentBytes + n
	w := &s.send[wire.Command]
	w.push(g)
	e.stats.sent(w)
	g.sends, g.counter, g.sentAt = 1, s.packets.counter, now
	e.countSend(g, n)
	m.fly(now, s, g)
}
