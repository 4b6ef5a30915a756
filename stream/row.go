package stream

import "time"

// Short Writes in quick succession share frames, and none of them is delayed. The first Write is
// sent at once. A Write belongs to a row if it soon follows another Write and the peer sent nothing
// in between. The NIC copies such a Write, and puts it into one frame with the other Writes that
// arrive before the NIC's next poll. So a thousand Writes need few frames. If the peer answers each
// Write, no Write waits, as with TCP without Nagle's delay.

// row is what a stream remembers of its last short Write.
type row struct {
	heard uint32    // messages received from the peer before that Write
	last  time.Time // time of that Write; zero if a message came between it and the one before
}

// afterAnother is the time within which the next Write of a row follows.
const afterAnother = 50 * time.Microsecond

// inRow reports whether the short Write that is about to be sent belongs to a row. It remembers the
// Write.
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
