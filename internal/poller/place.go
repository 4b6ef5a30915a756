package poller

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/idle"
)

// place is where one goroutine sleeps until a frame, a deadline or a nudge: the helper, or the
// waiter that has the duty.
type place struct {
	// When the sleep ends at the latest; 0: no goroutine sleeps here, or it looks by itself soon
	// enough.
	until  atomic.Int64
	nudged atomic.Bool // the sleeper has been woken and has not looked yet
	sleep  *sleeper
	mu     sync.Mutex // held by the sleeper, and by close
}

func (l *place) furnish(link int) (err error) {
	l.sleep, err = newSleeper(link)
	return err
}

// close waits until no goroutine sleeps here.
func (l *place) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sleep.close()
}

// nudge makes the present or next sleep end at once. Store what the sleeper must see before the
// call.
func (l *place) nudge() {
	if !l.nudged.Swap(true) {
		l.sleep.wake()
	}
}

// nudgeFor wakes a sleeper that would sleep past a deadline.
func (l *place) nudgeFor(deadline int64) {
	if deadline < l.until.Load() {
		l.nudge()
	}
}

// doze sleeps at a place until next, a frame, or a nudge, while holder has the duty. It first
// announces that it sleeps, and then looks for the last time. So a caller that changes something
// sees that a nudge is needed, or is seen itself.
func (p *Poller) doze(l *place, holder int32, now, next clock.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until.Store(int64(next))
	if p.linkSleeps() && clock.Time(p.next.Load()) >= next && !p.arrived.Load() && !p.closed.Load() &&
		p.duty.Load() == holder {
		d := time.Duration(-1) // no limit
		if next != clock.Never {
			d = max(0, next.Sub(now)) // the engine may be due already
		}
		byRuntime := p.sleepsByRuntime(holder, now)
		idle.Leave()
		if byRuntime {
			l.sleep.sleep(d)
		} else {
			l.sleep.sleepAlone(d)
		}
		idle.Enter()
	}
	l.until.Store(0)
	l.nudged.Store(false)
}

// sleepsByRuntime reports whether the thread of a sleeper must give up its processor of the Go
// scheduler: other goroutines probably want it. A helper has the duty when no waiter polls, so the
// program may compute. If the program has one processor, a helper that keeps it stops the program
// for up to 20 ms, until the runtime's monitor takes the processor away. If the program has more
// NICs, waiters of another NIC may poll. Then the runtime would not look for up to 10 ms whether
// something ends this sleep.
func (p *Poller) sleepsByRuntime(holder int32, now clock.Time) bool {
	return p.company.isFrequent(now) || holder == helper && helpers.Load() == 1 && idle.Crowded()
}

// linkSleeps tells a link that has a Sleep function that its poller parks. It returns false if
// there are frames, or if another goroutine polls right now. Polls of others do not end the
// link's sleep: the first frame then wakes the helper needlessly. That is better than frames
// that arrive after those polls and wake no thread.
func (p *Poller) linkSleeps() bool {
	sleep := p.cfg.Link.Sleep
	if sleep == nil {
		return true
	}
	if !p.mu.TryLock() {
		return false
	}
	ready := sleep()
	p.unlock()
	return !ready
}
