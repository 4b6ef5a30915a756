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
// A round without either raises it again, up to what the peer can take.
type congestion struct {
	most   int // what the peer announced, in bytes
	window int // bytes allowed now

	roundEnd   uint64        // packet counter whose acknowledgement ends the round
	roundLeast time.Duration // least round trip of this round, 0 if none was measured
	sent, lost int           // segments posted in this round, given up for lost in this round
	rounds     int           // of leastRound segments or more, so far

	least   time.Duration // least round trip known, 0 if none
	leastAt clock.Time    // when it was measured
}

const (
	leastWindow   = 16 << 10                // bytes: a few frames always go, or there is nothing to measure with
	leastRound    = 16                      // segments of a round from which a share of loss means something
	standingQueue = 2 * time.Millisecond    // a round trip this much above four times the least one is a queue's
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

// acked notes that a frame with this packet counter was acknowledged; next is the counter that the next frame gets. It is
// true if that ended one of the first rounds, and more than a quarter of the round was lost.
func (c *congestion) acked(counter, next uint64) (badStart bool) {
	if counter < c.roundEnd {
		return false
	}
	if c.sent >= leastRound {
		c.rounds++
	}
	switch {
	case c.sent >= leastRound && 4*c.lost > c.sent:
		badStart = c.rounds <= limits.FirstRounds
		c.window -= c.window / 4
	case c.roundLeast > 4*c.least+standingQueue:
		c.window -= c.window / 8
	default:
		c.window += c.window/8 + 1
	}
	c.window = min(max(c.window, leastWindow), c.most)
	c.roundEnd, c.roundLeast, c.sent, c.lost = next, 0, 0, 0
	return badStart
}
