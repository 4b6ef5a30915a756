package capture

import (
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
)

// Caps implements link.Driver. It returns the capabilities of the driver below. Frames that use
// them are recorded as well.
func (c *Driver) Caps() link.Caps {
	caps := c.below
	if caps.Post != nil {
		caps.Post = c.post
	}
	if caps.PostLone != nil {
		caps.PostLone = c.postLone
	}
	if caps.ReserveRun != nil {
		caps.ReserveRun, caps.CommitRun = c.reserveRun, c.commitRun
	}
	if caps.Peek != nil {
		caps.Peek, caps.Pass = c.peek, c.pass
	}
	return caps
}

// post implements link.Caps.
func (c *Driver) post(now clock.Time, frame []byte) {
	c.now = now
	c.recordOut(c.clock(), frame)
	c.reserved = nil
	c.below.Post(now, frame)
}

// postLone implements link.Caps.
func (c *Driver) postLone(now clock.Time, to link.Addr, head *[6]uint64, body []byte) bool {
	c.now = now
	// The time is taken before the frame leaves, since its answer may arrive before the frame is
	// recorded.
	at := c.clock()
	if !c.below.PostLone(now, to, head, body) {
		return false
	}
	c.to = to
	c.recordOut(at, c.single[:link.PutLone(c.single, head, body)])
	return true
}

// reserveRun implements link.Caps.
func (c *Driver) reserveRun(to link.Addr, size, n int) []byte {
	c.reserved, c.to, c.size = c.below.ReserveRun(to, size, n), to, size
	return c.reserved
}

// commitRun implements link.Caps.
func (c *Driver) commitRun(n int) {
	at := c.clock()
	for range min(n, len(c.reserved)/max(c.size, 1)) {
		c.recordOut(at, c.reserved[:c.size])
		c.reserved = c.reserved[c.size:]
	}
	c.reserved = nil
	c.below.CommitRun(n)
}

// peek implements link.Caps. It records a frame at the first Peek, since an answer to it may
// leave before Pass.
func (c *Driver) peek(from link.Addr) []byte {
	b := c.below.Peek(from)
	if b == nil {
		return nil
	}
	if c.peeked = from; !slices.Contains(c.seen, from) {
		c.recordIn(c.clock(), from, b)
		c.seen = append(c.seen, from)
	}
	return b
}

// pass implements link.Caps.
func (c *Driver) pass(now clock.Time, n int) {
	c.now = now
	c.forget(c.peeked)
	c.below.Pass(now, n)
}

// forget reports whether the next frame from an address is already recorded, and clears
// that mark.
func (c *Driver) forget(from link.Addr) bool {
	i := slices.Index(c.seen, from)
	if i < 0 {
		return false
	}
	c.seen = slices.Delete(c.seen, i, i+1)
	return true
}
