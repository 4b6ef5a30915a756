package stream

// If no Read waits, the bytes of a long message stay in the Inbox. The next Reads copy them from
// there, once. If the pump takes the next message before these Reads, it copies the remaining bytes
// into the buffer of the stream.
//
//	Inbox ──────────────────► Read
//	   └──► stream's buffer ────┘     the next message came first

// lentBytes is the length from which lending is cheaper than a copy.
const lentBytes = 4 << 10

// lend adds bytes that lie in the Inbox, after all other bytes. The caller holds mu.
func (c *Conn) lend(b []byte) {
	if len(b) < lentBytes {
		c.in.write(b)
		return
	}
	c.lent = b
	c.h.pump.lender = c
}

// keep copies the lent bytes into the buffer. The pump calls it before the Inbox reuses the memory.
func (c *Conn) keep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepLocked()
}

// keepLocked is keep for a caller that holds mu.
func (c *Conn) keepLocked() {
	if len(c.lent) > 0 {
		c.in.write(c.lent)
	}
	c.lent = nil
}

// waiting returns the number of bytes that wait for a Read. The caller holds mu.
func (c *Conn) waiting() int { return c.in.len() + len(c.lent) }

// readWaiting moves waiting bytes to b, and returns their number. The caller holds mu.
func (c *Conn) readWaiting(b []byte) (n int) {
	n = c.in.read(b)
	k := copy(b[n:], c.lent)
	c.lent = c.lent[k:]
	return n + k
}
