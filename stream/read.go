package stream

import (
	"errors"
	"io"
	"net"

	"github.com/weftnet/weft"
)

// Bytes that may wait to be read.
const (
	readBuffer  = 1 << 20
	leastBuffer = 4 << 10
	mostBuffer  = 16 << 20
)

// Read reads what has come, and waits if nothing has. Behind the last byte of a peer that has ended its direction it returns [io.EOF].
func (c *Conn) Read(b []byte) (int, error) {
	if err := c.reading.Wait(c.h.ctx); err != nil {
		return 0, c.opError("read", c.h.gone())
	}
	defer c.reading.Open()
	for {
		n, err := c.readNow(b)
		c.tellGranted()
		if n > 0 || err != nil || len(b) == 0 {
			return n, c.opError("read", err)
		}
		c.waitToRead()
		if n := c.readWanted(); n > 0 {
			c.tellGranted()
			return n, nil
		}
	}
}

// waitToRead waits for something to come, by taking it in itself if no other call waits.
func (c *Conn) waitToRead() {
	c.mu.Lock()
	if c.state != stateOpen { // it has ended since the Read looked, so that nothing would end the context
		c.mu.Unlock()
		return
	}
	if c.leadCtx == nil {
		c.leadCtx, c.stopLead = c.within(c.readEnd)
	}
	ctx := c.leadCtx
	c.mu.Unlock()
	if c.h.pump.lead(ctx, c.come) {
		return
	}
	c.count(true)
	_ = c.readable.Wait(ctx)
	c.count(false)
}

// come reports whether there is something for the Read that waits.
func (c *Conn) come() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got > 0 || c.state != stateOpen || c.finished
}

// count notes whether a Read waits for another to take in what comes. It does not from when that has come: the next Read may do it.
func (c *Conn) count(waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.countLocked(waits && c.got == 0 && c.state == stateOpen && !c.finished)
}

func (c *Conn) countLocked(waits bool) {
	if waits != c.counted {
		c.counted = waits
		n := -1
		if waits {
			n = 1
		}
		c.h.pump.awaitRead(n)
	}
}

// readNow reads what there is; of nothing it leaves word where the next bytes are wanted.
func (c *Conn) readNow(b []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == stateClosed {
		return 0, net.ErrClosed
	}
	late := c.late(c.readEnd)
	switch {
	case len(b) == 0: // also behind a deadline, as of a TCP connection
	case late != nil:
		err = late
	case c.waiting() > 0:
		n = c.readWaiting(b)
		c.took(n)
	case c.finished: // also if the stream has failed since then
		err = io.EOF
	case c.state == stateFailed:
		err = c.err
	default:
		c.want, c.got = b, 0
	}
	return n, err
}

// readWanted ends the wait for bytes, and returns how many have come.
func (c *Conn) readWanted() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, c.want, c.got = c.got, nil, 0
	if n > 0 {
		c.took(n)
	}
	if c.late(c.readEnd) != nil {
		c.stopReading() // its context has ended; there may be another deadline
	}
	return n
}

// took notes that bytes were read. Under mu.
func (c *Conn) took(n int) {
	c.taken += uint64(n)
	c.grant()
}

// grant has the peer told of more room if that is worth a message: once a half of the buffer, which so never runs dry where the peer is quick.
// tellGranted must follow.
func (c *Conn) grant() {
	if upTo := c.taken + c.buffer; upTo >= c.granted+c.buffer/2 && !c.finished && c.state == stateOpen {
		c.granted, c.untold = upTo, true
	}
}

// tellGranted tells the peer of more room, if it does not know of it. The goroutine that reads does that itself: one that would have to be woken for
// it comes late where both share a processor. If it cannot at once, it leaves it to serve.
func (c *Conn) tellGranted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.untold {
		return
	}
	c.untold = false
	if c.telling == nil {
		c.telling = new(telling)
	}
	if c.state == stateOpen && (!c.told || !c.telling.send(c)) {
		c.oweLocked(dutyWindow)
	}
}

// telling is the last message by which a reader has told of room.
type telling struct {
	op   weft.Op
	body [stateBytes]byte
	on   bool
}

// send begins the next, and reports whether it could. Under mu.
func (t *telling) send(c *Conn) bool {
	if t.on {
		if _, done, _ := t.op.Test(); !done {
			return false
		}
	}
	t.on = c.h.port.Peer(c.remote.Process).StartSend(&t.op, tagOf(kindWindow, c.peerNumber), c.tell(&t.body)) == nil
	return t.on
}

// WriteTo implements [io.WriterTo]: what has come is written from where it lies. While w takes it others may read on behind that. What w does not take is read
// next; if w gives no reason for that, the error is [io.ErrShortWrite].
func (c *Conn) WriteTo(w io.Writer) (sum int64, err error) {
	var first [leastRing]byte
	var out ring
	for {
		ok, err := c.lift(&out)
		if err != nil {
			return sum, c.opError("read", err)
		}
		if !ok {
			switch err := c.liftNext(&out, first[:]); {
			case err == io.EOF:
				return sum, nil
			case err != nil:
				return sum, err
			}
		}
		n, err := c.pass(w, &out)
		if sum += int64(n); err != nil {
			return sum, err
		}
	}
}

// lift moves what waits to be read to an empty ring, and reports whether there is anything. What it moves has not been taken yet, as the peer sees it.
func (c *Conn) lift(out *ring) (ok bool, err error) {
	if err := c.reading.Wait(c.h.ctx); err != nil {
		return false, c.h.gone()
	}
	defer c.reading.Open()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepLocked() // what is lent may be taken back while it is written
	if c.in.len() == 0 || c.state == stateClosed || c.late(c.readEnd) != nil {
		return false, nil
	}
	c.in, *out = *out, c.in
	c.passing += out.len()
	return true, nil
}

// liftNext waits for what comes next, and moves as much of it to an empty ring as there is room for in b.
func (c *Conn) liftNext(out *ring, b []byte) error {
	n, err := c.Read(b)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	out.write(b[:n])
	c.taken -= uint64(n) // the writer may not take it
	c.passing += n
	return nil
}

// errWritten is that of a writer that says to have taken what it cannot have.
var errWritten = errors.New("stream: a writer says that it has taken less than nothing, or more than it was given")

// pass writes what was lifted. If w fails, or panics, or the stream is closed, the rest waits again to be read.
func (c *Conn) pass(w io.Writer, out *ring) (sum int, err error) {
	defer c.giveBack(out)
	for closed := false; err == nil && !closed && out.len() > 0; {
		b := out.first()
		var n int
		n, err = w.Write(b)
		switch {
		case n < 0 || n > len(b):
			n, err = 0, errWritten
		case n < len(b) && err == nil:
			err = io.ErrShortWrite
		}
		sum += n
		c.mu.Lock()
		out.skip(n)
		c.passing -= n
		c.took(n)
		closed = c.state == stateClosed
		c.mu.Unlock()
		c.tellGranted()
	}
	return sum, err
}

// giveBack has what is left of what was lifted wait again to be read.
func (c *Conn) giveBack(out *ring) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if left := out.len(); left > 0 {
		c.passing -= left
		c.putBack(out)
	}
}

// putBack has bytes wait before those that do. Under mu.
func (c *Conn) putBack(out *ring) {
	for b := c.in.first(); len(b) > 0; b = c.in.first() {
		out.write(b)
		c.in.skip(len(b))
	}
	c.in, *out = *out, ring{}
	c.stopReading()
	c.readable.Open()
}
