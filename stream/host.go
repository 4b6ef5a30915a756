package stream

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/weftnet/weft"
)

// host is all streams of a process. What takes in what comes for any of them never waits for one (pump.go); a goroutine sends what they owe
// their peers beside data, another asks silent peers whether they are there, and one asks those of which the NIC tells that they have ended.
type host struct {
	p    *weft.Process
	port *weft.Port
	ctx  context.Context // ends with the process
	stop context.CancelFunc
	owes *weft.Gate // something is owed
	pump pump

	mu        sync.Mutex // is taken before Conn.mu
	conns     map[uint32]*Conn
	accepted  map[peerKey]*Conn // those that a peer has dialled
	last      uint32            // number given; the process begins with a random one, since a number that others know may be used by them
	listeners map[string]*Listener
	err       error // why no stream can be any more

	owed   sync.Mutex // behind Conn.mu
	owing  []*Conn
	strays []stray
}

// peerKey is a stream as its peer calls it.
type peerKey struct {
	addr   weft.Address
	number uint32
}

// stray is an answer that belongs to no stream here.
type stray struct {
	to   weft.Name
	tag  weft.Tag
	body []byte
}

const mostStrays = 1024 // answers to opens and strangers that wait to be sent; a peer that gets none asks again

// hosts has the host of each process that has had a stream.
var hosts = struct {
	mu sync.Mutex
	of map[*weft.Process]*host
}{of: map[*weft.Process]*host{}}

// hostOf returns the host of a process.
func hostOf(p *weft.Process) (*host, error) {
	hosts.mu.Lock()
	defer hosts.mu.Unlock()
	if h := hosts.of[p]; h != nil {
		return h, nil
	}
	h, err := newHost(p)
	if err == nil {
		hosts.of[p] = h
	}
	return h, err
}

func newHost(p *weft.Process) (*host, error) {
	own, err := p.Port(port)
	if err != nil {
		if errors.Is(err, weft.ErrClosed) {
			return nil, net.ErrClosed
		}
		return nil, fmt.Errorf("stream: %w", err)
	}
	in, err := own.Inbox(weft.AnyProcess, weft.AnyTag, inboxBytes)
	if err != nil {
		_ = own.Close()
		return nil, fmt.Errorf("stream: %w", err)
	}
	h := &host{p: p, last: uint32(p.Runtime().Random()), port: own, owes: p.Runtime().NewGate(), conns: map[uint32]*Conn{}, accepted: map[peerKey]*Conn{}, listeners: map[string]*Listener{}}
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.pump = pump{h: h, in: in, free: p.Runtime().NewGate()}
	h.pump.free.Open()
	events := p.Watch() // from before the first message
	p.Runtime().Go(h.run)
	p.Runtime().Go(h.serve)
	p.Runtime().Go(h.keep)
	p.Runtime().Go(func() { h.heed(events) })
	return h, nil
}

// ownNIC bounds what the process's own NIC does at once.
const ownNIC = 10 * time.Second

// receives returns when the NIC knows that the process receives on the port, so that it refuses no dial from then on: it has taken a receive
// of the port, for it does what it is told in order, and what was sent behind that has come. It is of no kind, so the Inbox may have it as well.
func (h *host) receives() error {
	ctx, cancel := h.p.Runtime().WithTimeout(h.ctx, ownNIC)
	defer cancel()
	o := new(weft.Op)
	err := h.port.StartRecv(o, weft.AnyProcess, 0, nil)
	if err == nil {
		err = h.port.PeerAt(h.p.Address()).SendDelivered(ctx, 0)
		o.Cancel()
		_, _ = o.Wait(ctx)
	}
	switch {
	case h.ctx.Err() != nil:
		return h.gone()
	case errors.Is(err, weft.ErrNICGone), errors.Is(err, weft.ErrClosed):
		return failure(err)
	case err != nil: // no connection's
		return fmt.Errorf("stream: the NIC does not receive: %w", err)
	}
	return nil
}

// run takes in what comes until the process is closed.
func (h *host) run() {
	err := error(weft.ErrClosed)
	defer func() {
		h.pump.settle()
		h.pump.in.Close()
		h.end(err)
	}()
	err = h.pump.run()
}

// end fails all streams and listeners. It is the process's host until its port is free: a Dial or a Listen is told why, until then.
func (h *host) end(err error) {
	h.mu.Lock()
	h.err = failure(err)
	conns, listeners := h.conns, h.listeners
	h.conns, h.accepted, h.listeners = nil, nil, nil
	h.mu.Unlock()
	h.stop()
	for _, c := range conns {
		c.fail(h.err, false)
	}
	for _, l := range listeners {
		l.came.Open()
	}
	_ = h.port.Close()
	hosts.mu.Lock()
	delete(hosts.of, h.p)
	hosts.mu.Unlock()
}

