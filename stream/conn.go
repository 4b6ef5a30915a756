package stream

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/weftnet/weft"
)

// The phases of a Conn:
//
//	dialling ──► open ──► failed
//	    └──────────┴──► closed
//
// Each direction of an open stream ends separately. If ended is true, this end sends no more bytes.
// If finished is true, the peer sends no more bytes.

// Conn is one end of a stream. It implements [net.Conn]. Like [*net.TCPConn], it also has
// CloseWrite, SetReadBuffer, SetWriteBuffer, ReadFrom and WriteTo. Any number of goroutines may use
// it at once.
type Conn struct {
	h             *host
	number        uint32
	local, remote Addr
	cfg           config

	reading, writing   *weft.Gate // reading is shut while a Read runs, writing while a Write runs
	readable, writable *weft.Gate // opened when a waiting Read or Write should check again

	mu         sync.Mutex
	state      phase
	err        error        // why the stream failed
	peer       weft.Address // zero while dialling
	peerNumber uint32       // the peer's number of the stream; zero while dialling
	duties     duty         // messages to send to the peer
	owed       bool         // the stream is in host.owing or in a lane
	behind     bool         // the stream waits in its lane behind other messages
	left       *weft.Gate   // opens if owed becomes false or behind true; nil unless leave waits
	last       *weft.Op     // the send that told the peer of the end; nil if it is done
	told       bool         // the peer learns of the stream before it gets any later message

	in       ring
	lent     []byte          // bytes behind those of in; they lie in the Inbox
	leadCtx  context.Context // ends a Read that pumps
	stopLead context.CancelFunc
	counted  bool      // a Read waits and does not pump
	want     []byte    // buffer of the waiting Read; received bytes go there first
	got      int       // bytes in want
	received uint64    // offset of the next byte to receive
	taken    uint64    // offset of the next byte for a Read or the writer of a WriteTo
	passing  int       // bytes that WriteTo holds and its writer has not taken
	granted  uint64    // the peer may send the bytes before this offset
	untold   bool      // the peer does not know granted yet
	telling  *telling  // the last message about granted; nil before the first
	buffer   uint64    // bytes that may wait for a Read
	finished bool      // the peer sends no byte at or after the offset received
	readEnd  time.Time // deadline of Read; zero is none

	sent     uint64             // offset of the next byte to send
	window   uint64             // the peer accepts the bytes before this offset
	flying   int                // largest number of bytes in flight; SetWriteBuffer sets it
	bound    int                // the value of flying that the current sender uses
	ended    bool               // this end sends no byte at or after the offset sent
	unread   bool               // the peer reads no more
	inWrite  bool               // a Write sends
	writeEnd time.Time          // deadline of Write; zero is none
	sendCtx  context.Context    // context of the sends of a Write; nil if there is none
	stopSend context.CancelFunc // ends sendCtx
	first    [headBytes]byte    // head of the message of a Write
	row      row
	ops      *flights // messages in flight; nil if there are none

	draining           bool               // drain runs, and is the only sender
	joined             []byte             // bytes that wait for drain
	drainable, drained *weft.Gate         // drainable wakes drain, and drained wakes linger
	stopDraining       context.CancelFunc // ends drain; nil before the first one
	closed             time.Time          // the time of Close

	// For keepAlive, which sets the times once a second from the flags.
	heard, learned, asked time.Time // times of the last message, state and request for a state
	questioned, vouched   bool      // since asked: its NIC was questioned, and vouched for it
	stirred, stated       bool      // a message or a state arrived since keepAlive last ran
	doubted               time.Time // when an event reported its end; zero if it answered since
	heardSum              uint32    // number of messages received
}

// phase is the state of a stream.
type phase uint8

const (
	stateDialling phase = iota
	stateOpen
	stateFailed
	stateClosed
)

// duty is a set of messages that a stream owes its peer. They are sent from the lowest bit up.
type duty uint8

const (
	dutyAccept duty = 1 << iota
	dutyWindow
	dutyPong
	dutyPing
	dutyFin
	dutyClose
	dutyReset
)

// newConn returns a stream in the phase dialling.
func newConn(h *host, number uint32, local, remote Addr, cfg config) *Conn {
	c := &Conn{
		h: h, number: number, local: local, remote: remote, cfg: cfg, buffer: readBuffer, granted: readBuffer,
		flying: flyingBytes, heard: h.p.Runtime().Now(),
	}
	c.learned = c.heard
	c.reading, c.writing, c.readable, c.writable = h.p.Runtime().NewGate(), h.p.Runtime().NewGate(),
		h.p.Runtime().NewGate(), h.p.Runtime().NewGate()
	c.reading.Open()
	c.writing.Open()
	return c
}

