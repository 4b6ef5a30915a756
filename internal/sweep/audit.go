package sweep

import (
	"cmp"
	"slices"
)

// audit compares the whole ledger with the promises that can be judged only at the end. excused
// reports whether an event of the run explains the failure of an operation from one process to
// another.
func (l *ledger) audit(excused func(m *message) bool, living map[string]*life) {
	lost := map[doubt]int{}
	for _, m := range l.order {
		if l.auditMessage(m, excused, living[m.to]) && l.counted(m) && !l.mayBeForAncestor(m, living[m.to]) {
			lost[doubt{m.from, living[m.to].host}]++
		}
	}
	l.auditDoubts(lost)
	l.auditHoles(living)
	l.auditOrder()
}

// counted reports whether the sender's NIC counts a message that is lost after its send succeeded
// among the messages in doubt. Over a reliable link, a NIC keeps no account of single frames that
// it has passed to the link. A message of several frames, which may still be short, ends only
// when the peer has confirmed it, or counts as in doubt.
func (l *ledger) counted(m *message) bool { return !l.trusting || m.size > l.frame }

// mayBeForAncestor reports whether a message may have reached the process that had its receiver's
// name before, because the news of that process's end was still in flight. The NIC then
// acknowledged the message and refused it. If the refusal is lost with the session, the message
// is not among those in doubt: it ended with its receiver.
func (l *ledger) mayBeForAncestor(m *message, receiver *life) bool {
	return receiver.heir && m.posted < receiver.born+l.newsTake
}

// doubt is a life, and a host whose loss was reported to it.
type doubt struct {
	life *life
	host int
}

// auditDoubts compares the number of lost messages with the number that was reported to the
// sender (decision 6).
func (l *ledger) auditDoubts(lost map[doubt]int) {
	for d, n := range lost {
		told := 0
		for _, e := range d.life.events {
			if e.host == d.host {
				told += e.count
			}
		}
		if n > told && d.life.missed == 0 {
			l.violate("%d messages of %s to host %d were lost after their sends had succeeded, and it was told of %d",
				n, d.life.name, d.host, told)
		}
	}
}

// auditMessage judges one message. It reports whether the message was lost after its send had
// succeeded, which can happen if a peer is lost.
func (l *ledger) auditMessage(m *message, excused func(m *message) bool, receiver *life) (lost bool) {
	// Only a receiver that lived from before the post until the end must have received it.
	lived := receiver != nil && receiver.clean && receiver.born < m.posted
	switch m.outcome {
	case pending:
		if !m.from.ended {
			l.violate("%v has not ended", m)
		}
	case succeeded:
		// If the receiver ended and another process took its name, the message ended with the
		// receiver.
		switch {
		case m.deliveries > 0 || !lived:
		case m.accept:
			l.violate("%v was reported delivered and never came", m)
		case m.from.ended || m.from.toldOf(m, func(e event) bool { return e.name == receiver.name }):
		case !m.from.toldOf(m, func(e event) bool { return e.host == receiver.host }):
			l.violate("%v was sent without error and never came, and its sender was told of no loss", m)
		default:
			return true
		}
	case failed:
		if !excused(m) {
			l.violate("%v failed without a cause: %v", m, m.err)
		}
	}
	return false
}

// toldOf reports whether a life has received a given kind of event after it posted m.
func (lf *life) toldOf(m *message, what func(event) bool) bool {
	return slices.ContainsFunc(lf.events, func(e event) bool { return e.at >= m.posted && what(e) })
}

// auditOrder compares every two messages from one life to another.
//
// If receive a was posted before receive b, both receives fit both messages, and b got the
// earlier message, then the matcher has broken the order: when it matched the earlier message, a
// was posted or about to be posted, and b was not before it. There is one excuse: a had matched a
// message that its sender then gave up, and a returned to its place too late.
func (l *ledger) auditOrder() {
	type pair struct{ from, to *life }
	taken := map[pair][]*message{}
	for _, m := range l.order {
		if m.deliveries == 1 && !m.unplaced {
			p := pair{m.from, m.taker}
			taken[p] = append(taken[p], m)
		}
	}
	for _, ms := range taken {
		slices.SortFunc(ms, func(a, b *message) int { return cmp.Compare(a.number, b.number) })
		for i, later := range ms {
			for _, earlier := range ms[:i] {
				if later.by.number < earlier.by.number && later.by.fits(earlier) && earlier.by.fits(later) &&
					!l.occupied(later) {
					l.violate("%v went to %v of %s, but %v to %v, and either would have fitted both",
						earlier, &earlier.by, earlier.taker.name, later, &later.by)
				}
			}
		}
	}
	slices.Sort(l.violations)
}

// occupied reports whether the receive that took m may have been matched temporarily to a message
// that was given up.
func (l *ledger) occupied(m *message) bool {
	return slices.ContainsFunc(l.order, func(o *message) bool {
		return o.to == m.to && o.outcome != succeeded && m.by.fits(o) && o.deliveries == 0
	})
}
