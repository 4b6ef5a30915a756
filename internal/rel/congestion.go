package rel

import (
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
)

// congestion bounds the bytes that may be under way to a peer. It begins with all that the peer can take. Loss that looks
// random does not lower it; two things do, judged once a round trip:
//
//   - every round trip of the round was far above the least known: a queue is standing somewhere
//   - more than a quarter of a round was lost: somebody throws away what we send
//
// A round without either raises it again, up to what the peer can take. Where much was thrown away it also has what is sent
// paced (pace.go), by what arrived in a round trip.
type congestion struct {
	most   int // what the peer announced, in bytes
	window int // bytes allowed now

	roundEnd   uint64        // packet counter whose acknowledgement ends the round
	roundLeast time.Duration // least round trip of this round, 0 if none was measured
	sent, lost int           // segments posted in this round, given up for lost in this round
	rounds     int           // of leastRound segments or more, so far
	roundAt    clock.Time    // when this round began
	delivered  int           // bytes acknowledged in this round

	rate       float64    // bytes that arrive in a nanosecond, of the best of the last rounds
	pacedUntil clock.Time // what is sent is paced

	least   time.Duration // least round trip known, 0 if none
	leastAt clock.Time    // when it was measured
}

const (
	leastWindow   = 16 << 10                // bytes: a few frames always go, or there is nothing to measure with
	leastRound    = 16                      // segments of a round from which a share of loss means something
	standingQueue = 2 * time.Millisecond    // a round trip this much above four times the least one is a queue's
	pacedFor      = 10 * 1000 * 1000 * 1000 // ns for which a path is paced that threw much away
	leastMemory   = 10 * 1000 * 1000 * 1000 // ns after which the least round trip is measured anew: routes change
)

func (c *congestion) start(capacity uint64) {
	*c = congestion{most: int(min(capacity, 1<<40))}
	c.window = c.most
}

// sample takes a measured round trip.
func (c *congestion) sample(now clock.Time, d time.Duration) {
	if c.least == 0 || d <= c.least || now.Sub(c.leastAt) > leastMemory {
		c.least, c.leastAt = d, now
	}
	if c.roundLeast == 0 || d < c.roundLeast {
		c.roundLeast = d
	}
}

// acked notes that a frame of n bytes with this packet counter was acknowledged; next is the counter that the next frame
// gets. It is true if that ended one of the first rounds, and more than a quarter of the round was lost.
func (c *congestion) acked(now clock.Time, n int, counter, next uint64) (badStart bool) {
	c.delivered += n
	if counter < c.roundEnd {
		return false
	}
	if c.sent >= leastRound {
		c.rounds++
	}
	switch {
	case c.sent >= leastRound && 4*c.lost > c.sent:
		badStart = c.rounds <= limits.FirstRounds
		c.pacedUntil = now.Add(pacedFor)
		c.window -= c.window / 4
	case c.roundLeast > 4*c.least+standingQueue:
		c.window -= c.window / 8
	default:
		c.window += c.window/8 + 1
	}
	c.window = min(max(c.window, leastWindow), c.most)
	if took := now.Sub(c.roundAt); took > 0 && c.roundAt > 0 {
		// As much as the least window in any case: where more is lost than the pace allows for, it would slow down for ever.
		c.rate = max(float64(max(c.delivered, leastWindow))/float64(took), c.rate*7/8)
	}
	c.roundEnd, c.roundLeast, c.sent, c.lost, c.roundAt, c.delivered = next, 0, 0, 0, now, 0
	return badStart
}
