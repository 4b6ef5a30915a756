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

// Conn is one end of a stream. It is a [net.Conn]: any number of goroutines may use it at once.
//
//	dialling ──► open ──► failed
//	    └──────────┴──► closed
//
// An open one ends in each direction by itself: ended, it has nothing more to send; finished, its peer has not.
type Conn struct {
	h             *host
	number        uint32
	local, remote Addr
	cfg           config

	reading, writing   *weft.Gate // open while nothing reads, or writes
	readable, writable *weft.Gate // opened when one that waits should look again

	mu         sync.Mutex
	state      phase
	err        error        // why it has failed
	peer       weft.Address // unknown while dialling
	peerNumber uint32
	duties     duty
	owed       bool       // it is among host.owing, or being looked at
	behind     bool       // … and waits in its lane behind others
	left       *weft.Gate // opened when nothing is owed, or it is behind
	last       *weft.Op   // what it was told of the end
	told       bool       // its peer knows of it, or will before anything that is sent from now on

	in       ring
	lent     []byte          // bytes behind those in it, which lie where they have come (lent.go)
	leadCtx  context.Context // of a Read that pumps
	stopLead context.CancelFunc
	counted  bool   // a Read waits that does not
	want     []byte // of the Read that waits; what comes goes there
	got      int    // bytes in want
	received uint64 // offset of the next byte to come
	taken    uint64 // … to be read, or written by a WriteTo
	passing  int    // bytes that WriteTo has, and its writer has not taken
	granted  uint64 // the peer has been told to send nothing from there on,
	untold   bool   // or is about to be
	telling  *telling
	buffer   uint64 // bytes that may wait to be read
	finished bool   // nothing comes from received on
	readEnd  time.Time

	sent     uint64 // offset of the next byte to send
	window   uint64 // the peer takes nothing from there on
	flying   int    // bytes that may be under way, at most
	bound    int    // flying, as what sends has seen it last
	ended    bool   // nothing is sent from sent on
	unread   bool   // the peer reads no more
	inWrite  bool
	writeEnd time.Time
	sendCtx  context.Context // of the sends of a Write
	stopSend context.CancelFunc
	first    [headBytes]byte // of the message of a Write
	row      row
	ops      *flights // messages that have left and are not acknowledged

	draining           bool   // drain sends what is joined
	joined             []byte // what waits to be sent
	drainable, drained *weft.Gate
	stopDraining       context.CancelFunc
	closed             time.Time

	heard, learned, asked time.Time // when something came last, when a state of the peer, and when it was asked for one; see keepAlive
	stirred, stated       bool      // something has come since, and a state
	doubted               time.Time // when an event said that the peer has ended; zero: none did, or the peer has answered since
	heardSum              uint32    // messages that have come
}

type phase uint8

const (
	stateDialling phase = iota
	stateOpen
	stateFailed
	stateClosed
)

// duty is a message that a stream owes its peer.
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

func newConn(h *host, number uint32, local, remote Addr, cfg config) *Conn {
	c := &Conn{h: h, number: number, local: local, remote: remote, cfg: cfg, buffer: readBuffer, granted: readBuffer, flying: flyingBytes, heard: h.p.Runtime().Now()}
	c.learned = c.heard
	c.reading, c.writing, c.readable, c.writable = h.p.Runtime().NewGate(), h.p.Runtime().NewGate(), h.p.Runtime().NewGate(), h.p.Runtime().NewGate()
	c.reading.Open()
	c.writing.Open()
	return c
}

// LocalAddr is this end, an [Addr].
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the other end, an [Addr].
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// opError is the form of errors of package net.
func (c *Conn) opError(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return netError(op, c.local, c.remote, err)
}

// look wakes all that waits. Under mu.
func (c *Conn) look() {
	c.stopReading()
	c.readable.Open()
	c.maySend()
}

