package netmem

import (
	"sync/atomic"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/clock"
)

// lateness tells calls that their answers are late. One goroutine serves all calls, because most
// answers arrive in time and a timer for each call would wake a thread for each.
//
//	a call waits ──► its deadline is listed ──► its answer arrives: unlisted
//	                              └── watch, at the deadline ──► passed
type lateness struct {
	list  []*deadline
	next  clock.Time    // when watch looks next
	used  bool          // a deadline was listed since watch looked
	look  *weft.Gate    // opened when watch must look sooner
	pause time.Duration // shortest time between two looks while calls follow one another
}

// deadline is the time at which one call is late.
type deadline struct {
	at     clock.Time
	passed atomic.Bool
	place  int // index in the list
}

// set lists a deadline d from now. The lock is held.
func (o *port) set(l *deadline, d time.Duration) {
	t := &o.late
	l.at, l.place = o.now().Add(d), len(t.list)
	l.passed.Store(false)
	t.list = append(t.list, l)
	t.used = true
	if l.at < t.next {
		t.next = l.at
		t.look.Open()
	}
}

// unset removes a deadline from the list. The lock is held.
func (o *port) unset(l *deadline) {
	t := &o.late
	last := len(t.list) - 1
	t.list[l.place] = t.list[last]
	t.list[l.place].place = l.place
	t.list[last] = nil
	t.list = t.list[:last]
}

// watch marks deadlines as passed until the port is closed.
func (o *port) watch() {
	for {
		rest, told := o.tellLate()
		if told {
			o.p.Runtime().Wake()
		}
		ctx, cancel := o.ctx, func() {}
		if rest > 0 {
			ctx, cancel = o.p.Runtime().WithTimeout(o.ctx, rest)
		}
		_ = o.late.look.Wait(ctx)
		cancel()
		if o.ctx.Err() != nil {
			return
		}
	}
}

// tellLate marks the deadlines that have passed. It returns the time until the next one; 0 means
// that watch waits for a new deadline. While calls follow one another, it returns the time until
// the next call may be late, so that the next call need not wake watch.
func (o *port) tellLate() (rest time.Duration, told bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t, now := &o.late, o.now()
	t.next = clock.Never
	if t.used {
		t.next = now.Add(t.pause)
	}
	t.used = len(t.list) > 0
	for _, l := range t.list {
		switch {
		case l.passed.Load():
		case l.at <= now:
			l.passed.Store(true)
			told = true
		default:
			t.next = min(t.next, l.at)
		}
	}
	if t.next == clock.Never {
		return 0, told
	}
	return t.next.Sub(now), told
}
