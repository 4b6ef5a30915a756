package rel

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// A run is a segment of several packets: pieces of equal length of one fragment, one after the
// other. Most traffic of a long message is runs, and most work for a packet is the same for its
// neighbour. A run has one entry in the queue, one in the flight, one room, one timer, one look
// at window, pace and rooms, and one header of which number, counter and offset change.
//
//	            segment, queued      posted                           acknowledged    lost
//	run      ├───┬───┬───┬───┬───┤  ├───┬───┬───┬───┬───┤  part     ├───┬───┤ ├───┤ ├───┬───┤
//	numbers    ·   ·   ·   ·   ·      7   8   9  10  11   ──────►     7   8     9    10  11
//	counters   ·   ·   ·   ·   ·     40  41  42  43  44              40  41    42    43  44
//
// If the network treats two neighbours in a run differently, the run is parted between them. So
// a segment is acknowledged whole, or loses its first packets as they are acknowledged; and a
// retransmission is always a single packet.

// split makes the first n packets of run g a separate segment, that is in no list, and leaves g
// the rest.
func (m *Module) split(g *segment, n int) (front *segment) {
	front = m.pool.take()
	*front = *g
	front.prev, front.next, front.room, front.frames = nil, nil, 0, n
	g.advance(n)
	return front
}

// advance moves the beginning of g by n packets.
func (g *segment) advance(n int) {
	g.frames -= n
	g.seq = g.seq.Add(n)
	g.counter += uint64(n)
	g.offset += uint64(n * g.length)
}

// part splits a run that has been posted. Both halves keep its place and its timer.
func (m *Module) part(s *session, g *segment, n int) (front *segment) {
	front = m.split(g, n)
	s.send[g.space].put(front)
	if !g.forgotten {
		s.flight.n -= n
		s.flight.insert(front, g)
		if m.cfg.Defect != mutate.RoomForgotten {
			front.room = m.hotel.CheckInBeside(g.room, front)
		}
	}
	return front
}

// shorten takes the first n packets off a run in the hotel: they have arrived.
func (m *Module) shorten(s *session, g *segment, n int) {
	m.pool.discharge(g, n)
	s.endpoint.channels[g.channel].inFlight -= g.cost * n
	if !g.forgotten {
		s.flight.n -= n
		m.lodged -= n
	}
	offset := g.offset
	g.advance(n)
	if m.cfg.Defect == mutate.RunStandsStill {
		g.offset = offset
	}
}

// first returns the first packet of g as a separate segment.
func (m *Module) first(s *session, g *segment) *segment {
	if g.frames == 1 {
		return g
	}
	return m.part(s, g, 1)
}

// last returns the last packet of g as a separate segment.
func (m *Module) last(s *session, g *segment) *segment {
	if g.frames > 1 {
		m.part(s, g, g.frames-1)
	}
	return g
}

// postSome posts a segment, which is in no list. It posts the packets of a run that may leave
// now, at least one. The rest goes back to the front of its queue. It returns false if the
// driver takes no more.
func (m *Module) postSome(now clock.Time, s *session, g *segment, c wire.Space, out Frames) bool {
	e := s.endpoint
	if g.frames > 1 {
		n := min(g.frames, s.send[g.space].room())
		if !s.reliable {
			n = min(n, m.vacancies()-m.reserve)
		}
		if e.paced(now) || g.cost > s.path.limit {
			n = 1
		}
		if n < g.frames {
			front := m.split(g, n)
			e.channels[c].requeue(g)
			g = front
		}
		if n > 1 {
			return m.postRun(now, s, g, c, out)
		}
	}
	if !m.post(now, s, g, c, out) {
		e.channels[c].requeue(g)
		if c == wire.Data {
			e.stays(g.cost)
		}
		return false
	}
	return true
}

// postRun is post for a run, which has not been posted before. The packets that the driver does
// not take go back to the queue.
func (m *Module) postRun(now clock.Time, s *session, g *segment, c wire.Space, out Frames) (all bool) {
	n := m.writeRun(s, g, out)
	all = n == g.frames
	if n == 0 {
		s.endpoint.channels[c].requeue(g)
		return false
	}
	if !all {
		front := m.split(g, n)
		s.endpoint.channels[c].requeue(g)
		g = front
	}
	s.number(g)
	m.posted(now, s, g, c, n*(g.fragment.HeaderLen+g.length))
	return all
}

// writeRun writes a run into frames and commits them, as many as the driver takes, and returns
// how many.
func (m *Module) writeRun(s *session, g *segment, out Frames) (n int) {
	f, offset, chunks := g.fragment, g.offset, g.isChunk()
	size := dataHead + f.HeaderLen + g.length + s.packets.tagLen()
	for n < g.frames {
		var b []byte
		if m.cfg.ReserveRun != nil {
			s.prepare()
			b = m.cfg.ReserveRun(s.addr, size, g.frames-n)
		} else if b = s.frame(out); b != nil {
			b = b[:size]
		}
		if b == nil {
			break
		}
		if n == 0 {
			m.beginRun(s, g)
		}
		frames := 0
		var from []byte // rest of the contiguous memory in which the last payload lay
		for ; len(b) >= size; b = b[size:] {
			at := m.heads.Put(b)
			if len(from) >= g.length {
				s.packets.sealPiece(b[:size:size], at, from[:g.length], chunks)
			} else {
				end, rest := f.payload(b, at, offset, g.length)
				s.packets.sealPiece(b[:size:size], end, rest, chunks)
				from = f.from(offset)
			}
			from = from[min(g.length, len(from)):]
			offset += uint64(g.length)
			m.heads.Next(g.length)
			frames++
		}
		if m.cfg.CommitRun != nil {
			m.cfg.CommitRun(frames)
		} else {
			out.Commit(size)
		}
		n += frames
	}
	return n
}

// beginRun puts together the headers of a run's first frame.
func (m *Module) beginRun(s *session, g *segment) {
	inner := wire.Inner{Space: g.space, Seq: s.send[g.space].next}
	s.piggyback(&inner)
	m.heads.Set(&inner, g.fragment.HeaderBuf[:g.fragment.HeaderLen], g.offset, g.length)
}
