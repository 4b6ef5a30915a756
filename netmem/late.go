package netmem

import (
	"sync/atomic"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/clock"
)

// lateness tells calls that what they wait for is late. One goroutine does for all calls, and looks as often as something may be late: most
// answers are there long before, and a timer for each would wake a thread for each.
//
//	a call waits ──► listed, with when it is late ──► its answer has come: no longer listed
//	                              └── watch, then ──► passed
type lateness struct {
	list  []*deadline
	next  clock.Time // when watch looks next
	used  bool       // a deadline was listed since watch looked
	look  *weft.Gate // opened when it must look sooner
	pause time.Duration
}

// deadline is when one call is late.
type deadline struct {
	at     clock.Time
	passed atomic.Bool
	place  int // in the list
}

// set lists a deadline, after d. The lock is held.
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

// unset takes it off the list. The lock is held.
func (o *port) unset(l *deadline) {
	t := &o.late
	last := len(t.list) - 1
	t.list[l.place] = t.list[last]
	t.list[l.place].place = l.place
	t.list[last] = nil
	t.list = t.list[:last]
}

// watch tells calls that they are late until the port is closed.
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

// tellLate passes what is late, and returns for how long nothing else is; 0: until a call says so. Where calls follow one another it looks
// again when the next may be late, rather than have that wake it.
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
