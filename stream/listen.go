package stream

import (
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/weftnet/weft"
)

// DefaultBacklog is how many streams wait at a listener to be accepted: as many connections as at one of TCP, if Linux is not told otherwise.
const DefaultBacklog = 4096

// ListenConfig is how a process listens.
type ListenConfig struct {
	// Process is the one whose service it is.
	Process *weft.Process

	// Backlog takes the place of DefaultBacklog. A dial that finds it full is refused.
	Backlog int

	// KeepAlive takes the place of DefaultKeepAlive; negative: peers are not asked unless the NIC tells that they have ended, and what a lost session of the NICs takes along of the room or
	// the end that a peer tells of is missed for good.
	KeepAlive time.Duration
}

// Listener is a service of a process. It is a [net.Listener].
type Listener struct {
	h       *host
	addr    Addr
	cfg     config
	backlog int
	came    *weft.Gate

	queue  []*Conn // under host.mu
	closed bool    // likewise
}

// Listen has p serve a service.
func Listen(p *weft.Process, service string) (*Listener, error) {
	return (&ListenConfig{Process: p}).Listen(service)
}

// Listen begins to take streams to a service of the process. It fails with EADDRINUSE if the process listens to it already.
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
		return nil, argument(fmt.Errorf("stream: a ListenConfig with process %v and a backlog of %d; expected a process, and a backlog of 0 or more",
			lc.Process, lc.Backlog))
	}
	h, err := hostOf(lc.Process)
	if err != nil {
		return nil, err
	}
	l := &Listener{h: h, addr: Addr{lc.Process.Name(), service}, cfg: newConfig(lc.KeepAlive), backlog: lc.Backlog, came: lc.Process.NewGate()}
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

// Addr is what to dial, an [Addr].
func (l *Listener) Addr() net.Addr { return l.addr }

// Accept waits for the next stream.
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
			l.came.Open() // whatever else waits here
			return nil, netError("accept", nil, l.addr, err)
		}
	}
}

// next takes the first stream in the queue; nil if there is none yet.
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

// Close ends the service. Streams that were not accepted fail; those that were go on.
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
