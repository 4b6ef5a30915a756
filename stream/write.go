package stream

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/weftnet/weft"
)

// Write sends b, and returns when b may be used again. It waits while the peer has no room. A Write that fails tells how much of b has been
// sent; the stream may go on behind that if a deadline ended it.
func (c *Conn) Write(b []byte) (sum int, err error) {
	if err := c.writing.Wait(c.h.ctx); err != nil {
		return 0, c.opError("write", c.h.gone())
	}
	defer c.writing.Open()
	if len(b) > dataBytes {
		sum, err = c.writeLong(b)
		return sum, c.opError("write", err)
	}
	for {
		ctx, n, err := c.mayWrite(len(b) - sum)
		if err != nil {
			return sum, c.opError("write", err)
		}
		if n > 0 {
			n, err = c.send(ctx, b[sum:sum+n])
			c.wrote(n, err)
			sum += n
		} else if sum < len(b) {
			c.waitForRoom()
		}
		if sum == len(b) {
			return sum, nil
		}
	}
}

// waitForRoom waits until the peer takes more, or something else has changed.
func (c *Conn) waitForRoom() {
	c.mu.Lock()
	end := c.writeEnd
	c.mu.Unlock()
	c.wait(c.writable, end)
}

// room is how many bytes the peer takes. Under mu.
func (c *Conn) room() uint64 {
	most := c.window
	if c.flying > 0 { // of the peer's buffer; less than the half that it waits for would end everything
		most = min(most, most-c.window0+max(c.flying, c.window0/2))
	}
	return most - min(most, c.sent)
}

// mayWrite returns how many of n bytes may be sent now, and the context of that.
func (c *Conn) mayWrite(n int) (context.Context, int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usable(); err != nil {
		return nil, 0, err
	}
	if err := c.late(c.writeEnd); err != nil {
		return nil, 0, err
	}
	if c.ended || c.unread {
		return nil, 0, syscall.EPIPE
	}
	if n = int(min(uint64(n), c.room())); !c.told {
		n = 0
	}
	if c.sendCtx == nil {
		c.sendCtx, c.stopSend = c.within(c.writeEnd)
	}
	c.inWrite = c.inWrite || n > 0
	return c.sendCtx, n, nil
}

// within is a context that ends at a deadline, if there is one, or with the process.
func (c *Conn) within(end time.Time) (context.Context, context.CancelFunc) {
	if end.IsZero() {
		return context.WithCancel(c.h.ctx)
	}
	return c.h.p.WithTimeout(c.h.ctx, end.Sub(c.h.p.Now()))
}

// send sends the bytes of one message, for which there is room, and returns how many have left.
func (c *Conn) send(ctx context.Context, b []byte) (sent int, err error) {
	if err := c.h.port.Send(ctx, c.remote.Process, tagOf(kindData, c.peerNumber), head(&c.first, c.number, c.sent), b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// wrote notes how much of a Write has left, and what an error means.
func (c *Conn) wrote(n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent += uint64(n)
	c.inWrite = false
	switch {
	case c.state == stateClosed: // by a Close that has left it to this Write to tell the peer
		c.oweLocked(dutyClose)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		c.interrupt() // its deadline has moved, or has passed: what was not sent was withdrawn
	case err != nil:
		c.failLocked(failure(err), true)
	}
}

// failure is an error of the fabric in the words of package net.
func failure(err error) error {
	switch {
	case errors.Is(err, weft.ErrClosed), errors.Is(err, weft.ErrNICGone):
		return errors.Join(net.ErrClosed, err)
	}
	return errors.Join(syscall.ECONNRESET, err)
}
