package stream

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/weftnet/weft"
)

// Write sends b, and returns when b may be used again, as that of a TCP connection does: its bytes have left, or lie in a buffer of the
// stream. It waits while that is full, because the peer has no room or the NIC is behind. What a Write has taken and could not send fails the
// stream, and so a later Write. One that fails tells how much of b it has taken; the stream may go on behind that if a deadline ended it.
//
//	a short message, and nothing before it waits   leaves at once, from where it lies; one of a row (row.go) does as those below
//	else, one that the NIC copies at once          leaves, if nothing of the next kind is under way
//	else, while there is room in what is under way is copied, and leaves at once (flights.go)
//	else, if it is short                           is joined to what waits, which leaves when it can (joined.go)
//	else                                           waits
func (c *Conn) Write(b []byte) (sum int, err error) { return c.write(b, nil) }

// write is Write. own is memory of the stream, if b lies in such: what begins with it may leave from there, and own is other memory then.
func (c *Conn) write(b []byte, own *[]byte) (sum int, err error) {
	if err := c.writing.Wait(c.h.ctx); err != nil {
		return 0, c.opError("write", c.h.gone())
	}
	defer c.writing.Open()
	for {
		n, err := c.writeSome(b[sum:], own)
		if sum += n; err != nil || sum == len(b) {
			return sum, c.opError("write", err)
		}
	}
}

// ReadFrom implements [io.ReaderFrom]: it writes what r has until r ends, as Write does, and reads as much at a time as one message carries. io.Copy by itself reads
// 32 KiB, and each message costs the same; of a connection that brings less ReadFrom reads no more than that either. It returns how many bytes the stream has
// taken. A byte that r has given and the stream has not taken is lost to the caller.
func (c *Conn) ReadFrom(r io.Reader) (sum int64, err error) {
	_, waits := r.(interface{ SetReadDeadline(time.Time) error })
	most := dataBytes
	if waits {
		most = waitingBytes
	}
	var buf []byte
	defer func() { keepMem(buf) }()
	for {
		if len(buf) != most {
			keepMem(buf)
			buf = newMem(most)
		}
		n, err := r.Read(buf[:most])
		if n > 0 {
			taken, failed := c.write(buf[:n], &buf)
			if sum += int64(taken); failed != nil {
				return sum, failed
			}
		}
		switch {
		case err == io.EOF:
			return sum, nil
		case err != nil:
			return sum, err
		case n == most:
			most = dataBytes
		case waits && n < waitingBytes:
			most = waitingBytes
		}
	}
}

// waitingBytes is how much a ReadFrom reads at a time of a connection that may bring nothing for long: thousands of them wait in some processes.
const waitingBytes = 32 << 10

// writeSome takes the next step of a Write, and returns how many bytes of b it has taken; none if it has waited.
func (c *Conn) writeSome(b []byte, own *[]byte) (n int, err error) {
	ctx, room, draining, err := c.mayWrite(len(b))
	if err != nil || len(b) == 0 {
		return 0, err
	}
	switch {
	case draining:
		if n = c.join(b); n == 0 {
			c.waitToWrite()
		}
		return n, nil
	case len(b) <= copiedBytes && room == len(b) && !c.inRow():
		n, err = c.send(ctx, b)
	case c.handOver(b, room):
		n = len(b)
	default:
		n, err = c.launch(ctx, b, room, own)
	}
	c.wrote(err)
	return n, nil // why a Write ends, if it does, mayWrite says
}

// launch has bytes begin that are copied, or waits until some more may. Those of which there is no telling when are joined to others.
func (c *Conn) launch(ctx context.Context, b []byte, room int, own *[]byte) (n int, err error) {
	c.reap()
	if most := min(room, c.piece()); c.worth(most, len(b)) && !c.full(most) {
		if most < len(b) {
			own = nil // the rest lies there, too
		}
		if n, err = c.begin(b[:most], own); n > 0 || err != nil {
			return n, err // else the process may have no more sends under way
		}
	}
	switch {
	case len(b) <= joinedBytes:
		return c.startToJoin(b), nil
	case c.underWay() > 0:
		return 0, c.land(ctx)
	case room > 0: // others have all of them
		return c.send(ctx, b[:min(room, c.piece())])
	}
	c.waitForRoom(ctx)
	return 0, nil
}

// worth reports whether the first n of left bytes, for which the peer has room, should begin by themselves. While something is under way a part of a
// message waits until the peer has room for the whole: each is asked for and permitted, however short.
func (c *Conn) worth(n, left int) bool {
	return n > 0 && (n == min(left, c.piece()) || c.underWay() == 0)
}

