package rel

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// dataHead is the length of a data frame's headers.
const dataHead = wire.OuterLen + wire.InnerLen

// post writes segment g into a frame by the queue of channel c and commits it (USNIC-24). The
// first time, the segment gets its sequence number. Every time, it gets a new packet counter,
// the current acknowledgements, and a room in the hotel, which starts its retransmit timer. post
// returns false if the driver takes no more.
//
// Records were written into the segment when they were reserved and are copied here. This is the
// second touch of a short message on this side: a segment that may be retransmitted cannot stay
// in a driver's buffer. Pieces of fragments are gathered from the owner's memory, every time,
// and are touched once.
func (m *Module) post(now clock.Time, s *session, g *segment, c wire.Space, out Frames) bool {
	if g.cost > s.path.limit {
		return m.postParts(now, s, g, c, out)
	}
	b := s.frame(out)
	if b == nil {
		return false
	}
	if g.sends == 0 {
		s.number(g)
	}
	h := wire.Inner{Space: g.space, Seq: g.seq}
	s.piggyback(&h)
	h.Put(b[wire.OuterLen:])
	n, rest := g.put(b, dataHead)
	s.packets.again = g.sends > 0 && m.cfg.Defect == mutate.CounterReused
	out.Commit(s.packets.sealPiece(b, n, rest, g.isChunk()))
	m.posted(now, s, g, c, n+len(rest)-dataHead)
	return true
}

// number gives a segment its number, or a run its numbers.
func (s *session) number(g *segment) {
	if w := &s.send[g.space]; s.reliable {
		g.seq = w.pass(g.frames)
	} else {
		w.push(g)
	}
}

// posted notes that a segment with so many bytes of records has left by the queue of channel c.
// Its last frame was the session's last.
func (m *Module) posted(now clock.Time, s *session, g *segment, c wire.Space, bytes int) {
	g.sends++
	g.counter, g.sentAt, g.channel = s.packets.counter-uint64(g.frames-1), now, c
	s.endpoint.countSend(g, bytes)
	if s.reliable {
		m.committed(s, g)
		return
	}
	m.stats.sent(&s.send[g.space])
	m.fly(now, s, g)
}

// put writes the segment's records into b from n on. It leaves out a contiguous payload of a
// fragment, which it returns as rest. end is where rest begins.
func (g *segment) put(b []byte, n int) (end int, rest []byte) {
	switch {
	case g.fragment != nil:
		f := g.fragment
		if g.filler > 0 {
			wire.PutVoid(b[n:], g.filler)
			n += g.filler
		}
		n += f.putHeader(b[n:], g.offset, g.length)
		return f.payload(b, n, g.offset, g.length)
	case g.buf != nil:
		return n + copy(b[n:], g.buf), nil
	}
	wire.PutVoid(b[n:], wire.RecordLen) // its piece was withdrawn; its number must still arrive
	return n + wire.RecordLen, nil
}

// isChunk reports whether the one record of the segment is a Chunk.
func (g *segment) isChunk() bool {
	return g.fragment != nil && g.fragment.Type == wire.TypeChunk && g.filler == 0
}

// fly enters a posted segment into the flight and the hotel.
func (m *Module) fly(now clock.Time, s *session, g *segment) {
	e := s.endpoint
	if g.state == stateResend {
		g.become(stateResend, stateInHotel)
	} else {
		g.become(stateQueued, stateInHotel)
	}
	e.channels[g.channel].inFlight += g.costs()
	e.congestion.posts(g.frames)
	if m.cfg.Defect == mutate.NoRetransmit && s.packets.counter%100 < uint64(g.frames) {
		g.forgotten = true
		return
	}
	if g.sends > 1 {
		s.markAgain(now, g.counter)
	}
	s.flight.push(g)
	m.lodged += g.frames
	m.lodge(now, s, g)
	s.recovery.rearm(now, s)
}

// committed ends the life of a segment on a reliable link, where a committed frame arrives.
func (m *Module) committed(s *session, g *segment) {
	g.become(stateQueued, stateFree)
	s.refused(g)
	m.stats.SegmentsAcked += uint64(g.frames)
	m.piecesDone(s.endpoint, g.fragment, g.offset, g.length, g.frames)
	m.pool.put(g)
}

// pass uses up n sequence numbers that will not be acknowledged, and returns the first.
func (w *sendWindow) pass(n int) wire.Seq {
	q := w.next
	w.next = w.next.Add(n)
	w.base = w.next
	return q
}

// sendQueues posts the queues of e, the command queue first (USNIC-14). It returns false if the
// driver takes no more. Segments that the window refuses stay queued until an acknowledgement
// brings e back; those that the hotel refuses, until there are rooms again.
func (m *Module) sendQueues(now clock.Time, e *Endpoint, out Frames) (all bool) {
	s := e.live
	if !m.finishes(s, out) {
		return false
	}
	for i := range wire.Space(wire.Spaces) {
		c := &e.channels[i]
		for c.queue.head != nil {
			g := c.queue.head
			if s.send[i].room() <= 0 {
				break
			}
			if !s.reliable && !m.lodging(g.control) {
				if !e.homeless {
					e.homeless = true
					m.homeless = append(m.homeless, e)
				}
				break
			}
			if i == wire.Data {
				if at, ok := e.mayLeave(now, g.cost); !ok || e.held && m.cfg.Defect == mutate.PaceForgotten {
					m.holdBack(e, at)
					break
				}
			}
			c.dequeue(g)
			if !m.postSome(now, s, g, i, out) {
				return false
			}
			m.work++
		}
	}
	return true
}

// lodging reports whether the hotel has a room for one more segment. The last rooms are for
// control and retransmissions.
func (m *Module) lodging(control bool) bool {
	if control {
		return m.vacancies() > m.reserve/2
	}
	return m.vacancies() > m.reserve
}

// resendSome posts retransmissions. They always use the data queue, so that in congestion the
// command queue stays free for ACKs, and their number is bounded, so that they do not starve all
// other traffic (USNIC-21).
func (m *Module) resendSome(now clock.Time, out Frames) {
	for range limits.ResendsPerPoll {
		g := m.resends.head
		if g == nil || m.vacancies() == 0 {
			return // rooms come free when a segment is acknowledged or a peer given up
		}
		s := g.endpoint.live
		m.resends.remove(g)
		if at, ok := s.endpoint.mayLeave(now, g.cost); !ok {
			m.resends.push(g) // to the end: other paths need not wait
			m.wait(at)
			m.heldInRow++
			continue
		}
		m.heldInRow = 0
		if hit(m.cfg.Faults.FailResend) {
			g.channel = wire.Data
			m.fly(now, s, g)
			continue
		}
		if !m.post(now, s, g, wire.Data, out) {
			m.resends.push(g) // to the end: perhaps only this peer's queue is full
			s.endpoint.stays(g.cost)
			m.choked = true
			continue
		}
		m.work++
	}
}
