package rel

import (
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/wire"
)

// A peer is probed only while something is pending on it. Then a session timer fires every
// ProbeEvery at the latest. A peer that was silent for so long is probed, and one that was
// silent for UnreachableAfter is given up. An idle peer costs nothing.

// keepalive is the id of probes that only ask whether the peer is there.
const keepalive = 0

// pending reports whether anything depends on the peer.
func (e *Endpoint) pending() bool {
	s := e.live
	return e.watch > 0 || !s.confirmed || s.confirming.waits() || e.check.running() || s.path.trying > 0 ||
		!e.clear() || s.send[wire.Command].used()+s.send[wire.Data].used() > 0
}

// silentSince returns since when the peer has been silent while this module was polled.
func (e *Endpoint) silentSince() clock.Time { return max(e.heard, e.attended) }

// attend starts the session timer if it does not run: the peer's silence counts from now.
func (e *Endpoint) attend(now clock.Time) {
	if e.room == 0 {
		e.attended = now
		e.book(now, now.Add(e.m.cfg.ProbeEvery))
	}
}

// book makes the session timer fire at the given instant, unless it fires earlier.
func (e *Endpoint) book(now, at clock.Time) {
	if e.room != 0 {
		if e.timerAt <= at {
			return
		}
		e.m.night.CheckOut(e.room)
	}
	e.room, e.timerAt = e.m.night.CheckIn(now, at, e), at
}

// nightTimer handles the session timer of one endpoint.
func (m *Module) nightTimer(now clock.Time, e *Endpoint) {
	e.room = 0
	e.forgive(now)
	next := clock.Never
	if e.attempt.wanted {
		if next = m.attemptTimer(now, e); next == clock.Never {
			return
		}
	}
	if e.live != nil {
		if !e.pending() {
			e.rest()
			return
		}
		silent := now.Sub(e.silentSince())
		if silent >= m.cfg.UnreachableAfter {
			m.ends(now, e, e.silence())
			return
		}
		next = clock.Min(next, e.silentSince().Add(m.cfg.UnreachableAfter))
		next = clock.Min(next, e.keepAlive(now))
		next = clock.Min(next, e.checkTimer(now))
		next = clock.Min(next, e.pathTimer(now))
	}
	if next != clock.Never {
		e.book(now, next)
	}
}

// forgive excuses the peer's silence while this module was not polled. If the session timer is
// that late, no probe left, and no answer could be heard.
func (e *Endpoint) forgive(now clock.Time) {
	if late := now.Sub(e.timerAt); late > e.m.cfg.ProbeEvery {
		e.MarkChanged()
		e.heard = min(e.heard.Add(late), now)
		e.attended = min(e.attended.Add(late), now)
		e.attempt.since = min(e.attempt.since.Add(late), now)
	}
}

// attemptTimer repeats the Hello. In time it gives the attempt up and returns Never.
func (m *Module) attemptTimer(now clock.Time, e *Endpoint) clock.Time {
	until := e.attempt.since.Add(m.cfg.UnreachableAfter)
	if now >= until {
		own := e.attempt.own
		e.attempt.stop()
		if e.next != nil {
			m.drop(e.next)
		}
		if !own {
			m.ends(now, e, e.silence())
		}
		return clock.Never
	}
	if now >= e.attempt.helloAt {
		e.hello(now)
	}
	return clock.Min(e.attempt.helloAt, until)
}

// keepAlive requests a probe of a silent peer, and returns when to look again.
func (e *Endpoint) keepAlive(now clock.Time) clock.Time {
	since := e.silentSince()
	if e.live.confirming.asks() { // other frames do not count: the answer may have found no room
		since = e.probedAt
	}
	due := max(since, e.probedAt).Add(e.m.cfg.ProbeEvery)
	if now >= due {
		e.owe(dutyProbe)
		due = now.Add(e.m.cfg.ProbeEvery)
	}
	return due
}

// Probe asks the peer at once whether it is there, if a session is open. Heard tells when it has
// answered.
func (e *Endpoint) Probe(now clock.Time) {
	if e.live != nil {
		e.attend(now)
		e.owe(dutyProbe)
	}
}

// rest gives memory back that only a busy peer needs.
func (e *Endpoint) rest() {
	for i := range e.live.send {
		e.live.send[i].shrink()
		e.live.receive[i].shrink()
	}
	e.m.forgetParts(e.live)
}

// receiveProbe notes a reply to send. There is room for a peer's concurrent probes. If it sends
// more, only the last ones are answered.
func (m *Module) receiveProbe(s *session, body []byte) {
	e := s.endpoint
	p, err := wire.ParseProbe(body)
	if err != nil {
		m.stats.Malformed++
		return
	}
	m.stats.ProbeReceives++
	if int(p.Size) > e.largestProbe() {
		return // longer than any frame that we may send; its sender knows our MTU
	}
	if int(e.owed) == len(e.replies) {
		e.owed = uint8(copy(e.replies[:], e.replies[1:]))
	}
	e.replies[e.owed] = p
	e.owed++
	e.owe(dutyReply)
}

// largestProbe returns the size of the body of a probe that fills the largest frame of both
// NICs, in bytes.
func (e *Endpoint) largestProbe() int {
	return e.channels[wire.Data].most - wire.OuterLen - e.tagLen()
}

func (m *Module) sendProbe(s *session, to netip.AddrPort, k wire.Kind, p wire.Probe, out Frames) bool {
	s.prepare()
	b := frame(out, to)
	if b == nil {
		return false
	}
	p.Put(b[wire.OuterLen:])
	out.Commit(s.packets.seal(k, b, wire.OuterLen+int(p.Size), nil))
	m.stats.ProbeSends++
	return true
}

func (m *Module) sendReplies(s *session, out Frames) bool {
	e := s.endpoint
	for e.owed > 0 {
		if !m.sendProbe(s, s.addr, wire.KindProbeReply, e.replies[e.owed-1], out) {
			return false
		}
		e.owed--
	}
	return true
}
