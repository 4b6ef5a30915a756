package stream

// What comes in a long message, and no Read waits for, stays in the Inbox until the next message is taken in: the Reads that follow copy it from there,
// once. If something else is to come first, whatever takes that in has the stream keep the rest.
//
//	Inbox ──────────────────► Read
//	   └──► stream's buffer ────┘     the next message is taken in first

// lentBytes is the least that is worth it.
const lentBytes = 4 << 10

// lend adds bytes that lie in the Inbox. Under mu.
func (c *Conn) lend(b []byte) {
	if len(b) < lentBytes {
		c.in.write(b)
		return
	}
	c.lent = b
	c.h.pump.lender = c
}

// keep takes back what is lent. The goroutine that pumps calls it, before the Inbox has the memory again.
func (c *Conn) keep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepLocked()
}

func (c *Conn) keepLocked() {
	if len(c.lent) > 0 {
		c.in.write(c.lent)
	}
	c.lent = nil
}

// waiting is how many bytes wait to be read. Under mu.
func (c *Conn) waiting() int { return c.in.len() + len(c.lent) }

// readWaiting takes some of them. Under mu.
func (c *Conn) readWaiting(b []byte) (n int) {
	n = c.in.read(b)
	k := copy(b[n:], c.lent)
	c.lent = c.lent[k:]
	return n + k
}
