package rel

import (
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// Three causes retransmit a segment (decision 7), all through the module's resend list
// (USNIC-20):
//
//	fast     an ACK shows that frames posted after it arrived (USNIC-50)
//	tail     nothing was heard for about two round trips after the last posting: the end of a
//	         burst may be lost, and no later frame can show it. So the last segment is
//	         retransmitted, and its ACK shows which others are missing
//	timeout  its stay in the hotel ended (USNIC-45): only the oldest is retransmitted, one per
//	         timeout. If more are missing, its ACK shows it. If the peer was merely not
//	         scheduled, a window's worth of copies would flood it
type recovery struct {
	newest   uint64     // highest packet counter that an ACK showed to have arrived
	newestAt clock.Time // no earlier than the posting of the newest segment that arrived
	tails    int        // tail-loss probes since the last progress
	// When the next is due; Never if nothing is in flight or it is the retransmit timer's turn.
	tailAt  clock.Time
	quietTo clock.Time // until then the last timeout waits for its answer
}

// progress notes that something new was acknowledged.
func (r *recovery) progress(now clock.Time, s *session) {
	r.tails, r.quietTo = 0, 0
	s.rtt.backoff = 0
	r.rearm(now, s)
}

// rearm sets the tail timer for the present state.
func (r *recovery) rearm(now clock.Time, s *session) {
	after := s.rtt.tailAfter(s.peerDelay(), r.tails)
	if s.flight.n == 0 || after == 0 || r.tails >= limits.TailProbes {
		r.tailAt = clock.Never
		return
	}
	r.tailAt = now.Add(after)
	s.bookDesk(now, r.tailAt)
}

// peerDelay returns how long the peer may hold an ACK back, its timer's tick included.
func (s *session) peerDelay() time.Duration { return s.ackDelay() + 1<<deskShift }

// detectLoss finds the segments that must be lost, given the newest frame that arrived:
// unacknowledged ones that were posted three frames earlier, or a round trip earlier. Counters
// rise along the flight, so the search ends at the first one that may still arrive.
func (m *Module) detectLoss(now clock.Time, s *session) {
	r := &s.recovery
	wait := s.rtt.smooth + s.rtt.smooth/4 + limits.AckDelay
	for g := s.flight.head; g != nil && g.counter < r.newest; g = s.flight.head {
		if r.newest-g.counter < limits.ReorderFrames && r.newestAt.Sub(g.sentAt) <= wait {
			return
		}
		s.endpoint.congestion.loses(g.counter)
		m.resend(now, s, m.first(s, g), CauseFast)
	}
}

// resend moves a segment that is in the hotel, and no run, to the resend list: it is checked
// out, and its credits are returned (USNIC-46, USNIC-47).
func (m *Module) resend(now clock.Time, s *session, g *segment, why Cause) {
	m.unlist(s, g)
	g.become(stateInHotel, stateResend)
	m.resends.push(g)
	m.heldInRow = 0 // it is not known yet whether this one may leave
	m.pathLoses(s, g)
	s.endpoint.lose(now, g, why)
}

// tail retransmits the last segment of the flight.
func (m *Module) tail(now clock.Time, s *session) {
	s.recovery.tails++
	if g := s.flight.tail; g != nil {
		m.resend(now, s, m.last(s, g), CauseTail)
	}
	s.recovery.rearm(now, s)
}

// timeout handles a segment whose stay in the hotel is over.
func (m *Module) timeout(now clock.Time, g *segment) {
	s := g.endpoint.live
	r := &s.recovery
	g.room = 0
	if now < r.quietTo {
		m.lodge(now, s, g)
		return
	}
	oldest := s.flight.head
	if oldest != g || g.frames > 1 {
		m.lodge(now, s, g)
	}
	s.rtt.backoff++
	r.quietTo = now.Add(s.rtt.retransmitAfter(s.peerDelay()))
	m.resend(now, s, m.first(s, oldest), CauseTimeout)
}

// lodge checks a posted segment into the hotel. There is a room: post asked, and timeout has
// just freed one.
func (m *Module) lodge(now clock.Time, s *session, g *segment) {
	g.room = m.hotel.CheckIn(now, now.Add(s.rtt.retransmitAfter(s.peerDelay())), g)
	if g.room == 0 {
		panic("rel: the hotel is full, and its reserve too")
	}
}

// Ticks of the three hotels, as powers of two in ns. A tick times 4,096 floors is the longest
// stay.
const (
	HotelShift = 17 // 131 µs, 537 ms: longer than limits.LongestRetransmit
	deskShift  = 13 // 8 µs, 34 ms: ACKs and tail-loss probes
	nightShift = 20 // 1 ms, 4.3 s: Hellos, probes, unreachability
)

// bookDesk books a look at the session's fast timers at the given instant, or earlier. A session
// keeps its room when it has nothing left to wait for. Otherwise the next message would take a
// room again, and two peers that talk would each take and leave one with every message. An
// unneeded look, once in some 50 µs, costs less.
func (s *session) bookDesk(now, at clock.Time) {
	if s.room != 0 {
		if s.roomAt <= at {
			return // the room is left early, and a look at the deadlines books anew
		}
		s.endpoint.m.desk.CheckOut(s.room)
	}
	s.room, s.roomAt = s.endpoint.m.desk.CheckIn(now, at, s), at
}

// leaveDesk forgets the session's fast timers.
func (s *session) leaveDesk(m *Module) {
	if s.room != 0 {
		m.desk.CheckOut(s.room)
		s.room = 0
	}
}

// deskTimer looks at a session's fast timers, and reports whether one was due.
func (m *Module) deskTimer(now clock.Time, s *session) (due bool) {
	s.room = 0
	if s.acks.at <= now {
		s.acks.at = clock.Never
		s.ackNow(wire.AckDelayed)
		due = true
	}
	if s.recovery.tailAt <= now {
		m.tail(now, s)
		due = true
	}
	if at := clock.Min(s.acks.at, s.recovery.tailAt); at != clock.Never && m.cfg.Defect != mutate.TailUnbooked {
		s.bookDesk(now, at)
	}
	return due
}