// maySend wakes all that waits to send. Under mu.
func (c *Conn) maySend() {
	c.writable.Open()
	if c.draining {
		c.drainable.Open()
	}
}

// lingering reports whether the stream is closed and has something to send nevertheless. Under mu.
func (c *Conn) lingering() bool { return c.state == stateClosed && c.draining && c.err == nil }

// wait waits at a gate, but for no longer than until end, if that is set. The caller looks then what has come of it.
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

// late is the error of a deadline that has passed.
func (c *Conn) late(end time.Time) error {
	if !end.IsZero() && !end.After(c.h.p.Runtime().Now()) {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// usable is why nothing can be done by c at all. Under mu.
func (c *Conn) usable() error {
	switch c.state {
	case stateClosed:
		return net.ErrClosed
	case stateFailed:
		return c.err
	}
	return nil
}

// owe notes a message to send.
func (c *Conn) owe(d duty) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.oweLocked(d)
}

func (c *Conn) oweLocked(d duty) {
	c.duties |= d
	if !c.owed {
		c.owed = true
		c.h.owe(c)
	}
}

// fail ends the stream with an error. tell: its peer has to hear of it.
func (c *Conn) fail(err error, tell bool) {
	c.mu.Lock()
	c.failLocked(err, tell)
	c.mu.Unlock()
	c.h.forget(c)
}

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

// stopReading has a Read that pumps look again. Under mu.
func (c *Conn) stopReading() {
	if c.stopLead != nil {
		c.stopLead()
		c.leadCtx, c.stopLead = nil, nil
	}
}

// interrupt has the sends of a Write look again. Under mu.
func (c *Conn) interrupt() {
	if c.stopSend != nil {
		c.stopSend()
		c.sendCtx, c.stopSend = nil, nil
	}
	if c.err != nil && c.draining {
		c.stopDraining()
	}
}

// Close ends the stream in both directions. What was written arrives, as long as the process lives and the peer reads within a minute; the
// peer's writes fail. If something that the peer has sent was not read, the peer is told that the stream has failed, as TCP does.
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
			c.failLocked(net.ErrClosed, false) // what it has to send, too
			c.err = net.ErrClosed              // also of a Write that is about to have it sent
			c.oweLocked(dutyReset)
		case !c.inWrite && !c.draining: // else what sends does it, behind the last byte
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

// Abort ends the stream at once, as a failed one: what was written and has not been read may be lost.
func (c *Conn) Abort() {
	c.fail(net.ErrClosed, true)
	c.mu.Lock()
	c.state = stateClosed
	c.mu.Unlock()
	c.leave()
}

// CloseWrite ends this direction: the peer reads io.EOF behind what was written. Reading goes on. A Write that waits ends with EPIPE, and the end is
// behind what it has taken.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch err := c.usable(); {
	case err == syscall.EPIPE: // the peer was closed in order, and need not be told
		return nil
	case err != nil:
		return c.opError("close", err)
	}
	if !c.ended {
		c.ended = true
		c.interrupt()
		c.maySend()
		if !c.inWrite && !c.draining { // else what sends does it, behind the last byte
			c.oweLocked(dutyFin)
		}
	}
	return nil
}

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline has each Read fail with [os.ErrDeadlineExceeded] from t on, also one that waits. The zero time is none.
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

// SetWriteDeadline is SetReadDeadline of Write.
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

// SetReadBuffer sets how many bytes of the peer may wait to be read, 4 KiB to 16 MiB. A peer that has been told of more may still send that.
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

// SetWriteBuffer sets how many bytes of longer messages may be unacknowledged, 4 KiB to 1 MiB; what waits to be sent is bounded besides. It does not
// matter how many wait at the peer to be read: those are its own to bound.
func (c *Conn) SetWriteBuffer(bytes int) error {
	if bytes <= 0 {
		return netError("set", nil, c.local, syscall.EINVAL)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flying = min(max(bytes, leastBuffer), flyingBytes)
	return nil
}