// LocalAddr returns the address of this end as an [Addr].
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the address of the other end as an [Addr].
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// opError returns err as a *net.OpError. It returns nil and io.EOF unchanged.
func (c *Conn) opError(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return netError(op, c.local, c.remote, err)
}

// look wakes every waiting call. The caller holds mu.
func (c *Conn) look() {
	c.stopReading()
	c.readable.Open()
	c.maySend()
}

// maySend wakes every waiting sender. The caller holds mu.
func (c *Conn) maySend() {
	c.writable.Open()
	if c.draining {
		c.drainable.Open()
	}
}

// lingering reports whether the stream is closed and still has bytes to send. The caller holds mu.
func (c *Conn) lingering() bool { return c.state == stateClosed && c.draining && c.err == nil }

// wait waits until the gate s opens, the deadline end passes or the process ends. If end is zero,
// there is no deadline. The caller must then check which of these happened.
func (c *Conn) wait(s *weft.Gate, end time.Time) {
	c.h.pump.await(1)
	defer c.h.pump.await(-1)
	if end.IsZero() {
		_ = s.Wait(c.h.ctx)
		return
	}
	ctx, cancel := c.h.p.Runtime().WithTimeout(c.h.ctx, end.Sub(c.h.p.Runtime().Now()))
	defer cancel()
	_ = s.Wait(ctx)
}

// late returns os.ErrDeadlineExceeded if the deadline end has passed.
func (c *Conn) late(end time.Time) error {
	if !end.IsZero() && !end.After(c.h.p.Runtime().Now()) {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// usable returns nil if the stream is neither closed nor failed. Otherwise it returns the error of
// every call on the stream. The caller holds mu.
func (c *Conn) usable() error {
	switch c.state {
	case stateClosed:
		return net.ErrClosed
	case stateFailed:
		return c.err
	}
	return nil
}

// owe adds messages to send to the peer.
func (c *Conn) owe(d duty) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.oweLocked(d)
}

// oweLocked is owe for a caller that holds mu.
func (c *Conn) oweLocked(d duty) {
	c.duties |= d
	if !c.owed {
		c.owed = true
		c.h.owe(c)
	}
}

// fail ends the stream with an error. If tell is true, the peer gets a reset.
func (c *Conn) fail(err error, tell bool) {
	c.mu.Lock()
	c.failLocked(err, tell)
	c.mu.Unlock()
	c.h.forget(c)
}

// failLocked is fail for a caller that holds mu. The stream stays registered.
func (c *Conn) failLocked(err error, tell bool) {
	if c.state >= stateFailed && !c.lingering() {
		return
	}
	known := c.state == stateOpen || c.lingering()
	c.state, c.err = max(c.state, stateFailed), err
	c.interrupt()
	if tell && known {
		c.oweLocked(dutyReset)
	}
	c.look()
}

// stopReading interrupts a Read that pumps, so that the Read checks again. The caller holds mu.
func (c *Conn) stopReading() {
	if c.stopLead != nil {
		c.stopLead()
		c.leadCtx, c.stopLead = nil, nil
	}
}

// interrupt ends the sends of a Write, so that the Write checks again. If the stream failed,
// interrupt also ends drain. The caller holds mu.
func (c *Conn) interrupt() {
	if c.stopSend != nil {
		c.stopSend()
		c.sendCtx, c.stopSend = nil, nil
	}
	if c.err != nil && c.draining {
		c.stopDraining()
	}
}

// Close ends the stream in both directions. If the process stays alive and the peer reads the
// written bytes within a minute, all written bytes still arrive. The peer then reads io.EOF, and a
// Write of the peer fails with EPIPE. If this end calls Close before it has read all received
// bytes, the unsent bytes of this end are lost. In this case, the calls of the peer fail with
// ECONNRESET, as with TCP.
//
// Close waits for unsent bytes, but at most 250 ms. Close then waits until the NIC has the message
// that ends the stream, but at most another 250 ms. A second Close fails with [net.ErrClosed].
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.state == stateClosed {
		c.mu.Unlock()
		return c.opError("close", net.ErrClosed)
	}
	was := c.state
	c.state, c.closed = stateClosed, c.h.p.Runtime().Now()
	c.interrupt()
	if was == stateOpen {
		switch {
		case c.waiting()+c.passing > 0:
			c.failLocked(net.ErrClosed, false) // also ends drain
			c.err = net.ErrClosed              // for a Write that is about to start drain
			c.oweLocked(dutyReset)
		case !c.inWrite && !c.draining: // else the sender sends it after the last byte
			c.oweLocked(dutyClose)
		}
	}
	c.look()
	busy := c.draining || c.inWrite || c.underWay() > 0
	c.mu.Unlock()
	if busy {
		c.linger()
	}
	c.mu.Lock()
	busy = c.lingering()
	c.mu.Unlock()
	if !busy {
		c.h.forget(c)
	}
	c.leave()
	return nil
}

