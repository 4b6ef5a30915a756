package poller

import (
	"math/rand/v2"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// Two processes that wait for one another's messages and share a core while another core is idle
// take 6 to 10 µs for a round trip. On two cores it takes half a microsecond. The kernel is slow
// to part them: both have just run, and so seem best left where their caches are. And every few
// milliseconds some other thread wakes on the core of one of them, which brings the two back to
// one core. So a waiter that always gets its core back from another thread moves to another
// core:
//
//	a few yields that another thread takes up ─► another core idle? ─► move there ─► stay a while
//	        ▲                                         │ no
//	        └──── no thread does ◄── the other moved  └─► stay, and ask again after a while
//
// Both are in the same position, and if both moved they would meet again. So the number of
// yields is drawn each time, and the process left alone notices that at its next yield. If all
// cores are taken it is better to share one with a thread that yields than with one that
// computes: a waiter that moved regardless to the core of a computing thread got only a fifth of
// the messages.
const (
	leastGiven = 9 // in so many yields the kernel has been asked once
	mostGiven  = 20
)

// leastStay is how long a waiter stays after it has moved, or has asked without success: both
// take some 20 µs. It doubles, up to mostStay, each time that the core is shared again at once.
const (
	leastStay = 200 * time.Microsecond
	mostStay  = 5 * time.Millisecond
)

// apart decides when a waiter moves to another core, and how it does.
type apart struct {
	given int           // yields in a row before a move
	stay  time.Duration // least time of the last stay
	until clock.Time    // end of the last stay

	room func() bool // reports whether another core is idle
	move func()      // moves there
}

// due reports whether a waiter that has given up its core given times in a row should move to
// another.
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
