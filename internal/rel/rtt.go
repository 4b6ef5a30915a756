package rel

import (
	"time"

	"github.com/weftnet/weft/internal/limits"
)

// roundTrip estimates the time to a peer and back, in the manner of RFC 6298. Its samples are unambiguous: an
// acknowledgement echoes the packet counter of the very frame that made its receiver answer, and every transmission has
// a counter of its own.
type roundTrip struct {
	smooth, vary time.Duration // 0 until there is a sample
	backoff      uint          // retransmit time-outs in a row without progress
}

// add takes a sample.
func (r *roundTrip) add(d time.Duration) {
	d = max(d, 1)
	if r.smooth == 0 {
		r.smooth, r.vary = d, d/2
		return
	}
	r.vary += ((r.smooth - d).Abs() - r.vary) / 4
	r.smooth += (d - r.smooth) / 8
	r.smooth = max(r.smooth, 1)
}

// retransmitAfter is how long a segment stays in the hotel (USNIC-45): as long as an answer may take, doubled with every time-out in a row.
func (r *roundTrip) retransmitAfter(ackDelay time.Duration) time.Duration {
	return min(r.patience(ackDelay)<<min(r.backoff, 16), limits.LongestRetransmit)
}

// patience is how long an answer may take: 100 ms until a round trip was measured, then its estimate.
func (r *roundTrip) patience(ackDelay time.Duration) time.Duration {
	if r.smooth == 0 {
		return limits.FirstRetransmit
	}
	return max(r.smooth+4*r.vary+ackDelay, limits.LeastRetransmit)
}

// tailAfter is how long after the last transmission silence means that the tail was lost; 0 if it cannot be told yet.
// Each probe in a row waits twice as long.
func (r *roundTrip) tailAfter(ackDelay time.Duration, probes int) time.Duration {
	if r.smooth == 0 {
		return 0
	}
	return max(2*r.smooth, r.smooth+4*r.vary)<<probes + ackDelay
}
