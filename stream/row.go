package stream

import "time"

// Short Writes in quick succession share frames, without a delay for any of them. The first one
// leaves at once. A Write belongs to a row if it follows another one soon, and the peer sent
// nothing in between. The NIC copies it, and puts it into one frame with the others that arrive
// before its next poll. So a thousand Writes need few frames, and a Write whose peer answers each
// one never waits, as with TCP without Nagle's delay.

// row is what a stream remembers of its last short Write.
type row struct {
	heard uint32    // messages received from the peer before that Write
	last  time.Time // the time of that Write; zero if the peer had sent a message since the one before
}

// afterAnother is the time within which the next Write of a row follows.
const afterAnother = 50 * time.Microsecond

// inRow reports whether the short Write that is about to leave belongs to a row, and remembers it.
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
