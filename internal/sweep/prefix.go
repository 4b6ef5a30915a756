package sweep

import (
	"time"

	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/vni"
)

// Within one session of two NICs, a process receives from another process a prefix of what that
// process sent, without the failed sends (decision 6). The session of a message is the session
// that its sender's NIC had when the message was posted, if it was the same when the send ended.
// Otherwise the session is unknown.

// homeSession stands for the session of two processes of one NIC.
const homeSession uint32 = 1<<32 - 1

// session returns the present session from the NIC of a life to the NIC of a name, as the first
// NIC knows it. It is 0 if there is none.
func (w *world) session(lf *life, to string) uint32 {
	if w.homes[to] == lf.host {
		return homeSession
	}
	if e := simulated.Engine(w.f, lf.host); e != nil {
		return e.Session(nicID(w.homes[to]))
	}
	return 0
}

// leaves is called when the send of a message has ended, or when its end will never be known. It
// notes whether the message certainly travelled in the session in which it was posted.
func (l *ledger) leaves(m *message) {
	if !l.travels(m) {
		m.session = 0
	}
}

// travels reports whether the session in which a message was posted is the present one.
func (l *ledger) travels(m *message) bool {
	return l.session == nil || l.session(m.from, m.to) == m.session
}

// precedes reports whether m was certainly sent before b, to the same process.
func (m *message) precedes(b *message) bool {
	sure := !m.unordered && !b.unordered && m.number < b.number
	return sure || m.outcome == succeeded && m.ended < b.posted
}

// auditHoles looks for messages that were sent without error and never arrived, although a later
// message of the same session did. Only a receiver that lived until the end has received
// everything that arrived.
func (l *ledger) auditHoles(living map[string]*life) {
	type pair struct {
		from *life
		to   string
	}
	came := map[pair][]*message{}
	for _, m := range l.order {
		if m.deliveries > 0 && m.session != 0 && m.taker.clean {
			p := pair{m.from, m.to}
			came[p] = append(came[p], m)
		}
	}
	for _, m := range l.order {
		to := living[m.to]
		if m.deliveries > 0 || m.outcome != succeeded || m.session == 0 || to == nil || to.born >= m.posted ||
			l.mayBeForAncestor(m, to) {
			continue
		}
		for _, later := range came[pair{m.from, m.to}] {
			if later.session == m.session && later.taker == to && m.precedes(later) {
				l.violate("a hole: %v came in the same session as %v, "+
					"which was sent without error before it and never came",
					later, m)
				break
			}
		}
	}
}

// heard records what a life has recently received from a host.
type heard struct {
	session uint32
	posted  time.Duration // time at which the newest of its messages was posted
}

// hears compares the session of an arrived message with the events that its receiver can read by
// now. They must include the event about the end of an earlier session.
func (l *ledger) hears(to *life, m *message) {
	h, known := to.heard[m.from.host]
	switch {
	case m.session == 0 || m.session == homeSession || m.outcome == pending && !m.from.ended && !l.travels(m):
		return
	case !known || h.session == m.session:
		h.posted = max(h.posted, m.posted)
	case m.posted < h.posted: // it arrived late, from an earlier session
		return
	default:
		if to.missed == 0 && !to.toldSince(m.from.host, h.posted) {
			l.violate("%v came to %s in another session than messages posted at %v, "+
				"and no event has told of the end of that one",
				m, to.name, h.posted)
		}
		h.posted = m.posted
	}
	h.session = m.session
	to.heard[m.from.host] = h
}

// toldSince reports whether a life has learned of the loss of a host since the given time.
func (lf *life) toldSince(host int, since time.Duration) bool {
	for _, e := range lf.events {
		if e.host == host && e.name == "" && e.at >= since {
			return true
		}
	}
	return false
}

// catchUp reads the events that a life can read without waiting.
func (lf *life) catchUp() {
	for {
		e, missed, ok, _ := lf.half.PollEvent() // the watcher reports an error
		lf.missed += missed
		if !ok {
			return
		}
		lf.told(e)
	}
}

// told notes an event.
func (lf *life) told(e vni.Event) {
	lf.w.log("%s is told: %v", lf.name, e)
	lf.events = append(lf.events,
		event{at: lf.now(), host: int(e.NIC - nicID(0)), name: eventName(e), count: int(e.Count)})
}
