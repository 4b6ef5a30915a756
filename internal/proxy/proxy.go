// Package proxy carries connections from one kind of network to another. It dials a connection
// for each accepted one, and copies bytes in both directions until both have ended.
//
//	accepted ─► seat ─► turn ─► dial ─► copy ─► the end of each direction is passed on separately
//	             │       │       │       └────► a direction that fails fails both ends (passer.go)
//	             │       │       └─ fails: the accepted is reset, or answered if it asked (ask.go)
//	             │       └─ dials begin in the order of the accepts (order.go)
//	             └─ no seat: it is reset, or a client that has not asked yet gives way (seat.go)
package proxy

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/newcomers"
)

// Proxy carries connections from a listener to the destination of Dial, and in the same way for
// each Way in More.
type Proxy struct {
	Listener net.Listener
	// Dial dials the connection for an accepted one.
	Dial func(ctx context.Context, from net.Conn) (net.Conn, error)
	// Drain is the time for which connections may continue after the proxy ends.
	Drain time.Duration
	Log   *slog.Logger

	// Asks says that Dial reads a request from each client, as the Dial of [Asked] does. Until
	// the request is complete, the client is one of at most limits.Newcomers and may have to give
	// way.
	Asks bool

	// More holds further ways. All ways share the limits and the counts.
	More []Way

	// Connections is the maximum number of connections that are carried or being dialled. Zero
	// means limits.ProxyConnections.
	Connections int

	// OrderWithin is the maximum time for which a connection waits for the dials of earlier
	// connections from the same source by the same way. Within this time, dials begin in the
	// order of the accepts. Zero means limits.ProxyDial.
	OrderWithin time.Duration

	newcomers *newcomers.Set
	order     turns
	admitted  room

	counts counts
	mu     sync.Mutex
	live   map[*carried]bool
}

// Way is a further way of a [Proxy]. Its fields have the same meaning as those of the Proxy.
type Way struct {
	Listener net.Listener
	Dial     func(ctx context.Context, from net.Conn) (net.Conn, error)
	Asks     bool
}

// Counts holds the counts of a proxy. A connection that is not carried is counted in one of
// Refused, GaveWay, Full, Wrong and Unchecked.
type Counts struct {
	Accepted int64 `json:"accepted"` // connections
	// Refused counts connections that could not be dialled, or whose request was wrong or late.
	Refused int64 `json:"refused"`
	// Open counts connections that have not ended: they are carried, still sending a request, or
	// being dialled.
	Open  int64 `json:"open"`
	Reset int64 `json:"reset"` // carried connections without an orderly end
	There int64 `json:"there"` // bytes from the accepted side
	Back  int64 `json:"back"`  // bytes to the accepted side

	GaveWay int64 `json:"gave_way"` // idle newcomers that gave way to others
	Full    int64 `json:"full"`     // those that arrived while there were Connections others
	Wrong   int64 `json:"wrong"`    // those with a wrong user or password
	// Unchecked counts connections whose password was not checked because too many were tried.
	Unchecked int64 `json:"unchecked"`
}

type counts struct {
	accepted, refused, open, reset, there, back atomic.Int64
	gaveWay, full, wrong, unchecked             atomic.Int64
}

// Counts returns the counts of the proxy.
func (p *Proxy) Counts() Counts {
	c := &p.counts
	return Counts{c.accepted.Load(), c.refused.Load(), c.open.Load(), c.reset.Load(), c.there.Load(), c.back.Load(),
		c.gaveWay.Load(), c.full.Load(), c.wrong.Load(), c.unchecked.Load()}
}

// Run carries connections until ctx ends. Then it waits until the open connections have ended, or
// Drain is over. It closes the listeners. If one of them fails before ctx ends, Run ends with its
// error.
func (p *Proxy) Run(ctx context.Context) error {
	p.Log = limitLog(p.Log)
	p.newcomers = newcomers.New(limits.Newcomers)
	p.admitted.most = cmp.Or(p.Connections, limits.ProxyConnections)
	last, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	ctx, stopAll := context.WithCancel(ctx)
	defer stopAll()
	ways := p.ways()
	ended := make(chan error, len(ways))
	var listeners, all sync.WaitGroup
	for _, w := range ways {
		listeners.Go(func() {
			stop := context.AfterFunc(ctx, func() { w.Listener.Close() })
			defer stop()
			ended <- p.serve(ctx, last, w, &all)
			stopAll()
		})
	}
	listeners.Wait()
	p.drain(&all, end)
	return <-ended // the error of the first that ended; the others were stopped
}

// ways returns all ways of the proxy.
func (p *Proxy) ways() []*Way {
	all := []*Way{{p.Listener, p.Dial, p.Asks}}
	for i := range p.More {
		all = append(all, &p.More[i])
	}
	return all
}

// serve carries the connections of one way until its listener ends. It returns the error of the
// listener, or nil if ctx ended it.
func (p *Proxy) serve(ctx, last context.Context, w *Way, all *sync.WaitGroup) error {
	for {
		c, err := p.accept(ctx, w)
		if err != nil {
			if ctx.Err() != nil {
				err = nil
			}
			return err
		}
		p.counts.accepted.Add(1)
		p.counts.open.Add(1)
		a := p.enter(c, w)
		all.Go(func() {
			defer p.counts.open.Add(-1)
			defer a.leave()
			p.carry(last, c, a)
		})
	}
}

