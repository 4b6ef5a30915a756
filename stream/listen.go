package stream

import (
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/weftnet/weft"
)

// DefaultBacklog is the default of ListenConfig.Backlog, in streams. Linux has the same default for
// TCP.
const DefaultBacklog = 4096

// ListenConfig holds the settings of a listener.
type ListenConfig struct {
	// Process is the process that listens. It must be set.
	Process *weft.Process

	// Backlog is the number of streams that may wait for Accept. 0 means DefaultBacklog. If the
	// backlog is full, a dial fails with ECONNREFUSED.
	Backlog int

	// KeepAlive is the time after which an accepted stream asks a silent peer for a report. 0 means
	// DefaultKeepAlive. If KeepAlive is negative, the stream never asks for a report. In this case,
	// the end of the peer makes the stream fail only if the NIC reports this end. If the peer's
	// last report is lost, the stream waits forever.
	KeepAlive time.Duration

	// Patience is the longest time for which an accepted stream waits for a silent peer whose NIC
	// says that the peer's process lives. 0 means DefaultPatience. A negative value means that the
	// stream does not ask the NIC. See [Dialer].
	Patience time.Duration
}

// Listener accepts the streams to a service of a process. It implements [net.Listener]. Any number
// of goroutines may use it at once.
type Listener struct {
	h       *host
	addr    Addr
	cfg     config
	backlog int
	came    *weft.Gate

	queue  []*Conn // under host.mu
	closed bool    // under host.mu
}

// Listen registers a service of p and returns its listener. It works like [ListenConfig.Listen]
// with the default settings.
func Listen(p *weft.Process, service string) (*Listener, error) {
	return (&ListenConfig{Process: p}).Listen(service)
}

// Listen registers a service of the process and returns its listener. The name of a service has 1
// to 255 bytes. As soon as Listen has returned, dials to the service succeed.
//
// An error is a [*net.OpError]. It wraps one of these errors:
//
//   - EADDRINUSE if the process already listens to the service.
//   - [net.ErrClosed] if the process is closed or has lost its NIC.
//   - [weft.ErrBadArgument] if the service or a setting is invalid.
func (lc *ListenConfig) Listen(service string) (*Listener, error) {
	l, err := lc.listen(service)
	if err != nil {
		return nil, netError("listen", nil, nil, err)
	}
	return l, nil
}

func (lc *ListenConfig) listen(service string) (*Listener, error) {
	if err := checkService(service); err != nil {
		return nil, err
	}
	if lc.Process == nil || lc.Backlog < 0 {
		return nil, argument(fmt.Errorf("stream: a ListenConfig with process %v and a backlog of %d; "+
			"expected a process, and a backlog of 0 or more", lc.Process, lc.Backlog))
	}
	h, err := hostOf(lc.Process)
	if err != nil {
		return nil, err
	}
	l := &Listener{
		h: h, addr: Addr{lc.Process.Name(), service}, cfg: newConfig(lc.KeepAlive, lc.Patience), backlog: lc.Backlog,
		came: lc.Process.Runtime().NewGate(),
	}
	if l.backlog == 0 {
		l.backlog = DefaultBacklog
	}
	if err := h.receives(); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.err != nil:
		return nil, h.err
	case h.listeners[service] != nil:
		return nil, fmt.Errorf("%w: %v", syscall.EADDRINUSE, l.addr)
	}
	h.listeners[service] = l
	return l, nil
}

// Addr returns the address that clients dial to reach the service, as an [Addr].
func (l *Listener) Addr() net.Addr { return l.addr }

// Accept waits for the next stream and returns it as a [*Conn]. It fails with [net.ErrClosed] when
// the listener or the process is closed.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.next()
		if c != nil {
			return c, nil
		}
		if err == nil {
			l.h.pump.awaitPatiently(1)
			if l.came.Wait(l.h.ctx) != nil {
				err = l.h.gone()
			}
			l.h.pump.awaitPatiently(-1)
		}
		if err != nil {
			l.came.Open() // for the next waiter
			return nil, netError("accept", nil, l.addr, err)
		}
	}
}

// next removes the first stream from the queue. It returns nil if the queue is empty.
func (l *Listener) next() (*Conn, error) {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	if l.closed || l.h.err != nil {
		return nil, net.ErrClosed
	}
	if len(l.queue) == 0 {
		return nil, nil
	}
	c := l.queue[0]
	if l.queue = append(l.queue[:0], l.queue[1:]...); len(l.queue) > 0 {
		l.came.Open()
	}
	return c, nil
}

// Close ends the service. Streams that Accept has already returned stay open. Streams in the
// backlog fail, and the calls of their peers fail with ECONNRESET.
func (l *Listener) Close() error {
	l.h.mu.Lock()
	if l.closed {
		l.h.mu.Unlock()
		return netError("close", nil, l.addr, net.ErrClosed)
	}
	l.closed = true
	queue := l.queue
	l.queue = nil
	if l.h.listeners[l.addr.Service] == l {
		delete(l.h.listeners, l.addr.Service)
	}
	l.h.mu.Unlock()
	for _, c := range queue {
		c.fail(net.ErrClosed, true)
	}
	for _, c := range queue {
		c.leave()
	}
	l.came.Open()
	return nil
}
