package rel

import (
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// Progress does all that is due at now, in this order (USNIC-21):
//
//  1. deferred notes, then timers
//  2. retransmissions, at most 16, by the data queue
//  3. the endpoints with something to send, each until its queues are empty, or its window full
//  4. explicit ACKs that no segment took along; Hellos, probes and their answers; datagrams
//
// It returns how much it did, and when it must be called again even if nothing arrives and
// nothing is asked of it: Never if there is no such instant, now if it stopped before the end.
// With nothing due it only compares a few numbers.
func (m *Module) Progress(now clock.Time, out Frames) (work int, next clock.Time) {
	m.work, m.choked, m.progressed = 0, false, now
	m.settle()
	m.takeNotice(now)
	m.timers(now)
	m.letGo(now) // before any is held back anew
	m.resendSome(now, out)
	m.sendAll(now, out)
	m.dischargeAll(now, out)
	if len(m.waiting) > 0 {
		m.sendDatagrams(out)
	}
	m.staged = 0 // they leave with the Flush that follows
	m.tellFinished(now)
	return m.work, m.nextPoll(now)
}

// Idle reports whether the next Progress has nothing to send, or to note.
func (m *Module) Idle() bool {
	return m.resends.n+len(m.sending)+len(m.owing)+len(m.waiting) == 0 &&
		(m.deferred.session == nil || m.deferred.session.reliable)
}

// takeNotice starts the silence timers of newly watched endpoints: Watch does not know the time.
func (m *Module) takeNotice(now clock.Time) {
	for i := 0; i < len(m.noticed); i++ {
		e := m.noticed[i]
		e.noticed = false
		switch {
		case e.watch == 0:
		case e.live == nil:
			e.Connect(now)
		default:
			e.attend(now)
		}
	}
	m.noticed = m.noticed[:0]
}

// timers looks at one deadline per hotel, and beyond it only at the timers that are due.
func (m *Module) timers(now clock.Time) {
	m.expirePending(now)
	m.expireDatagrams(now)
	if now < m.hotel.Wake() && now < m.desk.Wake() && now < m.night.Wake() {
		m.hotel.Pass(now)
		m.desk.Pass(now)
		m.night.Pass(now)
		return
	}
	for g, ok := m.hotel.Evict(now); ok; g, ok = m.hotel.Evict(now) {
		m.timeout(now, g)
		m.work++
	}
	for s, ok := m.desk.Evict(now); ok; s, ok = m.desk.Evict(now) {
		if m.deskTimer(now, s) {
			m.work++
		}
	}
	for e, ok := m.night.Evict(now); ok; e, ok = m.night.Evict(now) {
		m.nightTimer(now, e)
		m.work++
	}
}

// sendAll works on the list of endpoints with something to send. An endpoint leaves the list
// when it can send no more.
func (m *Module) sendAll(now clock.Time, out Frames) {
	if len(m.homeless) > 0 && m.lodging(false) {
		for _, e := range m.homeless {
			e.homeless = false
			e.toSend()
		}
		m.homeless = m.homeless[:0]
	}
	if len(m.sending) == 0 {
		return
	}
	todo := m.sending
	m.sending = m.spare[:0]
	for _, e := range todo {
		e.listed = false
		switch {
		case e.live == nil:
		case e.overrun:
			m.ends(now, e, ErrOverrun)
		case !m.sendQueues(now, e, out):
			m.choked = true
			e.toSend() // others may go on: perhaps only this peer's queue is full
		case e.live.reliable:
			e.writable(now) // on a lossy link, acknowledgements lead to it
		}
	}
	clear(todo)
	m.spare = todo[:0]
}

// dischargeAll works on the list of endpoints that owe a frame.
func (m *Module) dischargeAll(now clock.Time, out Frames) {
	if len(m.refusals) > 0 {
		m.work += m.sendRefusals(out)
	}
	if m.security != nil && len(m.security.cookies) > 0 {
		m.work += m.sendCookies(out)
	}
	if len(m.owing) == 0 {
		return
	}
	todo := m.owing
	m.owing = m.spare[:0]
	for _, e := range todo {
		if !m.discharge(now, e, out) {
			m.choked = true
			m.owing = append(m.owing, e)
		}
	}
	clear(todo)
	m.spare = todo[:0]
}

// retryAfter is the time after which a driver that took nothing is tried again.
const retryAfter = 20 * time.Microsecond

// nextPoll returns when Progress must be called again.
func (m *Module) nextPoll(now clock.Time) clock.Time {
	left := len(m.sending) + len(m.owing) + len(m.noticed) + len(m.waiting)
	if m.heldInRow < m.resends.n { // else all have been looked at
		left += m.resends.n
	}
	switch {
	case left > 0 && (!m.choked || m.work > 0):
		return now
	case left > 0:
		return now.Add(retryAfter)
	}
	next := clock.Min(clock.Min(m.hotel.Wake(), m.desk.Wake()), m.night.Wake())
	return clock.Min(clock.Min(next, m.heldUntil), clock.Min(m.pendingUntil(), m.datagramsUntil()))
}
