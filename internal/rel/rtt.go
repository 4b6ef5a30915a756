package rel

import (
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
)

// roundTrip estimates the round trip to a peer, in the manner of RFC 6298. Its samples are
// unambiguous: an acknowledgement echoes the packet counter of the very frame that made its
// receiver answer, and every transmission has its own counter.
type roundTrip struct {
	smooth, vary time.Duration // 0 until there is a sample
	backoff      uint          // retransmit timeouts in a row without progress
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

// mark notes a frame whose echo measures a round trip although no segment will be left that it
// acknowledges. The echo of a HelloAck is the first measure.
func (s *session) mark(now clock.Time, counter uint64) { s.marked, s.markedAt = counter, now }

// markAgain marks a retransmitted segment. If round trips have become longer than estimated,
// each segment is retransmitted before the answer to its first transmission can arrive. That
// answer ends the segment, so only the echoes of later transmissions are left to measure. For
// the same reason a mark stays until it is answered, or is as good as lost.
func (s *session) markAgain(now clock.Time, counter uint64) {
	if s.marked == 0 || now.Sub(s.markedAt) > limits.LongestRetransmit {
		s.mark(now, counter)
	}
}

// markTold returns the round trip that an echo measures, less the time for which the peer held
// it back; 0 if it measures none.
func (s *session) markTold(now clock.Time, echo uint64, held time.Duration) (rtt time.Duration) {
	if s.marked == 0 || echo < s.marked {
		return 0
	}
	if echo == s.marked {
		rtt = max(now.Sub(s.markedAt)-held, 1)
	}
	s.marked = 0 // also if it was lost, or overtaken
	return rtt
}

// retransmitAfter returns how long a segment stays in the hotel (USNIC-45): the longest time of
// an answer, doubled with every timeout in a row.
func (r *roundTrip) retransmitAfter(ackDelay time.Duration) time.Duration {
	return min(r.patience(ackDelay)<<min(r.backoff, 16), limits.LongestRetransmit)
}

// patience returns the longest time of an answer: 100 ms until a round trip was measured, then
// the round trip and its variation. The variation is never taken for less than the lateness of a
// peer that has other work: the round trips of a long and even path have next to no variance
// until the peer is late.
func (r *roundTrip) patience(ackDelay time.Duration) time.Duration {
	if r.smooth == 0 {
		return limits.FirstRetransmit
	}
	return r.smooth + max(4*r.vary+ackDelay, limits.LeastLateness)
}

// tailAfter returns how long silence must last after the last transmission for the tail to count
// as lost; 0 if that is unknown yet. Each probe in a row waits twice as long.
func (r *roundTrip) tailAfter(ackDelay time.Duration, probes int) time.Duration {
	if r.smooth == 0 {
		return 0
	}
	return max(2*r.smooth, r.smooth+4*r.vary)<<probes + ackDelay
}
