package stream

import (
	"context"
	"time"

	"github.com/weftnet/weft"
)

// Short Writes for which there is no room, at the peer or in what is under way, are joined, as TCP joins those that its window holds up: they
// return at once, and what has gathered leaves as one message as soon as it may. Nothing is held back to be joined.
//
//	Write ──► joined ──► drain ──► flights ──► NIC
//	   Write ──┘            a goroutine, as long as there is something
//
// While drain runs it is the one that sends for the stream. A Close, or CloseWrite, leaves it to drain to tell the peer, behind the last byte.

const (
	copiedBytes = 2<<10 - headBytes  // what any NIC copies, so that its memory is free at once
	keptBytes   = 16<<10 - headBytes // what an embedded one copies, if it can at once
	joinedBytes = 16 << 10           // the longest Write that is joined to others; longer ones wait
	mostJoined  = 64 << 10           // bytes that wait, at most
)

// Closed streams that have something left wait for their peers to take it: lingers is for how long in all, and closeWaits for how long Close does.
const (
	lingers    = time.Minute
	closeWaits = 250 * time.Millisecond
)

// startToJoin has b wait, which is the first to do so, and returns how many bytes it has taken: none if the stream has ended meanwhile, since Close has
// then left nothing to drain.
func (c *Conn) startToJoin(b []byte) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.usable() != nil {
		return 0
	}
	return c.startToDrain(b)
}

// resend has b wait, which may have been sent and may not. A stream that was closed meanwhile, which is why, drains it nevertheless: its Close waits for
// the Write. None is taken if the stream has failed.
func (c *Conn) resend(b []byte) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || c.h.ctx.Err() != nil {
		return 0
	}
	return c.startToDrain(b)
}

// startToDrain has drain begin with b. Under mu.
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

// join has bytes of b wait, as many as there is room for.
func (c *Conn) join(b []byte) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.draining {
		return 0
	}
	n = min(len(b), max(min(mostJoined, c.flying)-len(c.joined), 0)) // what is sent again may be longer
	c.joined = append(c.joined, b[:n]...)
	return n
}

// drain sends what waits, until nothing does. ctx ends when the stream has failed.
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

func (c *Conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state == stateClosed
}

// mayDrain reports whether something waits; else draining ends: all has begun, or the stream has failed.
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

// drainSome has one more message begin, or waits until the peer has room for it.
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
		if c.underWay() == 0 { // others have all the sends under way that the process may have
			_, err := c.send(ctx, f.mem)
			return err
		}
		if err := c.land(ctx); err != nil {
			return err
		}
	}
}

// gather puts what waits and may leave into the memory of a flight, and reports whether there is anything.
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

// linger waits a moment, when the stream is closed, until what it has to send has left: a process that ends with its streams would take that along.
// It does not wait for a peer that has no room. What is under way is drain's to wait for while that runs, which may begin more in its memory.
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

// leave waits a moment, when the stream has ended, until the NIC has what the peer is to be told of that: a process that ends takes along what it has not. It
// does not wait behind other messages to a peer whose NIC is silent.
func (c *Conn) leave() {
	ctx, cancel := c.h.p.Runtime().WithTimeout(c.h.ctx, closeWaits)
	defer cancel()
	if left := c.leaving(); left != nil {
		_ = left.Wait(ctx)
		left.Open() // another may wait as well
	}
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	if last != nil {
		_, _ = last.Wait(ctx)
	}
}

// leaving is where to wait until what is owed has begun; nil if nothing is, or it waits behind others.
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

// leftLocked ends the wait of leave. Under mu.
func (c *Conn) leftLocked() {
	if c.left != nil {
		c.left.Open()
	}
}

// held notes that what the stream owes its peer waits behind others.
func (c *Conn) held() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owed {
		c.behind = true
		c.leftLocked()
	}
}

// drains reports whether drain is the one that sends.
func (c *Conn) drains() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining
}

// mustDrain reports whether something waits that may leave, or is under way before it.
func (c *Conn) mustDrain() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining && c.err == nil && (c.room() > 0 || c.underWay() > 0)
}
