package poller

import (
	"math/rand/v2"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// Two processes that wait for one another's messages and share a core while another is idle take 6 to 10 µs for a round trip that takes half a microsecond
// on two. The kernel is slow to part them, since to it both have just run, and are best left where their caches are; and every few
// milliseconds something wakes beside one of them, and has the two on one core again. So a waiter that always has its core back from
// another thread goes to another:
//
//	yields that another takes up, so many in a row ─► is another core idle? ─► move there ─► not again for a while
//	        ▲                                                │ no
//	        └────── none has ◄── the other moved            └─► stay, and ask again after a while
//
// Both are in the same position, and if both moved they would meet again. So how many yields it takes is drawn each time, and the one left alone
// finds that out at its next. Where all cores are taken it is better to share one with a thread that yields than with one that
// computes: beside one such, a waiter that moved regardless had a fifth of the messages.
const (
	leastGiven = 9 // in which the kernel has been asked once
	mostGiven  = 20
)

// leastStay is how long a waiter stays that has just moved, or has asked in vain: both take some 20 µs. It doubles, up to mostStay, where
// the core is shared again at once.
const (
	leastStay = 200 * time.Microsecond
	mostStay  = 5 * time.Millisecond
)

// apart is when a waiter moves to another core, and how.
type apart struct {
	given int           // yields in a row that it takes
	stay  time.Duration // for how long it stayed last, at least
	until clock.Time    // which ended then

	room func() bool // another core is idle
	move func()      // there
}

// due reports whether a waiter that has given up its core so many times in a row had better have another.
func (a *apart) due(now clock.Time, given int) bool {
	if given < max(a.given, leastGiven) || now < a.until {
		return false
	}
	if a.stay *= 2; a.stay < leastStay || now.Sub(a.until) > a.stay {
		a.stay = leastStay
	}
	a.stay = min(a.stay, mostStay)
	a.until = now.Add(a.stay)
	a.given = leastGiven + rand.IntN(mostGiven-leastGiven)
	return true
}