// waitForRoom waits until the peer takes more, or something else has changed. As a Read does it takes in itself what comes, if no other call waits;
// not before the peer knows of the stream, for no message tells of that.
func (c *Conn) waitForRoom(ctx context.Context) {
	c.mu.Lock()
	told := c.told
	c.mu.Unlock()
	if !told || !c.h.pump.lead(ctx, c.hasRoom) {
		c.waitToWrite()
	}
}

// hasRoom reports whether a Write need not wait any more.
func (c *Conn) hasRoom() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.room() > 0 || c.state != stateOpen || c.unread
}

// waitToWrite waits until something has changed.
func (c *Conn) waitToWrite() {
	c.mu.Lock()
	end := c.writeEnd
	c.mu.Unlock()
	c.wait(c.writable, end)
}

// room is how many bytes the peer takes. Under mu.
func (c *Conn) room() uint64 {
	if !c.told {
		return 0
	}
	return c.window - min(c.window, c.sent)
}

// mayWrite returns how many of n bytes may be sent now, and the context of that. The caller is the one that sends, up to wrote, unless what waits is
// being sent by drain.
func (c *Conn) mayWrite(n int) (ctx context.Context, room int, draining bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := c.late(c.writeEnd)
	switch {
	case c.state == stateClosed:
		return nil, 0, false, net.ErrClosed
	case late != nil: // also of a stream that has failed, as of a TCP connection
		return nil, 0, false, late
	case c.state == stateFailed:
		return nil, 0, false, c.err
	case c.ended || c.unread:
		return nil, 0, false, syscall.EPIPE
	}
	if c.draining || n == 0 {
		return nil, 0, c.draining, nil
	}
	if c.sendCtx == nil {
		c.sendCtx, c.stopSend = c.within(c.writeEnd)
	}
	c.inWrite, c.bound = true, c.flying
	return c.sendCtx, int(min(uint64(n), c.room())), false, nil
}

// within is a context that ends at a deadline, if there is one, or with the process.
func (c *Conn) within(end time.Time) (context.Context, context.CancelFunc) {
	if end.IsZero() {
		return context.WithCancel(c.h.ctx)
	}
	return c.h.p.Runtime().WithTimeout(c.h.ctx, end.Sub(c.h.p.Runtime().Now()))
}

// send sends the bytes of one message, for which there is room, from where they lie, and returns how many it has taken. A message that ctx ends is
// withdrawn, and may come nevertheless. So its bytes are the stream's, and are sent again: others in their place could be taken for them.
func (c *Conn) send(ctx context.Context, b []byte) (taken int, err error) {
	err = c.h.port.Send(ctx, c.remote.Process, tagOf(kindData, c.peerNumber), head(&c.first, c.number, c.sent), b)
	switch {
	case err == nil:
		c.mu.Lock()
		c.sent += uint64(len(b))
		c.mu.Unlock()
		taken = len(b)
	case ctx.Err() != nil:
		taken = c.resend(b)
	}
	return taken, err
}

// handOver sends the bytes of one message of some kilobytes, for which there is room, if the NIC takes a copy at once and no message of the stream's own
// memory is under way, and reports whether it did. Where the NIC does not, a send would wait until the peer has acknowledged them all.
func (c *Conn) handOver(b []byte, room int) bool {
	if len(b) <= copiedBytes || len(b) > keptBytes || room < len(b) {
		return false
	}
	c.reap()
	if c.underWay() > 0 || c.inRow() || !c.h.port.Peer(c.remote.Process).TrySend(tagOf(kindData, c.peerNumber), head(&c.first, c.number, c.sent), b) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent += uint64(len(b))
	return true
}

// wrote ends a step of a Write, and judges its error.
func (c *Conn) wrote(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inWrite = false
	switch {
	case c.state == stateClosed && c.err == nil && !c.draining: // by a Close that has left it to this Write to tell the peer
		c.oweLocked(dutyClose)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		c.interrupt() // its deadline has moved, or has passed, or the direction has ended
	case err != nil:
		c.failLocked(failure(err), true)
	}
	if c.state == stateOpen && c.ended && !c.draining { // by a CloseWrite, likewise
		c.oweLocked(dutyFin)
	}
}

// failure is an error of the fabric in the words of package net.
func failure(err error) error {
	switch {
	case errors.Is(err, weft.ErrClosed), errors.Is(err, weft.ErrNICGone):
		return because(net.ErrClosed, err)
	}
	return because(syscall.ECONNRESET, err)
}
