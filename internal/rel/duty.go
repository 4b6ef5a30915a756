package rel

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/wire"
)

// duty is a frame without sequence that an endpoint owes its peer. Duties are discharged at the
// end of a Progress, ACKs first, so that several causes in one poll make one frame.
type duty uint16

const (
	dutyAck        duty = 1 << iota // an explicit acknowledgement
	dutyHello                       // a Hello of the current attempt
	dutyAnswerNext                  // a HelloAck from a half-open session
	dutyAnswerLive                  // a HelloAck from the open one
	dutyProbe                       // a keepalive, which may ask about fragments
	dutyReply                       // ProbeReplies
	dutyCheck                       // the two probes of the connectivity check
	dutyPath                        // the probes of the path's MTU
	dutyPhase                       // the probe of a phase of keys
	dutyRoam                        // the probe of a new address of the peer
	dutyRekey                       // a message of a handshake inside the session
)

// owe adds a duty and lists the endpoint.
func (e *Endpoint) owe(d duty) {
	if e.duties == 0 {
		e.m.owing = append(e.m.owing, e)
	}
	e.duties |= d
}

// discharge sends the frames that e owes, in the order of the bits. It returns false if the
// driver takes no more; the rest stays owed. Duties that have lost their session are dropped.
func (m *Module) discharge(now clock.Time, e *Endpoint, out Frames) bool {
	for e.duties != 0 {
		d := e.duties & -e.duties
		done, sent := m.dischargeOne(now, e, d, out)
		if !done {
			return false
		}
		if sent {
			m.work++
		}
		e.duties &^= d
	}
	return true
}

// finishes sends the last message of a handshake before the first other frame of its session.
func (m *Module) finishes(s *session, out Frames) bool {
	return s.finish == nil || s.finished || m.sendFinish(s, out)
}

func (m *Module) dischargeOne(now clock.Time, e *Endpoint, d duty, out Frames) (done, sent bool) {
	s := e.live
	switch d {
	case dutyHello:
		s = e.next
	case dutyAnswerNext:
		s = e.answering
	}
	if s == nil {
		return true, false
	}
	if s.open && !m.finishes(s, out) {
		return false, false
	}
	switch d {
	case dutyAck:
		if !s.acks.now {
			return true, false // a segment took it along
		}
		done = m.sendAck(now, s, out)
	case dutyHello:
		done = m.sendHello(now, s, out)
	case dutyAnswerNext, dutyAnswerLive:
		if !s.bound {
			return true, false
		}
		done = m.sendHelloAck(now, s, out)
	case dutyProbe:
		e.probedAt = now
		if !m.sendFinish(s, out) {
			return false, false
		}
		done = m.sendKeepalive(now, s, wire.Probe{ID: s.confirming.ask(), Size: wire.ProbeLen}, out)
	case dutyReply:
		if s.reliable && s.withheld.n > 0 {
			return true, false // owed again when they have left
		}
		done = m.sendReplies(s, out)
	case dutyCheck:
		done = m.sendChecks(s, out)
	case dutyPath:
		done = m.sendPathProbes(now, s, out)
	case dutyPhase:
		done = m.sendPhase(now, s, out)
	case dutyRoam:
		done = m.sendRoam(s, out)
	case dutyRekey:
		done = m.sendRekey(s, out)
	}
	return done, done
}
