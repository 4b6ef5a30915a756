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

// The ways of a Write, in the order in which it tries them:
//
//	drain runs                                   join the bytes that wait
//	up to 2 KiB, room, not in a row              send from the caller's memory
//	up to 16 KiB, room, no flight, not in a row  send from the caller's memory, if the NIC copies
//	room, and a flight is free                   copy to a flight and start it
//	up to 16 KiB                                 start drain
//	otherwise                                    wait

// Write sends b and returns the number of bytes that the stream took. As with TCP, Write returns
// when the stream has sent or copied the bytes, so the caller may then reuse b. If the stream's
// buffer is full, Write waits. The buffer becomes full if the peer has no room or if the NIC is
// busy.
//
// If Write returns an error and the number n, the stream sends exactly the first n bytes of b.
// Write fails with [os.ErrDeadlineExceeded] after the deadline of Write, and the stream remains
// usable. Write fails with EPIPE after CloseWrite at this end or Close at the peer. Write fails
// with [net.ErrClosed] if this end or the process of this end is closed. Write fails with
// ECONNRESET or ETIMEDOUT if the stream has failed.
func (c *Conn) Write(b []byte) (sum int, err error) { return c.write(b, nil) }

// write implements Write. If own is not nil, b lies in *own. A flight may then take that memory,
// and write sets *own to other memory.
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

// ReadFrom reads r until io.EOF and sends the bytes. ReadFrom returns the number of bytes that the
// stream took. It implements [io.ReaderFrom], which [io.Copy] uses. ReadFrom reads up to 512 KiB at
// once, which is the length of the longest message. ReadFrom does not copy the bytes of a full
// message. If r is a connection, ReadFrom reads up to 32 KiB at once, and reads more at once only
// while each read returns at least 32 KiB. If ReadFrom fails, the bytes that it has read from r are
// lost, except the bytes that the stream took.
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

// waitingBytes is the buffer size of a ReadFrom from a connection. The connection may be silent for
// a long time, and some processes have thousands of connections.
const waitingBytes = 32 << 10

// writeSome does the next step of a Write, and returns the number of bytes of b that it took. The
// number is 0 if it waited.
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
	return n, nil // mayWrite returns the error that ends the Write, if any
}

// launch starts a flight with bytes of b. If it cannot, it starts drain with a short b, or waits.
func (c *Conn) launch(ctx context.Context, b []byte, room int, own *[]byte) (n int, err error) {
	c.reap()
	if most := min(room, c.piece()); c.worth(most, len(b)) && !c.full(most) {
		if most < len(b) {
			own = nil // the rest of b needs that memory
		}
		if n, err = c.begin(b[:most], own); n > 0 || err != nil {
			return n, err // else the process can start no more sends now
		}
	}
	switch {
	case len(b) <= joinedBytes:
		return c.startToJoin(b), nil
	case c.underWay() > 0:
		return 0, c.land(ctx)
	case room > 0: // other streams use every send of the process
		return c.send(ctx, b[:min(room, c.piece())])
	}
	c.waitForRoom(ctx)
	return 0, nil
}

// worth reports whether the first n of left bytes should be sent as a separate message; the peer
// has room for them. While another message is in flight, a part of a message waits until the peer
// has room for the whole message, since each message costs the peer a permission, however short it
// is.
func (c *Conn) worth(n, left int) bool {
	return n > 0 && (n == min(left, c.piece()) || c.underWay() == 0)
}

// waitForRoom waits until the peer has room, or the state of the stream changes. Like a Read, it
// pumps if no other call waits. It does not pump before the peer knows the stream, since no
// received message reports that.
func (c *Conn) waitForRoom(ctx context.Context) {
	c.mu.Lock()
	told := c.told
	c.mu.Unlock()
	if !told || !c.h.pump.lead(ctx, c.hasRoom) {
		c.waitToWrite()
	}
}

// hasRoom reports whether a Write may continue.
func (c *Conn) hasRoom() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.room() > 0 || c.state != stateOpen || c.unread
}

// waitToWrite waits until the state of the stream changes or the deadline passes.
func (c *Conn) waitToWrite() {
	c.mu.Lock()
	end := c.writeEnd
	c.mu.Unlock()
	c.wait(c.writable, end)
}

// room returns the number of bytes that the peer accepts now. The caller holds mu.
func (c *Conn) room() uint64 {
	if !c.told {
		return 0
	}
	return c.window - min(c.window, c.sent)
}

// mayWrite returns the number of bytes, out of n, that may be sent now, and the context for sending
// them. If draining is true, drain is the sender. Otherwise the caller is the sender until it calls
// wrote.
func (c *Conn) mayWrite(n int) (ctx context.Context, room int, draining bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := c.late(c.writeEnd)
	switch {
	case c.state == stateClosed:
		return nil, 0, false, net.ErrClosed
	case late != nil: // also if the stream failed, as with TCP
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

// within returns a context that ends with the process, and at the deadline end if that is not zero.
func (c *Conn) within(end time.Time) (context.Context, context.CancelFunc) {
	if end.IsZero() {
		return context.WithCancel(c.h.ctx)
	}
	return c.h.p.Runtime().WithTimeout(c.h.ctx, end.Sub(c.h.p.Runtime().Now()))
}

// send sends one message from the caller's memory, and returns the number of bytes that it took.
// The peer must have room for the message. If ctx ends, the NIC withdraws the message, which may
// arrive nevertheless. The stream must then send the same bytes again: otherwise the peer would
// take other bytes for those at this offset.
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

// handOver sends one message of up to keptBytes if there is no flight and the NIC copies it at
// once. It reports whether it sent the message. Without the copy, a send would wait for the
// acknowledgement of all its bytes.
func (c *Conn) handOver(b []byte, room int) bool {
	if len(b) <= copiedBytes || len(b) > keptBytes || room < len(b) {
		return false
	}
	c.reap()
	if c.underWay() > 0 || c.inRow() || !c.h.port.Peer(c.remote.Process).TrySend(tagOf(kindData, c.peerNumber),
		head(&c.first, c.number, c.sent), b) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent += uint64(len(b))
	return true
}

// wrote ends a step of a Write, and handles its error.
func (c *Conn) wrote(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inWrite = false
	switch {
	// Close left it to this Write to tell the peer.
	case c.state == stateClosed && c.err == nil && !c.draining:
		c.oweLocked(dutyClose)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		c.interrupt() // the deadline moved or passed, or the direction ended
	case err != nil:
		c.failLocked(failure(err), true)
	}
	if c.state == stateOpen && c.ended && !c.draining { // CloseWrite left it to this Write, too
		c.oweLocked(dutyFin)
	}
}

// failure returns the error of package net or syscall for an error of the fabric.
func failure(err error) error {
	switch {
	case errors.Is(err, weft.ErrClosed), errors.Is(err, weft.ErrNICGone):
		return because(net.ErrClosed, err)
	}
	return because(syscall.ECONNRESET, err)
}
