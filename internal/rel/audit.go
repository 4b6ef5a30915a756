package rel

import (
	"fmt"
	"math"
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/wire"
)

// Audit returns an error if something would be forgotten: an unacknowledged segment that no
// timer retransmits, an arrival that no timer acknowledges, a queue that nothing brings back, a
// peer whose silence nothing ends. It also returns one if the state contradicts itself. It holds
// after each Progress, and changes nothing.
func (m *Module) Audit(now clock.Time) error {
	owing := make(map[*Endpoint]bool, len(m.owing))
	for _, e := range m.owing {
		owing[e] = true
	}
	lodged, queued := 0, 0
	for _, e := range m.endpoints {
		if e.duties != 0 && !owing[e] {
			return fmt.Errorf("rel: NIC %v is owed frames %b, and is not on the list", nicid.ID(e.nic), e.duties)
		}
		s := e.live
		if s == nil {
			continue
		}
		lodged += s.flight.n
		queued += e.channels[wire.Command].queue.n + e.channels[wire.Data].queue.n
		for _, err := range []error{m.auditFlight(s), m.auditWindows(s), m.auditDesk(s), m.auditQueues(e),
			m.auditSilence(now, e), s.confirming.audit(e), s.auditGaps(), s.auditPath()} {
			if err != nil {
				return fmt.Errorf("rel: NIC %v: %w", nicid.ID(e.nic), err)
			}
		}
	}
	if lodged != m.lodged {
		return fmt.Errorf("rel: %d packets are in flight, counted as %d", lodged, m.lodged)
	}
	if n := queued + lodged + m.resends.n; n != m.pool.inUse {
		return fmt.Errorf("rel: %d packets are queued or not acknowledged, counted as %d", n, m.pool.inUse)
	}
	if err := m.auditSessions(); err != nil {
		return err
	}
	if m.resends.n > 0 && m.heldInRow >= m.resends.n && m.heldUntil == clock.Never && m.vacancies() > 0 {
		return fmt.Errorf("rel: %d packets are to be sent again, all are held back, and nothing lets them go",
			m.resends.n)
	}
	return nil
}

// auditSessions checks that each session is known to its endpoint, or is forgotten if it is not
// confirmed in time.
func (m *Module) auditSessions() error {
	for _, s := range m.sessions.slots {
		if s == nil || s == s.endpoint.live || s == s.endpoint.next || s.retired || slices.Contains(m.pending, s) {
			continue
		}
		return fmt.Errorf("rel: session %#x with NIC %v, made at %d, is kept, and nothing ends it",
			s.index, nicid.ID(s.endpoint.nic), s.made)
	}
	for _, e := range m.endpoints {
		if e.next != nil && !e.attempt.wanted && !slices.Contains(m.pending, e.next) {
			return fmt.Errorf("rel: NIC %v: a session is half open, and nothing ends it", nicid.ID(e.nic))
		}
	}
	return nil
}

// auditFlight checks that each segment in flight has a room, and that their packet counters
// rise.
func (m *Module) auditFlight(s *session) error {
	counter, n := uint64(0), 0
	var spent [wire.Spaces]int
	for g := s.flight.head; g != nil; g = g.next {
		switch {
		case g.state != stateInHotel:
			return fmt.Errorf("segment %v %d is in flight, and %v", g.space, g.seq, g.state)
		case g.room == 0 || m.hotel.Guest(g.room) != g:
			return fmt.Errorf("segment %v %d, posted at %d, is in flight, and has no room", g.space, g.seq, g.sentAt)
		// A retransmission that failed keeps its counter.
		case g.counter <= counter && m.cfg.Faults.FailResend == nil:
			return fmt.Errorf("segment %v %d has counter %d, behind one with %d", g.space, g.seq, g.counter, counter)
		}
		counter = g.counter + uint64(g.frames-1)
		n += g.frames
		spent[g.channel] += g.costs()
	}
	if n != s.flight.n {
		return fmt.Errorf("%d packets are in flight, counted as %d", n, s.flight.n)
	}
	for i := range spent {
		if c := &s.endpoint.channels[i]; c.inFlight != spent[i] {
			return fmt.Errorf("%v channel: %d bytes are in flight, counted as %d", wire.Space(i), spent[i], c.inFlight)
		}
	}
	return nil
}

