// Package clock has the engine's only notion of time: a number of nanoseconds that the caller passes in.
//
// Nothing below internal/poller reads a clock. The poller stamps each turn with the monotonic clock, the simulator
// with its virtual one, and the engine cannot tell the difference; that is what makes a run replayable from a seed.
package clock

import (
	"math"
	"time"
)

// Time is an instant in nanoseconds since an epoch that only its maker knows.
// Instants of one engine are comparable with one another and with nothing else.
type Time int64

// Never is later than every instant that happens: "no deadline".
const Never Time = math.MaxInt64

// Add returns the instant d after t. It saturates at Never, so that "never plus a little" stays never.
func (t Time) Add(d time.Duration) Time {
	if s := t + Time(d); d < 0 || s >= t {
		return s
	}
	return Never
}

// Sub returns the duration from u to t.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Before reports whether t is earlier than u.
func (t Time) Before(u Time) bool { return t < u }

// Min returns the earlier of two instants; it is how next deadlines are combined.
func Min(a, b Time) Time {
	if a < b {
		return a
	}
	return b
}