// Abort ends the stream at once. Bytes that the peer has not read may be lost, and the calls of the
// peer fail with ECONNRESET. Abort waits until the NIC has the message that ends the stream, but at
// most 250 ms.
func (c *Conn) Abort() {
	c.fail(net.ErrClosed, true)
	c.mu.Lock()
	c.state = stateClosed
	c.mu.Unlock()
	c.leave()
}

// CloseWrite ends the sending direction. The peer reads the written bytes and then [io.EOF]. Read
// still works at this end. If a Write is already waiting, this Write fails with EPIPE and returns a
// number n. Before io.EOF, the peer still gets the first n bytes of this Write.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch err := c.usable(); {
	case err == syscall.EPIPE: // the peer closed the stream in order, and expects no end
		return nil
	case err != nil:
		return c.opError("close", err)
	}
	if !c.ended {
		c.ended = true
		c.interrupt()
		c.maySend()
		if !c.inWrite && !c.draining { // else the sender sends it after the last byte
			c.oweLocked(dutyFin)
		}
	}
	return nil
}

// SetDeadline sets the deadlines of Read and Write. After Close, SetDeadline fails with
// [net.ErrClosed].
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline sets the deadline of Read, including a Read that is already waiting. After the
// time t, Read fails with [os.ErrDeadlineExceeded]. The zero time removes the deadline. After
// Close, SetReadDeadline fails with [net.ErrClosed].
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == stateClosed {
		return netError("set", nil, c.local, net.ErrClosed)
	}
	c.readEnd = t
	c.stopReading()
	c.readable.Open()
	return nil
}

// SetWriteDeadline sets the deadline of Write, including a Write that is already waiting. After the
// time t, Write fails with [os.ErrDeadlineExceeded], and returns the number of bytes that the
// stream took. The zero time removes the deadline. After Close, SetWriteDeadline fails with
// [net.ErrClosed].
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == stateClosed {
		return netError("set", nil, c.local, net.ErrClosed)
	}
	c.writeEnd = t
	c.interrupt()
	c.maySend()
	return nil
}

// SetReadBuffer sets the number of received bytes that may wait for a Read. The default is 1 MiB.
// If the value is below 1, SetReadBuffer fails with EINVAL. A value from 1 to 4 KiB counts as 4
// KiB, and a value above 16 MiB counts as 16 MiB. If the new value is smaller, the peer may still
// send the bytes that the old value has already allowed.
func (c *Conn) SetReadBuffer(bytes int) error {
	if bytes <= 0 {
		return netError("set", nil, c.local, syscall.EINVAL)
	}
	defer c.tellGranted()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buffer = uint64(min(max(bytes, leastBuffer), mostBuffer))
	c.grant()
	return nil
}

// SetWriteBuffer sets the number of bytes that may be in flight. A byte is in flight until the
// peer's NIC acknowledges it. The default is 1 MiB. If the value is below 1, SetWriteBuffer fails
// with EINVAL. A value from 1 to 4 KiB counts as 4 KiB, and a value above 1 MiB counts as 1 MiB.
//
// A single message carries at most half of this number of bytes. The bytes of short messages do not
// count as bytes in flight, because the NIC copies the bytes of short messages. Bytes that have
// arrived at the peer, but that the peer has not read, do not count either.
func (c *Conn) SetWriteBuffer(bytes int) error {
	if bytes <= 0 {
		return netError("set", nil, c.local, syscall.EINVAL)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flying = min(max(bytes, leastBuffer), flyingBytes)
	return nil
}
