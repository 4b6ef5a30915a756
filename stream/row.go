package stream

import "time"

// Short Writes that follow one another are joined where that delays none of them. The first leaves at once, by itself. One that comes soon behind
// another, with nothing heard from the peer in between, is one of a row: it is copied, and left to the NIC, which puts it into one frame with others that
// come before it looks. Where the NIC is behind, more are joined to messages (joined.go). So a thousand Writes are few frames, and one whose peer answers each
// never waits, as with TCP without Nagle's delay.
type row struct {
	heard uint32    // messages from the peer when the last short Write left; as many now: none since
	last  time.Time // when it left; zero: it was the first behind a message
}

// afterAnother is how soon behind a short Write another has to come to be of a row.
const afterAnother = 50 * time.Microsecond

// inRow reports whether the short Write that is about to leave is one of a row.
func (c *Conn) inRow() bool {
	c.mu.Lock()
	heard := c.heardSum
	c.mu.Unlock()
	r := &c.row
	if heard != r.heard {
		r.heard, r.last = heard, time.Time{}
		return false
	}
	now := c.h.p.Runtime().Now()
	last := r.last
	r.last = now
	return now.Sub(last) < afterAnother
}