// auditWindows checks that every unacknowledged segment is either in flight or about to be
// retransmitted.
func (m *Module) auditWindows(s *session) error {
	var again, waits int
	for i := range s.send {
		w := &s.send[i]
		for q := w.base; q != w.next; {
			g := w.find(q)
			if g == nil {
				q = q.Add(1)
				continue
			}
			if g.state == stateResend {
				again += g.frames
			} else {
				waits += g.frames
			}
			q = g.seq.Add(g.frames)
		}
	}
	if waits != s.flight.n || again > m.resends.n {
		return fmt.Errorf("%d packets are not acknowledged and %d to be sent again; %d are in flight, and %d listed",
			waits, again, s.flight.n, m.resends.n)
	}
	return nil
}

// auditDesk checks that the due ACK and the tail-loss probe have a room at the desk, and that
// the last Progress was in time for it: polls that return early call no Progress.
func (m *Module) auditDesk(s *session) error {
	a := &s.acks
	if a.frames > 0 && a.at == clock.Never && !a.now {
		return fmt.Errorf("%d frames have come, and no ACK is due", a.frames)
	}
	if a.now && s.endpoint.duties&dutyAck == 0 {
		return fmt.Errorf("an ACK is due at once, and is not owed")
	}
	if at := clock.Min(a.at, s.recovery.tailAt); at != clock.Never &&
		(s.room == 0 || s.roomAt > at || m.desk.Guest(s.room) != s) {
		return fmt.Errorf("an ACK is due at %d and a tail-loss probe at %d, and the desk is booked for %d (room %d)",
			a.at, s.recovery.tailAt, s.roomAt, s.room)
	}
	if late := m.progressed.Sub(s.roomAt); s.room != 0 && late > 2<<deskShift {
		return fmt.Errorf("the desk was booked for %v ago", late)
	}
	return nil
}

// auditQueues checks that every queue will be looked at again.
func (m *Module) auditQueues(e *Endpoint) error {
	for i := range e.channels {
		c := &e.channels[i]
		waits := e.listed || e.homeless || e.held && m.heldUntil != clock.Never || e.live.send[i].room() <= 0
		if c.queue.n > 0 && !waits {
			return fmt.Errorf("%d packets are queued on the %v channel, and nothing sends them",
				c.queue.n, wire.Space(i))
		}
	}
	return nil
}

// auditSilence checks that a peer on which something is pending is probed when it is silent.
func (m *Module) auditSilence(now clock.Time, e *Endpoint) error {
	switch {
	case !e.pending() || e.noticed:
	case e.room == 0 || m.night.Guest(e.room) != e:
		return fmt.Errorf("something is pending, and its silence is not looked at")
	case e.timerAt.Sub(now) > e.m.cfg.ProbeEvery:
		return fmt.Errorf("something is pending, and its silence is looked at in %v", e.timerAt.Sub(now))
	}
	return nil
}

// auditGaps checks that no segment is missing over a link that loses none. If one is, the two
// ends do not count alike.
func (s *session) auditGaps() error {
	for i := range s.receive {
		if w := &s.receive[i]; s.reliable && w.gap() {
			return fmt.Errorf("%v segment %d has not come, and %d has, over a link that keeps order",
				wire.Space(i), w.next, w.top.Add(-1))
		}
	}
	return nil
}

// auditPath checks that the knowledge of a path does not contradict itself, and that something
// waits for the end of a try.
func (s *session) auditPath() error {
	p, e := &s.path, s.endpoint
	switch {
	case p.limit == math.MaxInt:
	case p.size < limits.LeastFrame || p.size > p.goal ||
		p.trying > 0 && (p.trying < p.size || p.trying > p.goal || p.below >= p.trying):
		return fmt.Errorf("frames have %d bytes, of %d, and %d are tried, or else %d",
			p.size, p.goal, p.trying, p.below)
	case (p.lost == 0) != (p.suspect == math.MaxInt):
		return fmt.Errorf("%d segments are lost, of %d bytes", p.lost, p.suspect)
	case p.trying > 0 && e.duties&dutyPath == 0 && (e.room == 0 || e.timerAt > p.nextAt):
		return fmt.Errorf("frames of %d bytes are tried, and nothing waits for an answer", p.trying)
	}
	return nil
}
