package nic

import (
	"iter"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
)

// expiry holds what waits for its time in the engine: receives that end then, and the times at
// which services asked to be called.
type expiry struct {
	next   clock.Time    // no later than any of these times
	doomed list[receive] // from processes that have gone, ordered by when they end
	short  list[send]    // runs that wait for credit, ordered by when they end
	// Receives cancelled while their messages were on their way, ordered by when they end.
	recalled   list[receive]
	departures departures // sends that a guard delays, or has yet to judge
}

// at makes the engine look at t or earlier.
func (x *expiry) at(t clock.Time) { x.next = clock.Min(x.next, t) }

// due reports whether it is time to look. Each entry whose time has not come must call at again.
func (x *expiry) due(now clock.Time) bool {
	if now < x.next {
		return false
	}
	x.next = clock.Never
	return true
}

// doom ends a receive at a time, unless its message arrives before.
func (x *expiry) doom(r *receive, at clock.Time) {
	if r.grave.in != nil {
		return
	}
	r.endAt = at
	n := x.doomed.tail // the grace is the same for all, so this is nearly always the place
	for n != nil && n.v.endAt > at {
		n = n.prev
	}
	x.doomed.insertAfter(&r.grave, n)
	x.at(at)
}

// recall gives the message of a cancelled receive a limited time to arrive. Its sender may be
// slow, or may have stopped in the middle of describing it, and the process waits for its answer.
func (x *expiry) recall(r *receive, now clock.Time) {
	if r.recalled.in != nil {
		return
	}
	r.recallEnd = now.Add(limits.RecallPatience)
	x.recalled.pushBack(&r.recalled)
	x.at(r.recallEnd)
}

// over takes the elements off l whose time has come, one after the other; when returns the time of
// an element. The first element left sets the time of the next look.
func over[T any](x *expiry, l *list[T], now clock.Time, when func(*T) clock.Time) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for v := l.front(); v != nil; v = l.front() {
			if at := when(v); at > now {
				x.at(at)
				return
			}
			l.head.remove()
			if !yield(v) {
				return
			}
		}
	}
}
