// Package clock holds the engine's only notion of time: a number of nanoseconds that the caller
// passes in.
//
// No code below internal/poller reads a clock. The poller stamps each turn with the monotonic
// clock, and the simulator with its virtual clock. The engine cannot tell the difference, so a
// run can be replayed from a seed.
package clock

import (
	"math"
	"time"

	_ "github.com/weftnet/weft/internal/target" // does not build where Weft cannot run
)

// Time is an instant in nanoseconds since an epoch that only its maker knows. Instants of one
// engine can be compared with one another and with nothing else.
type Time int64

// Never is later than every instant that occurs: it means "no deadline".
const Never Time = math.MaxInt64

// Add returns the instant d after t. Never plus any duration is Never, even if the duration is
// negative. Other instants saturate at the ends: a sum that is too large is Never, and no sum is
// on the wrong side of t.
func (t Time) Add(d time.Duration) Time {
	s := t + Time(d)
	if t == Never || d > 0 && s < t {
		return Never
	}
	if d < 0 && s > t {
		return math.MinInt64
	}
	return s
}

// Sub returns the duration from u to t. It saturates, so its sign always tells which of the two
// is earlier.
func (t Time) Sub(u Time) time.Duration {
	d := time.Duration(t - u)
	if (d < 0) == (t < u) {
		return d
	}
	if t < u {
		return math.MinInt64
	}
	return math.MaxInt64
}

// Before reports whether t is earlier than u.
func (t Time) Before(u Time) bool { return t < u }

// Min returns the earlier of two instants. Callers use it to combine deadlines.
func Min(a, b Time) Time {
	if a < b {
		return a
	}
	return b
}
