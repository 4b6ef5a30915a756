package poller

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// company knows whether other goroutines of the program use the NIC while a waiter has the duty
// to poll. If they do, the data that the waiter has just received may be for one of them: a
// reader of gRPC hands an answer to its caller, and waits for the next one. So the waiter lets
// them run before it polls, on its own processor. Otherwise it would keep that processor until
// another thread has been woken for them. That takes longer than the network, and the thread
// itself waits for a core if other pollers have them all.
//
//	a caller enters while a waiter polls ─► in the next turns with the duty, a waiter first shares
//	                                        its processor, until no caller has entered in as many
//	                                        turns
//
// A waiter that is alone does not share: sharing makes the runtime wake another thread each
// time, to find nothing. If company is frequent the poller also sleeps by the runtime (sleeper),
// for a while.
type company struct {
	left  atomic.Int32 // turns with the duty in which waiters still share
	until atomic.Int64 // company is frequent until then
}

const (
	companyFor  = 4  // turns in which waiters share, for each caller
	mostCompany = 64 // at most, or a few more
	frequent    = mostCompany / 2
	frequentFor = 100 * time.Millisecond
	mostShares  = 4                    // yields in a row, of one waiter
	vainShare   = 2 * time.Microsecond // too short for a turn of another goroutine
)

// note records that a caller has entered while a waiter polls.
func (c *company) note(now clock.Time) {
	n := c.left.Load()
	if n < mostCompany {
		c.left.Store(n + companyFor)
	}
	if n >= frequent {
		c.until.Store(int64(now.Add(frequentFor)))
	}
}

// isFrequent reports whether callers have entered repeatedly in the last frequentFor.
func (c *company) isFrequent(now clock.Time) bool { return int64(now) < c.until.Load() }

// share lets other goroutines run, if there are any, until none wants to. Those that yield in
// turn are let run once more.
func (c *company) share() {
	n := c.left.Load()
	if n == 0 {
		return
	}
	c.left.Store(n - 1)
	for i, begun := 0, Now(); i < mostShares; i++ {
		runtime.Gosched()
		now := Now()
		if now.Sub(begun) < vainShare {
			return
		}
		begun = now
	}
}
