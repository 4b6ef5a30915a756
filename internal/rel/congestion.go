package rel

import (
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
)

// congestion bounds the bytes in flight to a peer. It begins with all that the peer can take.
// Loss that looks random does not lower it. Two findings do, judged once a round:
//
//   - every round trip of the round was far above the least known one: a queue stands somewhere
//   - more than a quarter of a round was lost: the network throws our frames away
//
// A round without either raises it again, up to the capacity of the peer. If much was thrown
// away, sending is also paced (pace.go), by the amount that arrived in a round trip.
//
// A round takes a round trip: it ends when one of the segments that it posted is acknowledged.
// By then the losses of the round before are known, and nearly none of its own:
//
//	posted        ├─ round 1 ─┼─ round 2 ─┼─ round 3 ─
//	acknowledged              ├─ round 1 ─┼─ round 2 ─
//	judged                                └ round 1's losses
type congestion struct {
	most   int // the capacity that the peer announced, in bytes
	window int // bytes allowed now

	round, before round         // the present one, and the one before (some losses are unknown)
	roundLeast    time.Duration // least round trip of this round, 0 if none was measured
	roundAt       clock.Time    // when this round began
	delivered     int           // bytes acknowledged in this round

	first  tally // of the first rounds together
	rounds uint8 // how many those are, with leastRound segments or more each
	ended  bool  // a segment of the present round was acknowledged

	rate       float64    // bytes that arrived in a nanosecond, of the best of the last rounds
	pacedUntil clock.Time // until then sending is paced

	least   time.Duration // least round trip known, 0 if none
	leastAt clock.Time    // when it was measured
}

// round holds the segments posted during one round trip, and their losses.
type round struct {
	from uint64 // packet counter of its first posting
	tally
}

// tally counts segments.
type tally struct{ sent, lost int32 }

// bad reports whether more than a quarter was lost, of at least least segments.
func (t tally) bad(least int32) bool { return t.sent >= least && 4*t.lost > t.sent }

const (
	leastWindow = 16 << 10 // bytes: a few frames may always leave, as the measure needs some
	leastRound  = 16       // segments of a round from which a share of loss means something
	// Segments of the first rounds together from which the driver is told. It believes that for
	// ever.
	leastFirst = 64
	// A round trip this far above four times the least one is a queue's.
	standingQueue = 2 * time.Millisecond
	pacedFor      = 10 * 1000 * 1000 * 1000 // ns of pacing on a path that threw much away
	// ns after which the least round trip is measured anew: routes change.
	leastMemory = 10 * 1000 * 1000 * 1000
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

// loses notes that the segment with this packet counter is given up for lost. It counts for the
// round that posted it: otherwise a round that posts less than the one before could lose more
// than it ever sent. Losses of older rounds are not counted: those rounds have been judged. That
// leaves out at most two frames of a round, those whose loss only frames of the next round can
// show.
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

// judge ends the round if one of its segments was acknowledged. The caller has already noted the
// losses that the acknowledgement showed. next is the counter of the next frame. It returns true
// if the first rounds together lost more than a quarter.
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
		// At least the least window: if more is lost than the pace allows for, it would slow
		// down for ever.
		c.rate = max(float64(max(c.delivered, leastWindow))/float64(took), c.rate*7/8)
	}
	badStart = c.judgeFirst()
	c.before, c.round = c.round, round{from: next}
	c.ended, c.roundLeast, c.roundAt, c.delivered = false, 0, now, 0
	return badStart
}

// judgeFirst adds a round to the first ones, and reports whether they were bad. It judges them
// together, since a small round may lose a quarter by chance.
func (c *congestion) judgeFirst() (bad bool) {
	if c.before.sent < leastRound || c.rounds == limits.FirstRounds {
		return false
	}
	c.rounds++
	c.first.sent += c.before.sent
	c.first.lost += c.before.lost
	return c.first.bad(leastFirst)
}
