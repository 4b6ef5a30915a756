package memfile

import (
	"context"
	"errors"
	"sync"
	"time"
)

// outage sets the time limit of each operation. The kernel writes its page cache in batches: it
// begins the next batch when one has ended. If the server is dead and each batch waited for the
// whole timeout, an fsync would take a multiple of the timeout.
//
//	well ──► a timeout ──► silent: little time ──► an operation succeeds ──► mixed: more time
//	 ▲                                                                         │
//	 └──────── no operation has timed out for the length of a timeout ─────────┘
type outage struct {
	timeout time.Duration

	mu       sync.Mutex
	lastLate time.Time       // time of the last timeout; zero: none
	silent   bool            // no operation has succeeded since
	closing  context.Context // ends the operations in flight
	close    context.CancelFunc
	ended    bool
}

// These are the divisors of the timeout while the device is silent, and while some operations
// succeed and others time out. In the second case another server may be alive, so its operations
// must not fail early.
const (
	silentPart = 64
	mixedPart  = 8
)

// errClosing ends the operations of a mount that is being unmounted.
var errClosing = errors.New("memfile: the file is unmounted")

func (o *outage) init(timeout time.Duration) {
	o.timeout = timeout
	if o.closing == nil {
		o.closing, o.close = context.WithCancel(context.Background())
	}
}

// begin returns the context of an operation and its time limit, which is at most timeout. The
// function done ends the operation.
func (o *outage) begin(
	ctx context.Context, timeout time.Duration,
) (_ context.Context, limit time.Duration, done func(ok, late bool)) {
	o.mu.Lock()
	o.init(timeout)
	limit = o.limit(time.Now())
	closing := o.closing
	o.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, limit)
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(closing, func() { end(errClosing) })
	return ctx, limit, func(ok, late bool) {
		stop()
		end(nil)
		cancel()
		o.note(ok, late)
	}
}

// limit returns the time limit of an operation that begins now. The lock is held.
func (o *outage) limit(now time.Time) time.Duration {
	switch {
	case o.ended, o.silent && o.recent(now):
		return max(o.timeout/silentPart, time.Millisecond)
	case o.recent(now):
		return max(o.timeout/mixedPart, time.Millisecond)
	}
	return o.timeout
}

// recent reports whether an operation has timed out within the last timeout.
func (o *outage) recent(now time.Time) bool {
	return !o.lastLate.IsZero() && now.Sub(o.lastLate) < o.timeout
}

// note records the outcome of an operation.
func (o *outage) note(ok, late bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch now := time.Now(); {
	case ok:
		o.silent = false
	case late:
		o.silent = o.silent || !o.recent(now)
		o.lastLate = now
	}
}

// end ends the operations in flight. Later operations get little time.
func (o *outage) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.ended = true
		o.init(o.timeout)
		o.close()
		o.closing = context.Background() // for operations that begin later
	}
}
