package rel

import (
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
)

// congestion bounds the bytes that may be under way to a peer. It begins with all that the peer can take. Loss that looks
// random does not lower it; two things do, judged once a round:
//
//   - every round trip of the round was far above the least known: a queue is standing somewhere
//   - more than a quarter of a round was lost: what we send is thrown away on its way
//
// A round without either raises it again, up to what the peer can take. Where much was thrown away it also has what is sent
// paced (pace.go), by what arrived in a round trip.
//
// A round takes a round trip: it ends when one of the segments is acknowledged that it posted itself. By then it is known
// what was lost of the round before, and nearly nothing of what it has lost itself:
//
//	posted        ├─ round 1 ─┼─ round 2 ─┼─ round 3 ─
//	acknowledged              ├─ round 1 ─┼─ round 2 ─
//	judged                                └ round 1's losses
type congestion struct {
	most   int // what the peer announced, in bytes
	window int // bytes allowed now

	round, before round         // the present one, and the one before, whose losses are still being found out
	roundLeast    time.Duration // least round trip of this round, 0 if none was measured
	roundAt       clock.Time    // when this round began
	delivered     int           // bytes acknowledged in this round

	first  tally // of the first rounds together
	rounds uint8 // of leastRound segments or more that it has
	ended  bool  // a segment of the present round was acknowledged

	rate       float64    // bytes that arrive in a nanosecond, of the best of the last rounds
	pacedUntil clock.Time // what is sent is paced

	least   time.Duration // least round trip known, 0 if none
	leastAt clock.Time    // when it was measured
}

// round is what was posted in the time of a round trip, and what became of it.
type round struct {
	from uint64 // packet counter from which on it has posted
	tally
}

// tally counts segments.
type tally struct{ sent, lost int32 }

// bad reports whether more than a quarter was lost, of so many segments at least.
func (t tally) bad(least int32) bool { return t.sent >= least && 4*t.lost > t.sent }

const (
	leastWindow   = 16 << 10                // bytes: a few frames always go, or there is nothing to measure with
	leastRound    = 16                      // segments of a round from which a share of loss means something
	leastFirst    = 64                      // of the first rounds together, from which the driver is told: it believes that for ever
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

// posts notes that so many segments leave.
func (c *congestion) posts(segments int) { c.round.sent += int32(segments) }

// loses notes that the segment with this packet counter is given up for lost. It counts for the round that posted it: a round that
// posts less than the one before it would have lost more than it ever sent. Older ones have been judged without it: two frames of
// a round at most, which only those of the next can tell of.
func (c *congestion) loses(counter uint64) {
	switch {
	case counter >= c.round.from:
		c.round.lost++
	case counter >= c.before.from:
		c.before.lost++
	}
}

// acked notes that a frame of n bytes with this packet counter was acknowledged.
func (c *congestion) acked(n int, counter uint64) {
	c.delivered += n
	c.ended = c.ended || counter >= c.round.from
}

// judge ends the round if one of its segments was acknowledged; the caller has found out what that tells of losses. next is the
// counter that the next frame gets. It is true if the first rounds together lost more than a quarter.
func (c *congestion) judge(now clock.Time, next uint64) (badStart bool) {
	if !c.ended {
		return false
	}
	switch {
	case c.before.bad(leastRound):
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
	badStart = c.judgeFirst()
	c.before, c.round = c.round, round{from: next}
	c.ended, c.roundLeast, c.roundAt, c.delivered = false, 0, now, 0
	return badStart
}

// judgeFirst adds a round to the first ones, and reports whether they were bad. Together, since a small one loses a quarter by chance.
func (c *congestion) judgeFirst() (bad bool) {
	if c.before.sent < leastRound || c.rounds == limits.FirstRounds {
		return false
	}
	c.rounds++
	c.first.sent += c.before.sent
	c.first.lost += c.before.lost
	return c.first.bad(leastFirst)
}
