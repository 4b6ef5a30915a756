package sweep

import (
	"time"

	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/vni"
)

// Within one session of two NICs, what a process receives from another is a prefix of what that one sent, less the sends that
// failed (decision 6). The session of a message is the one that its sender's NIC had when the message was posted, if it had
// the same one when the sending ended; otherwise nothing is known of it.

// homeSession stands for the session of two processes of one NIC.
const homeSession uint32 = 1<<32 - 1

// session is the present session from the NIC of a life to that of a name, as the first has it; 0 if there is none.
func (w *world) session(lf *life, to string) uint32 {
	if w.homes[to] == lf.host {
		return homeSession
	}
	if e := simulated.Engine(w.f, lf.host); e != nil {
		return e.Session(nicID(w.homes[to]))
	}
	return 0
}

// leaves notes whether a message whose sending has ended, or will not be heard of any more, surely travelled in the session in
// which it was posted.
func (l *ledger) leaves(m *message) {
	if !l.travels(m) {
		m.session = 0
	}
}

// travels reports whether the session in which a message was posted is the present one.
func (l *ledger) travels(m *message) bool {
	return l.session == nil || l.session(m.from, m.to) == m.session
}

// precedes reports whether m was surely sent before b, to the same process.
func (m *message) precedes(b *message) bool {
	sure := !m.unordered && !b.unordered && m.number < b.number
	return sure || m.outcome == succeeded && m.ended < b.posted
}

// auditHoles looks for messages that were sent without error and never came, though a later one of the same session did. Only
// a receiver that lived until the end has taken in all that came.
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
		if m.deliveries > 0 || m.outcome != succeeded || m.session == 0 || to == nil || to.born >= m.posted || l.mayBeForAncestor(m, to) {
			continue
		}
		for _, later := range came[pair{m.from, m.to}] {
			if later.session == m.session && later.taker == to && m.precedes(later) {
				l.violate("a hole: %v came in the same session as %v, which was sent without error before it and never came", later, m)
				break
			}
		}
	}
}

// heard is what a life has received from a host of late.
type heard struct {
	session uint32
	posted  time.Duration // of the newest of its messages
}

// hears holds the session of a message that has come against the events that its receiver can read by now: that of the end of
// an earlier session must be among them.
func (l *ledger) hears(to *life, m *message) {
	h, known := to.heard[m.from.host]
	switch {
	case m.session == 0 || m.session == homeSession || m.outcome == pending && !m.from.ended && !l.travels(m):
		return
	case !known || h.session == m.session:
		h.posted = max(h.posted, m.posted)
	case m.posted < h.posted: // it has come late, in an earlier session
		return
	default:
		if to.missed == 0 && !to.toldSince(m.from.host, h.posted) {
			l.violate("%v came to %s in another session than messages posted at %v, and no event has told of the end of that one", m, to.name, h.posted)
		}
		h.posted = m.posted
	}
	h.session = m.session
	to.heard[m.from.host] = h
}

// toldSince reports whether a life has been told of the loss of a host since then.
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
		e, missed, ok, _ := lf.half.PollEvent() // an error is the watcher's to report
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
	lf.events = append(lf.events, event{at: lf.now(), host: int(e.NIC - nicID(0)), name: eventName(e), count: int(e.Count)})
}
