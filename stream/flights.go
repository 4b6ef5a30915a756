package stream

import (
	"context"
	"errors"

	"github.com/weftnet/weft"
)

// Messages of a stream that the NIC does not copy have memory of their own until they are acknowledged. Several are under way at a time:
//
//	0 ───── ended ───────── begun
//	   left   │   under way   │
//
// None of them is withdrawn: those behind it would come without it. One that fails fails the stream. The goroutine that sends for the stream, a
// Write or drain, begins them and waits for them; ended and begun are under mu, so that others see how many there are.

// pipeline is how many messages of one stream are under way at a time, at most, and flyingBytes how many bytes of them, if SetWriteBuffer says nothing else.
const (
	pipeline    = 8
	flyingBytes = 1 << 20
)

// flight is one of them.
type flight struct {
	op   weft.Op
	head [headBytes]byte
	mem  []byte
}

// flights are those under way, by their numbers. Memory is kept for the next ones, the last first, until the stream is silent.
type flights struct {
	of           [pipeline]flight
	begun, ended int
	bytes        int // under way
	spare        [][]byte
}

func (w *flights) at(i int) *flight { return &w.of[i%pipeline] }

// underWay is how many messages are.
func (c *Conn) underWay() int {
	if c.ops == nil {
		return 0
	}
	return c.ops.begun - c.ops.ended
}

// full reports whether n bytes more have to wait for some that are under way.
func (c *Conn) full(n int) bool {
	under := c.underWay()
	return under == pipeline || under > 0 && c.ops.bytes+n > c.bound
}

// piece is how long a message is, at most: two are under way at a time.
func (c *Conn) piece() int { return min(dataBytes, max(c.bound/2, leastBuffer)) }

// end notes that the first of them has left. Under mu.
func (w *flights) end() {
	f := w.at(w.ended)
	w.ended++
	w.bytes -= len(f.mem)
	w.spare = append(w.spare, f.mem)
	f.mem = nil
}

// begin has a copy of b begin, or b itself if it begins memory that is own: that is what the flight had then. n is 0 if the process can have no more
// operations under way.
func (c *Conn) begin(b []byte, own *[]byte) (n int, err error) {
	f := c.next()
	if own != nil && len(*own) > 0 && len(b) > len(*own)/4 && &b[0] == &(*own)[0] { // else most of the memory would wait with a little
		f.mem, *own = b, f.mem[:cap(f.mem)]
	} else {
		f.mem = append(f.mem[:0], b...)
	}
	return c.start(f)
}

// next is the flight that begins next; there must be less than pipeline.
func (c *Conn) next() *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ops == nil {
		c.ops = new(flights)
	}
	w := c.ops
	f := w.at(w.begun)
	if n := len(w.spare); f.mem == nil && n > 0 {
		f.mem, w.spare = w.spare[n-1], w.spare[:n-1]
	}
	return f
}

// start has what is in the memory of next begin.
func (c *Conn) start(f *flight) (n int, err error) {
	err = c.h.port.Peer(c.remote.Process).StartSend(&f.op, tagOf(kindData, c.peerNumber), head(&f.head, c.number, c.sent), f.mem)
	if errors.Is(err, weft.ErrQueueFull) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops.begun++
	c.ops.bytes += len(f.mem)
	c.sent += uint64(len(f.mem)) // behind the begin of their message, since what is sent next tells the peer of them
	return len(f.mem), nil
}

// land waits until the first message that is under way has left.
func (c *Conn) land(ctx context.Context) error {
	c.h.pump.turn()
	c.mu.Lock()
	w := c.ops
	first := w.ended
	c.mu.Unlock()
	_, err := w.at(first).op.Wait(ctx)
	if err != nil && ctx.Err() != nil {
		return err // it is still under way
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.ended == first { // else what looked meanwhile has ended it
		w.end()
	}
	return err
}

// reap notes which messages have left.
func (c *Conn) reap() {
	if c.underWay() == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reapLocked()
}

func (c *Conn) reapLocked() {
	for c.underWay() > 0 {
		_, done, err := c.ops.at(c.ops.ended).op.Test()
		if !done {
			return
		}
		c.ops.end()
		if err != nil {
			c.failLocked(failure(err), true)
		}
	}
}

// oldest is the first message that is under way; nil if none is.
func (c *Conn) oldest() *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reapLocked(); c.underWay() == 0 {
		return nil
	}
	return c.ops.at(c.ops.ended)
}

// trim lets go of memory that a stream on which nothing moves does not need. Under mu.
func (c *Conn) trim() {
	if c.inWrite || c.draining || c.ops == nil {
		return
	}
	if c.reapLocked(); c.underWay() == 0 {
		c.ops, c.joined = nil, nil
	}
}
