// Package proxy carries connections from one kind of network to another: each that is accepted is dialled on, and bytes are copied both ways
// until both directions have ended.
//
//	accepted ──► seat ──► turn ──► dial ──► copy ──► the end of each direction is passed on by itself
//	               │        │        │        └────► a direction that fails fails both ends (passer.go)
//	               │        │        └─ fails: the accepted one is reset, or told so in order if it has asked (ask.go)
//	               │        └─ dials begin in the order of the accepts (order.go)
//	               └─ there is none: it is reset, or a client gives way that has not asked yet (seat.go)
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

// Proxy is one way from a listener to wherever Dial leads, and More ways beside it.
type Proxy struct {
	Listener net.Listener
	Dial     func(ctx context.Context, from net.Conn) (net.Conn, error) // on for one that was accepted
	Drain    time.Duration                                              // how long connections may go on when the proxy ends
	Log      *slog.Logger

	// Asks says that Dial reads a request from each client, as that of [Asked] does. Until the
	// request is complete, the client is one of at most limits.Newcomers and may have to give way.
	Asks bool

	// More holds further ways. All ways share the bounds and the counts.
	More []Way

	// Connections bounds the connections that are carried or being dialled. Zero:
	// limits.ProxyConnections.
	Connections int

	// OrderWithin bounds how long a connection waits for the dials of earlier connections from the
	// same source by the same way. Within this time, dials begin in the order of the accepts. Zero:
	// limits.ProxyDial.
	OrderWithin time.Duration

	newcomers *newcomers.Set
	order     turns
	admitted  room

	counts counts
	mu     sync.Mutex
	live   map[*carried]bool
}

// Way is a further way of a [Proxy]. The fields are as those of the Proxy.
type Way struct {
	Listener net.Listener
	Dial     func(ctx context.Context, from net.Conn) (net.Conn, error)
	Asks     bool
}

// Counts are what a proxy has done. A connection that is not carried is in one of Refused, GaveWay,
// Full, Wrong and Unchecked.
type Counts struct {
	Accepted int64 `json:"accepted"` // connections
	Refused  int64 `json:"refused"`  // those that could not be dialled on, or whose request was wrong or late
	Open     int64 `json:"open"`     // those that have not ended: they are carried, or still say where to go, or are being dialled on
	Reset    int64 `json:"reset"`    // those that were carried and did not come to an orderly end
	There    int64 `json:"there"`    // bytes from those that were accepted
	Back     int64 `json:"back"`     // … and to them

	GaveWay   int64 `json:"gave_way"`  // idle newcomers that gave way to others
	Full      int64 `json:"full"`      // those that came while there were Connections others
	Wrong     int64 `json:"wrong"`     // those with a wrong user or password
	Unchecked int64 `json:"unchecked"` // those whose password was not checked because too many were tried
}

type counts struct {
	accepted, refused, open, reset, there, back atomic.Int64
	gaveWay, full, wrong, unchecked             atomic.Int64
}

// Counts returns them.
func (p *Proxy) Counts() Counts {
	c := &p.counts
	return Counts{c.accepted.Load(), c.refused.Load(), c.open.Load(), c.reset.Load(), c.there.Load(), c.back.Load(),
		c.gaveWay.Load(), c.full.Load(), c.wrong.Load(), c.unchecked.Load()}
}

// Run carries connections until ctx ends, and then until those that are open have ended, or Drain is
// over. It closes the listeners. If one of them fails, Run ends before ctx with the error.
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
	return <-ended // of the first that ended: the others were stopped
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

// What a failure that passes has the next accept wait for: the first, and the longest.
const (
	leastPause = 5 * time.Millisecond
	mostPause  = time.Second
)

// accept accepts one connection. A failure that passes, such as a lack of descriptors, ends no proxy: it tries again after a pause, which
// grows while failures follow one another.
func (p *Proxy) accept(ctx context.Context, w *Way) (net.Conn, error) {
	return acceptFrom(ctx, w.Listener, func(err error, pause time.Duration) { p.Log.Warn("not accepted", "err", err, "again", pause) })
}

// acceptFrom is accept of any listener. again is told of each failure that passes, and of the pause behind it.
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

// passes reports whether a failure of an accept says nothing of the next: the process or the host lacks something for now, or the
// connection ended before it was accepted.
func passes(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED},
		func(e error) bool { return errors.Is(err, e) })
}

// drain waits for the connections that are open, and ends those that are left.
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

// What closeTold discards at most, and for how long: as much as a client may have on its way that has not read the answer yet.
const (
	discardWithin = 500 * time.Millisecond
	mostDiscarded = 1 << 20
)

// closeTold closes a connection whose client has been told why, and may still be sending. A close with bytes unread would reset it, and the
// client could lose the answer: so its direction is read to its end first, within bounds.
func closeTold(ctx context.Context, c net.Conn) {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if closeWrite(c) == nil && c.SetDeadline(time.Now().Add(discardWithin)) == nil {
		_, _ = io.CopyN(io.Discard, c, mostDiscarded)
	}
}

// dial dials on for a client, which ends with ctx. A Dial that asks admits the client after its
// request.
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

// closeWrite ends one direction of a connection: TCP, unix sockets and streams can.
func closeWrite(c net.Conn) error {
	if c, ok := c.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return c.Close()
}

// reset ends a connection so that the other end sees a failure.
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
