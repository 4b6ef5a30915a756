package rel

import (
	"time"

	"github.com/weftnet/weft/internal/clock"
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

// mark notes that a frame has left whose echo measures a round trip although no segment is left then that it acknowledges. That of a HelloAck
// is the first measure.
func (s *session) mark(now clock.Time, counter uint64) { s.marked, s.markedAt = counter, now }

// markAgain marks a segment that was sent again. Where round trips have become longer than they are thought to be, each segment is sent again
// before the answer to its first transmission can come, which ends it; only the echoes of later ones are left to tell. For the same reason a
// mark stays until it is answered, or is as good as lost.
func (s *session) markAgain(now clock.Time, counter uint64) {
	if s.marked == 0 || now.Sub(s.markedAt) > limits.LongestRetransmit {
		s.mark(now, counter)
	}
}

// markTold returns the round trip that an echo measures, which was held back for a while; 0 if none.
func (s *session) markTold(now clock.Time, echo uint64, held time.Duration) (rtt time.Duration) {
	if s.marked == 0 || echo < s.marked {
		return 0
	}
	if echo == s.marked {
		rtt = max(now.Sub(s.markedAt)-held, 1)
	}
	s.marked = 0 // or it was lost, or overtaken
	return rtt
}

// retransmitAfter is how long a segment stays in the hotel (USNIC-45): as long as an answer may take, doubled with every time-out in a row.
func (r *roundTrip) retransmitAfter(ackDelay time.Duration) time.Duration {
	return min(r.patience(ackDelay)<<min(r.backoff, 16), limits.LongestRetransmit)
}

// patience is how long an answer may take: 100 ms until a round trip was measured, then the round trip and what it varies by. What it varies
// by is never taken for less than a peer may be late that has other things to do: round trips of a path that is long and even have next to
// no variance until then.
func (r *roundTrip) patience(ackDelay time.Duration) time.Duration {
	if r.smooth == 0 {
		return limits.FirstRetransmit
	}
	return r.smooth + max(4*r.vary+ackDelay, limits.LeastLateness)
}

// tailAfter is how long after the last transmission silence means that the tail was lost; 0 if it cannot be told yet.
// Each probe in a row waits twice as long.
func (r *roundTrip) tailAfter(ackDelay time.Duration, probes int) time.Duration {
	if r.smooth == 0 {
		return 0
	}
	return max(2*r.smooth, r.smooth+4*r.vary)<<probes + ackDelay
}
