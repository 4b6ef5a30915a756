package stream

import (
	"errors"
	"io"
	"net"

	"github.com/weftnet/weft"
)

// Received bytes of a stream that may wait for a Read.
const (
	readBuffer  = 1 << 20 // the default
	leastBuffer = 4 << 10
	mostBuffer  = 16 << 20
)

// Read copies received bytes to b and returns the number of copied bytes. Read waits until it can
// return at least one byte. If the peer called Close or CloseWrite, Read returns [io.EOF] after the
// last byte. Read fails with [os.ErrDeadlineExceeded] after the deadline of Read. Read fails with
// [net.ErrClosed] if this end or the process of this end is closed. Read fails with ECONNRESET or
// ETIMEDOUT if the stream has failed.
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

// waitToRead waits for a message. It pumps if no other call waits.
func (c *Conn) waitToRead() {
	c.mu.Lock()
	// If the stream ended after the Read checked it, no call would end the context.
	if c.state != stateOpen {
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

// come reports whether the waiting Read may return.
func (c *Conn) come() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got > 0 || c.state != stateOpen || c.finished
}

// count notes whether a Read waits for the runner. Its wait ends when its bytes arrive: then the
// next Read may pump.
func (c *Conn) count(waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.countLocked(waits && c.got == 0 && c.state == stateOpen && !c.finished)
}

// countLocked is count for a caller that holds mu and has checked that the wait is not over.
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

// readNow copies the waiting bytes to b. If there are none, the next received bytes go to b
// directly.
func (c *Conn) readNow(b []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == stateClosed {
		return 0, net.ErrClosed
	}
	late := c.late(c.readEnd)
	switch {
	case len(b) == 0: // also after a deadline, as with TCP
	case late != nil:
		err = late
	case c.waiting() > 0:
		n = c.readWaiting(b)
		c.took(n)
	case c.finished: // also if the stream failed later
		err = io.EOF
	case c.state == stateFailed:
		err = c.err
	default:
		c.want, c.got = b, 0
	}
	return n, err
}

// readWanted ends the wait for bytes, and returns the number of those that arrived in want.
func (c *Conn) readWanted() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, c.want, c.got = c.got, nil, 0
	if n > 0 {
		c.took(n)
	}
	if c.late(c.readEnd) != nil {
		c.stopReading() // the context ended; the next Read may have another deadline
	}
	return n
}

// took notes that n bytes were read. The caller holds mu.
func (c *Conn) took(n int) {
	c.taken += uint64(n)
	c.grant()
}

// grant extends the window of the peer when half of the buffer is free again. Such an extension is
// worth a message, and a fast peer never waits for it. The caller holds mu, and calls tellGranted
// afterwards.
func (c *Conn) grant() {
	if upTo := c.taken + c.buffer; upTo >= c.granted+c.buffer/2 && !c.finished && c.state == stateOpen {
		c.granted, c.untold = upTo, true
	}
}

// tellGranted sends the peer its new window, if there is one. The reading goroutine sends the
// window itself, because serve would run late if both share a processor. If the send cannot start
// at once, serve sends the window.
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

// telling is the last window message that a reader sent.
type telling struct {
	op   weft.Op
	body [stateBytes]byte
	on   bool // op was started
}

// send starts the next window message. It reports whether it could. The caller holds mu.
func (t *telling) send(c *Conn) bool {
	if t.on {
		if _, done, _ := t.op.Test(); !done {
			return false
		}
	}
	t.on = c.h.port.Peer(c.remote.Process).StartSend(&t.op, tagOf(kindWindow, c.peerNumber), c.tell(&t.body)) == nil
	return t.on
}

// WriteTo writes received bytes to w until io.EOF, and returns the number of bytes that w took. It
// implements [io.WriterTo], which [io.Copy] uses. WriteTo passes the stream's buffer to w, and so
// avoids a copy. While w writes these bytes, other goroutines may call Read to get the bytes after
// them. Bytes that w does not take stay in the stream. If w takes only a part of the bytes and
// returns no error, WriteTo fails with [io.ErrShortWrite].
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

// lift moves the waiting bytes to an empty ring. It reports whether there are any. The moved bytes
// still count against the peer's window.
func (c *Conn) lift(out *ring) (ok bool, err error) {
	if err := c.reading.Wait(c.h.ctx); err != nil {
		return false, c.h.gone()
	}
	defer c.reading.Open()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepLocked() // the Inbox may reuse lent memory during the write
	if c.in.len() == 0 || c.state == stateClosed || c.late(c.readEnd) != nil {
		return false, nil
	}
	c.in, *out = *out, c.in
	c.passing += out.len()
	return true, nil
}

// liftNext waits for the next bytes, and moves up to len(b) of them to an empty ring.
func (c *Conn) liftNext(out *ring, b []byte) error {
	n, err := c.Read(b)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	out.write(b[:n])
	c.taken -= uint64(n) // the writer may not take them
	c.passing += n
	return nil
}

// errWritten is the error of a writer that reports an impossible count.
var errWritten = errors.New("stream: a writer says that it has taken less than nothing, or more than it was given")

// pass writes the lifted bytes to w. If w fails or panics, or the stream is closed, pass returns
// the remaining bytes to the stream.
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

// giveBack returns the remaining lifted bytes to the stream.
func (c *Conn) giveBack(out *ring) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if left := out.len(); left > 0 {
		c.passing -= left
		c.putBack(out)
	}
}

// putBack puts bytes in front of those that wait. The caller holds mu.
func (c *Conn) putBack(out *ring) {
	for b := c.in.first(); len(b) > 0; b = c.in.first() {
		out.write(b)
		c.in.skip(len(b))
	}
	c.in, *out = *out, ring{}
	c.stopReading()
	c.readable.Open()
}
