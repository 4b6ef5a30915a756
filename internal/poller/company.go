package poller

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// company is whether other goroutines of the program do something while a waiter has the duty to poll. Where they do, what it has just been given
// may be for one of them: a reader of gRPC hands an answer to its caller, and waits for the next one. So it lets them run before it polls, here and
// now. It keeps its processor else until another thread has been woken for them, which takes longer than the network, and waits for a core itself
// where other pollers have them all.
//
//	a caller enters while a waiter polls ──► the next leads waiters share their processor first, until no caller has done so in as many
//
// A waiter that is alone does not share: that has the runtime wake another thread each time, to find nothing. Where company is frequent the poller sleeps
// by the runtime (sleeper), too, and does so for a while.
type company struct {
	left  atomic.Int32 // leads waiters that share
	until atomic.Int64 // then it is no longer frequent
}

const (
	companyFor  = 4  // leads waiters that share, for each caller
	mostCompany = 64 // at most, or a few more
	frequent    = mostCompany / 2
	frequentFor = 100 * time.Millisecond
	mostShares  = 4                    // in a row, of one waiter
	vainShare   = 2 * time.Microsecond // which another goroutine would hardly have been content with
)

// note says that a caller has entered while a waiter polls.
func (c *company) note(now clock.Time) {
	n := c.left.Load()
	if n < mostCompany {
		c.left.Store(n + companyFor)
	}
	if n >= frequent {
		c.until.Store(int64(now.Add(frequentFor)))
	}
}

// isFrequent reports whether callers have entered again and again lately.
func (c *company) isFrequent(now clock.Time) bool { return int64(now) < c.until.Load() }

// share lets other goroutines run, if some are there, until none wants to: those that have yielded in turn want to once more.
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
