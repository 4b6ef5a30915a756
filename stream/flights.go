package stream

import (
	"context"
	"errors"

	"github.com/weftnet/weft"
)

// A message that the NIC does not copy keeps its own memory until the peer's NIC acknowledges it.
// Several messages of a stream are in flight at once:
//
//	0 ───────── ended ───────── begun
//	  acknowledged │  in flight   │
//
// No flight is withdrawn, because the later flights would arrive without it. If a flight fails, the
// stream fails. The sender of the stream, which is a Write or drain, starts flights and waits for
// them. The lock mu guards the counters ended and begun, so other goroutines can see how many
// flights there are.

const (
	pipeline    = 8       // largest number of messages of a stream in flight
	flyingBytes = 1 << 20 // largest number of bytes in flight, if SetWriteBuffer sets no other
)

// flight is one message in flight.
type flight struct {
	op   weft.Op
	head [headBytes]byte
	mem  []byte
}

// flights holds the messages of a stream in flight. It is a ring, whose messages have the numbers
// from ended to begun. It keeps the memory of ended flights for the next flights, until the stream
// is silent for a second.
type flights struct {
	of           [pipeline]flight
	begun, ended int
	bytes        int      // in flight
	spare        [][]byte // memory for the next flights; the last one is used first
}

// at returns flight i.
func (w *flights) at(i int) *flight { return &w.of[i%pipeline] }

// underWay returns the number of messages in flight.
func (c *Conn) underWay() int {
	if c.ops == nil {
		return 0
	}
	return c.ops.begun - c.ops.ended
}

// full reports whether n more bytes must wait until a flight ends.
func (c *Conn) full(n int) bool {
	under := c.underWay()
	return under == pipeline || under > 0 && c.ops.bytes+n > c.bound
}

// piece returns the length of the longest message, in bytes. Two such messages fit into the bound.
func (c *Conn) piece() int { return min(dataBytes, max(c.bound/2, leastBuffer)) }

// end removes the first flight and keeps its memory. The caller holds mu.
func (w *flights) end() {
	f := w.at(w.ended)
	w.ended++
	w.bytes -= len(f.mem)
	w.spare = append(w.spare, f.mem)
	f.mem = nil
}

// begin starts a flight with the bytes b, and returns their number. If b is the start of own, the
// flight takes the memory of own, and own becomes the memory that the flight had. Otherwise begin
// copies b. n is 0 if the process can start no more operations now.
func (c *Conn) begin(b []byte, own *[]byte) (n int, err error) {
	f := c.next()
	// If b fills only a small part of own, copy b: otherwise the flight would hold all the memory
	// of own.
	if own != nil && len(*own) > 0 && len(b) > len(*own)/4 && &b[0] == &(*own)[0] {
		f.mem, *own = b, f.mem[:cap(f.mem)]
	} else {
		f.mem = append(f.mem[:0], b...)
	}
	return c.start(f)
}

// next returns the flight to start next. The number of messages in flight must be below pipeline.
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

// start sends the bytes in the memory of f, which next returned, and returns their number. n is 0
// if the process can start no more operations now.
func (c *Conn) start(f *flight) (n int, err error) {
	err = c.h.port.Peer(c.remote.Process).StartSend(&f.op, tagOf(kindData, c.peerNumber),
		head(&f.head, c.number, c.sent), f.mem)
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
	// This follows the start of their message, because a later state tells the peer that they
	// were sent.
	c.sent += uint64(len(f.mem))
	return len(f.mem), nil
}

// land waits until the first flight ends, and returns its error.
func (c *Conn) land(ctx context.Context) error {
	c.h.pump.turn()
	c.mu.Lock()
	w := c.ops
	first := w.ended
	c.mu.Unlock()
	_, err := w.at(first).op.Wait(ctx)
	if err != nil && ctx.Err() != nil {
		return err // the message is still in flight
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.ended == first { // else another goroutine reaped it
		w.end()
	}
	return err
}

// reap removes the flights that have ended.
func (c *Conn) reap() {
	if c.underWay() == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reapLocked()
}

// reapLocked is reap for a caller that holds mu.
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

// oldest returns the first flight. It returns nil if there is none.
func (c *Conn) oldest() *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reapLocked(); c.underWay() == 0 {
		return nil
	}
	return c.ops.at(c.ops.ended)
}

// trim frees the memory of a silent stream. The caller holds mu.
func (c *Conn) trim() {
	if c.inWrite || c.draining || c.ops == nil {
		return
	}
	if c.reapLocked(); c.underWay() == 0 {
		c.ops, c.joined = nil, nil
	}
}