// take takes a message, and returns the number of the stream that it is for; 0 if it is for none.
func (h *host) take(from *weft.Message, data []byte) (stream uint32) {
	m, ok := parse(from.Tag, data)
	if !ok {
		return 0 // it does not tell which stream it is for
	}
	if m.kind == kindOpen {
		h.open(from, &m)
		return 0
	}
	h.mu.Lock()
	c := h.conns[m.number]
	h.mu.Unlock()
	if c == nil || !c.take(from.From, from.Addr, &m) {
		switch m.kind {
		case kindAccept, kindData, kindPing: // its sender takes the stream for open
			h.stray(from.From, kindReset, m.sender, m.number, nil)
		}
	}
	return m.number
}

// open takes the wish for a stream.
func (h *host) open(from *weft.Message, m *message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := peerKey{from.Addr, m.sender}
	if c := h.accepted[key]; c != nil { // the answer was lost
		c.owe(dutyAccept)
		return
	}
	l := h.listeners[string(m.rest)]
	switch {
	case l == nil:
		h.stray(from.From, kindRefuse, m.sender, 0, []byte{byte(refusedNoListener)})
		return
	case len(l.queue) >= l.backlog:
		h.stray(from.From, kindRefuse, m.sender, 0, []byte{byte(refusedBacklog)})
		return
	}
	c := h.newConn(Addr{h.p.Name(), string(m.rest)}, Addr{from.From, fmt.Sprintf("#%d", m.sender)}, l.cfg)
	c.opened(from.Addr, m)
	h.accepted[key] = c
	c.owe(dutyAccept)
	l.queue = append(l.queue, c)
	l.came.Open()
}

// stray has a message sent that belongs to no stream here.
func (h *host) stray(to weft.Name, k kind, number, own uint32, body []byte) {
	h.owed.Lock()
	if len(h.strays) < mostStrays {
		h.strays = append(h.strays, stray{to, tagOf(k, number), append(binary.LittleEndian.AppendUint32(nil, own), body...)})
	}
	h.owed.Unlock()
	h.owes.Open()
}

// newConn makes a stream. Under h.mu.
func (h *host) newConn(local, remote Addr, cfg config) *Conn {
	for {
		if h.last++; h.last != 0 && h.conns[h.last] == nil {
			break
		}
	}
	if local.Service == "" {
		local.Service = fmt.Sprintf("#%d", h.last)
	}
	c := newConn(h, h.last, local, remote, cfg)
	h.conns[c.number] = c
	return c
}

// forget lets go of a stream that has ended at this end.
func (h *host) forget(c *Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conns[c.number] == c {
		delete(h.conns, c.number)
		delete(h.accepted, peerKey{c.peer, c.peerNumber})
	}
}

// gone is why no stream of the process can go on.
func (h *host) gone() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return cmp.Or(h.err, net.ErrClosed)
}

// owe has the duties of c looked at.
func (h *host) owe(c *Conn) {
	h.owed.Lock()
	h.owing = append(h.owing, c)
	h.owed.Unlock()
	h.owes.Open()
}

// keep asks the peers of silent streams whether they are there.
func (h *host) keep() {
	for h.p.Runtime().Sleep(h.ctx, keepEvery) == nil {
		h.mu.Lock()
		now, conns := h.p.Runtime().Now(), make([]*Conn, 0, len(h.conns))
		for _, c := range h.conns {
			conns = append(conns, c)
		}
		h.mu.Unlock()
		for _, c := range conns {
			c.keepAlive(now)
		}
	}
}

// heed asks the peers that have ended, as an event of the process or of its NIC says. An end whose event was missed keepAlive finds: to doubt all peers for
// it would fail those that are merely slow, as they are where so much happens.
func (h *host) heed(events *weft.Watcher) {
	defer events.Close()
	for {
		e, err := events.Next(h.ctx)
		if err != nil {
			return
		}
		if e.Kind == weft.EventProcessGone || e.Kind == weft.EventClosed || e.Kind == weft.EventRestarted {
			h.doubt(e.Addr)
		}
	}
}

// doubt has the streams of a process asked for, or those of all processes of a NIC.
func (h *host) doubt(ended weft.Address) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.p.Runtime().Now()
	for _, c := range h.conns {
		c.doubt(ended, now)
	}
}
