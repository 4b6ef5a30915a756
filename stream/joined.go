package stream

import (
	"context"
	"time"

	"github.com/weftnet/weft"
)

// A short Write cannot be sent now if the peer has no room or too much is in flight. It then joins
// other Writes and returns at once. The joined bytes are sent as one message as soon as possible.
// TCP does the same with Writes that its window holds up. No byte waits only to be joined.
//
//	Write ──► joined ──► drain ──► flights ──► NIC
//	   Write ──┘            a goroutine, which ends when no byte waits
//
// While drain runs, it is the only sender of the stream. It then also tells the peer of the end,
// after the last byte, on behalf of Close and CloseWrite.

const (
	copiedBytes = 2<<10 - headBytes  // every NIC copies it, so its memory is free at once
	keptBytes   = 16<<10 - headBytes // an embedded NIC copies it if it can do so at once
	joinedBytes = 16 << 10           // the longest Write that is joined; a longer one waits
	mostJoined  = 64 << 10           // largest number of joined bytes of a stream
)

const (
	lingers    = time.Minute            // time for which a closed stream keeps its unsent bytes
	closeWaits = 250 * time.Millisecond // time for which Close waits for unsent bytes
)

// startToJoin starts drain with the bytes b and returns their number. It returns 0 if the stream
// ended meanwhile: Close then expects no drain.
func (c *Conn) startToJoin(b []byte) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.usable() != nil {
		return 0
	}
	return c.startToDrain(b)
}

// resend starts drain with bytes that may or may not have been sent, and returns their number. It
// starts drain even if the stream was closed meanwhile, because Close then waits for the Write. It
// returns 0 if the stream failed.
func (c *Conn) resend(b []byte) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || c.h.ctx.Err() != nil {
		return 0
	}
	return c.startToDrain(b)
}

// startToDrain starts drain with the bytes b. The caller holds mu.
func (c *Conn) startToDrain(b []byte) (n int) {
	c.joined = append(c.joined[:0], b...)
	if c.drainable == nil {
		c.drainable, c.drained = c.h.p.Runtime().NewGate(), c.h.p.Runtime().NewGate()
	}
	ctx, stop := context.WithCancel(c.h.ctx)
	c.draining, c.stopDraining = true, stop
	c.h.p.Runtime().Go(func() { c.drain(ctx) })
	return len(b)
}

// join appends bytes of b to the waiting bytes, up to the bound, and returns the number of appended
// bytes.
func (c *Conn) join(b []byte) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.draining {
		return 0
	}
	// Bytes that are sent again may exceed the bound.
	n = min(len(b), max(min(mostJoined, c.flying)-len(c.joined), 0))
	c.joined = append(c.joined, b[:n]...)
	return n
}

// drain sends the joined bytes until none is left. ctx ends when the stream fails.
func (c *Conn) drain(ctx context.Context) {
	for c.mayDrain() {
		if err := c.drainSome(ctx); err != nil {
			c.fail(failure(err), true)
		}
	}
	if c.isClosed() {
		c.h.forget(c)
	}
}

// isClosed reports whether Close was called.
func (c *Conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state == stateClosed
}

// mayDrain reports whether bytes wait to be sent. If none do, or the stream failed, it ends
// draining.
func (c *Conn) mayDrain() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bound = c.flying
	if c.err == nil && len(c.joined) > 0 && c.h.ctx.Err() == nil {
		return true
	}
	c.draining, c.joined = false, c.joined[:0]
	c.stopDraining()
	switch {
	case c.err != nil:
	case c.state == stateClosed:
		c.oweLocked(dutyClose)
	case c.ended:
		c.oweLocked(dutyFin)
	}
	c.writable.Open()
	c.drained.Open()
	return false
}

// drainSome starts one more message, or waits until it can start one.
func (c *Conn) drainSome(ctx context.Context) error {
	c.reap()
	if c.full(mostJoined) {
		return c.land(ctx)
	}
	f := c.next()
	if !c.gather(f) {
		if c.isClosed() && c.underWay() > 0 {
			err := c.land(ctx)
			c.drained.Open()
			return err
		}
		c.drained.Open()
		c.h.pump.await(1)
		defer c.h.pump.await(-1)
		_ = c.drainable.Wait(ctx)
		return nil
	}
	for {
		if n, err := c.start(f); n > 0 || err != nil {
			return err
		}
		if c.underWay() == 0 { // other streams use every send of the process
			_, err := c.send(ctx, f.mem)
			return err
		}
		if err := c.land(ctx); err != nil {
			return err
		}
	}
}

// gather moves the joined bytes that may be sent now to the memory of f. It reports whether there
// are any.
func (c *Conn) gather(f *flight) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := int(min(uint64(len(c.joined)), c.room()))
	if n == len(c.joined) {
		f.mem, c.joined = c.joined, f.mem[:0]
	} else {
		f.mem = append(f.mem[:0], c.joined[:n]...)
		c.joined = append(c.joined[:0], c.joined[n:]...)
	}
	if n > 0 {
		c.writable.Open()
	}
	return n > 0
}

// linger waits at most closeWaits until the bytes of a closed stream are sent. If the process ended
// right after Close, it would lose these bytes. linger does not wait for a peer that has no room.
// While drain runs, drain waits for the flights, since it may start new flights in their memory.
func (c *Conn) linger() {
	ctx, cancel := c.h.p.Runtime().WithTimeout(c.h.ctx, closeWaits)
	defer cancel()
	if c.writing.Wait(ctx) != nil {
		return
	}
	defer c.writing.Open()
	for c.mustDrain() {
		if c.drained.Wait(ctx) != nil {
			return
		}
	}
	if c.drains() {
		return
	}
	for f := c.oldest(); f != nil && ctx.Err() == nil; f = c.oldest() {
		_, _ = f.op.Wait(ctx)
	}
}

// leave waits at most closeWaits until the NIC has the last message of an ended stream. If the
// process ended at once, it would lose this message. leave does not wait behind other messages to a
// peer whose NIC is silent.
func (c *Conn) leave() {
	ctx, cancel := c.h.p.Runtime().WithTimeout(c.h.ctx, closeWaits)
	defer cancel()
	if left := c.leaving(); left != nil {
		_ = left.Wait(ctx)
		left.Open() // for the next waiter
	}
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	if last != nil {
		_, _ = last.Wait(ctx)
	}
}

// leaving returns the gate that opens when the owed messages have started. It returns nil if no
// messages are owed, or if they wait behind others.
func (c *Conn) leaving() *weft.Gate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.owed || c.behind {
		return nil
	}
	if c.left == nil {
		c.left = c.h.p.Runtime().NewGate()
	}
	return c.left
}

// leftLocked ends the wait of leave. The caller holds mu.
func (c *Conn) leftLocked() {
	if c.left != nil {
		c.left.Open()
	}
}

// held notes that the owed messages of the stream wait behind others.
func (c *Conn) held() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owed {
		c.behind = true
		c.leftLocked()
	}
}

// drains reports whether drain is the sender.
func (c *Conn) drains() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining
}

// mustDrain reports whether drain has messages in flight, or bytes that may be sent now.
func (c *Conn) mustDrain() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining && c.err == nil && (c.room() > 0 || c.underWay() > 0)
}