// The pause before the next accept after a temporary failure: the first pause, and the longest.
const (
	leastPause = 5 * time.Millisecond
	mostPause  = time.Second
)

// accept accepts one connection. A temporary failure, such as a lack of file descriptors, does
// not end the proxy: accept tries again after a pause. The pause grows while failures follow each
// other.
func (p *Proxy) accept(ctx context.Context, w *Way) (net.Conn, error) {
	return acceptFrom(ctx, w.Listener,
		func(err error, pause time.Duration) { p.Log.Warn("not accepted", "err", err, "again", pause) })
}

// acceptFrom is accept for any listener. It calls again for each temporary failure, with the
// pause that follows.
func acceptFrom(ctx context.Context, l net.Listener, again func(err error, pause time.Duration)) (net.Conn, error) {
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		c, err := l.Accept()
		if err == nil || !passes(err) {
			return c, err
		}
		again(err, pause)
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}

// passes reports whether a failure of an accept is temporary: the process or the host lacks a
// resource at the moment, or the connection ended before it was accepted.
func passes(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.ECONNABORTED},
		func(e error) bool { return errors.Is(err, e) })
}

// drain waits for the open connections. When Drain is over, it ends the remaining ones.
func (p *Proxy) drain(all *sync.WaitGroup, end func()) {
	t := time.AfterFunc(p.Drain, end)
	defer t.Stop()
	all.Wait()
}

// carry carries one connection.
func (p *Proxy) carry(ctx context.Context, from net.Conn, a *seat) {
	to, err := p.dial(ctx, from, a)
	if err != nil {
		p.refuse(ctx, from, a, err)
		return
	}
	var why fault
	stop := context.AfterFunc(ctx, func() { why.note(byProxy, errDrained); reset(from); reset(to) })
	defer stop()
	c := p.begin(from, to)
	defer p.end(c)
	var both sync.WaitGroup
	there, back := newPasser(to, from, &p.counts.there, &c.there), newPasser(from, to, &p.counts.back, &c.back)
	there.fault, there.source, there.sink = &why, byFrom, byTo
	back.fault, back.source, back.sink = &why, byTo, byFrom
	both.Go(func() { there.pass(back) })
	both.Go(func() { back.pass(there) })
	both.Wait()
	if by, err := why.first(); err != nil {
		p.counts.reset.Add(1)
		p.Log.Info("reset", "from", c.from, "to", c.to, "by", by, "err", err)
	}
	from.Close()
	to.Close()
}

// refuse ends, counts and logs a connection that is not carried.
func (p *Proxy) refuse(ctx context.Context, from net.Conn, a *seat, err error) {
	count, text := &p.counts.refused, "not dialled"
	switch {
	case a.gaveWay():
		count, text, err = &p.counts.gaveWay, "gave way", errGaveWay
	case errors.Is(err, errFull):
		count, text = &p.counts.full, "no room"
	case errors.Is(err, errWrong):
		count, text = &p.counts.wrong, "wrong password"
	case errors.Is(err, errUnchecked):
		count, text = &p.counts.unchecked, "password not checked"
	}
	count.Add(1)
	p.Log.Warn(text, "from", from.RemoteAddr(), "err", err)
	if errors.As(err, new(errTold)) {
		a.dismiss(from)
		closeTold(ctx, from)
		return
	}
	reset(from)
}

// closeTold discards at most this many bytes, for at most this time: as much as a client that has
// not read the answer yet may have in flight.
const (
	discardWithin = 500 * time.Millisecond
	mostDiscarded = 1 << 20
)

// closeTold closes a connection whose client has been told the reason, and may still be sending.
// If bytes were unread, the close would reset the connection, and the client could lose the
// answer. So closeTold first reads the client's direction to its end, within limits.
func closeTold(ctx context.Context, c net.Conn) {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if closeWrite(c) == nil && c.SetDeadline(time.Now().Add(discardWithin)) == nil {
		_, _ = io.CopyN(io.Discard, c, mostDiscarded)
	}
}

// dial dials for a client. If ctx ends, the client's connection ends. A Dial that asks admits the
// client after its request.
func (p *Proxy) dial(ctx context.Context, from net.Conn, a *seat) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { reset(from) })
	defer stop()
	if a.turn != nil {
		defer a.turn.pass()
	}
	if err := a.awaitTurn(ctx); err != nil {
		return nil, err
	}
	to, err := a.way.Dial(context.WithValue(ctx, seatKey{}, a), from)
	if err != nil {
		return nil, err
	}
	if err := a.admit(); err != nil { // a Dial that asked nothing
		to.Close()
		return nil, err
	}
	return to, nil
}

// closeWrite ends one direction of a connection. TCP, unix sockets and streams support this.
func closeWrite(c net.Conn) error {
	if c, ok := c.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return c.Close()
}

// reset ends a connection in such a way that the other end sees a failure.
func reset(c net.Conn) {
	switch c := c.(type) {
	case interface{ Abort() }:
		c.Abort()
		return
	case interface{ SetLinger(int) error }:
		_ = c.SetLinger(0)
	}
	_ = c.Close()
}
