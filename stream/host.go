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

// host holds all streams of a process. It has four goroutines:
//
//	run      takes every received message, and never waits for one stream (pump)
//	serve    sends the messages that streams owe their peers, besides data
//	keep     asks the peers of silent streams, or their NICs, whether they still exist
//	heed     asks each peer whose end the NIC reports
//
// Locks are taken in the order mu, Conn.mu, owed.
type host struct {
	p    *weft.Process
	port *weft.Port
	ctx  context.Context // ends with the process
	stop context.CancelFunc
	owes *weft.Gate // opened when owing or strays grow
	pump pump

	mu        sync.Mutex
	conns     map[uint32]*Conn      // by their numbers
	accepted  map[peerKey]*Conn     // the streams that a peer dialled
	last      uint32                // last number given; starts at random, so earlier peers do not know it
	listeners map[string]*Listener  // by their services
	questions map[weft.Address]bool // the processes about which a question is in flight
	err       error                 // why the process can have no streams any more

	owed   sync.Mutex
	owing  []*Conn // streams that owe their peers a message
	strays []stray
}

// peerKey identifies a stream by its peer and the peer's number.
type peerKey struct {
	addr   weft.Address
	number uint32
}

// stray is an answer to a message that belongs to no stream of the process.
type stray struct {
	to   weft.Name
	tag  weft.Tag
	body []byte
}

// mostStrays bounds the strays that wait. A peer that gets no answer asks again.
const mostStrays = 1024

// hosts holds the host of each process that has used streams.
var hosts = struct {
	mu sync.Mutex
	of map[*weft.Process]*host
}{of: map[*weft.Process]*host{}}

// hostOf returns the host of a process. The first call makes it.
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

// newHost takes the port of streams and starts the goroutines of a host.
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
	h := &host{
		p: p, last: uint32(p.Runtime().Random()), port: own, owes: p.Runtime().NewGate(), conns: map[uint32]*Conn{},
		accepted: map[peerKey]*Conn{}, listeners: map[string]*Listener{}, questions: map[weft.Address]bool{},
	}
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.pump = pump{h: h, in: in, free: p.Runtime().NewGate()}
	h.pump.free.Open()
	events := p.Watch() // before the first message can arrive
	p.Runtime().Go(h.run)
	p.Runtime().Go(h.serve)
	p.Runtime().Go(h.keep)
	p.Runtime().Go(func() { h.heed(events) })
	return h, nil
}

// ownNIC bounds the wait for the process's own NIC, which answers at once if it works.
const ownNIC = 10 * time.Second

// receives returns when the NIC knows that the process receives on the port. From then on, the NIC
// refuses no dial. receives starts a receive, and then sends a message to its own process. The NIC
// works in order, so it knows of the receive when the message arrives. The message has no kind, so
// the Inbox may take it instead.
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
	case err != nil: // not the failure of a connection
		return fmt.Errorf("stream: the NIC does not receive: %w", err)
	}
	return nil
}

// run takes the received messages until the process is closed.
func (h *host) run() {
	err := error(weft.ErrClosed)
	defer func() {
		h.pump.settle()
		h.pump.in.Close()
		h.end(err)
	}()
	err = h.pump.run()
}

// end fails all streams and listeners. The host stays registered until its port is free. Until
// then, Dial and Listen return the host's error.
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

// take handles a received message and returns the number of its stream. It returns 0 if the message
// belongs to no stream.
func (h *host) take(from *weft.Message, data []byte) (stream uint32) {
	m, ok := parse(from.Tag, data)
	if !ok {
		return 0 // a malformed message belongs to no stream
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
		case kindAccept, kindData, kindPing: // the sender believes that the stream is open
			h.stray(from.From, kindReset, m.sender, m.number, nil)
		}
	}
	return m.number
}

// open handles an open message: it adds a stream to the backlog of the listener, or refuses the
// stream.
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

// stray enqueues a message that belongs to no stream of the process. It drops the message if
// mostStrays wait.
func (h *host) stray(to weft.Name, k kind, number, own uint32, body []byte) {
	h.owed.Lock()
	if len(h.strays) < mostStrays {
		h.strays = append(h.strays, stray{to, tagOf(k, number),
			append(binary.LittleEndian.AppendUint32(nil, own), body...)})
	}
	h.owed.Unlock()
	h.owes.Open()
}

// newConn registers a new stream. The caller holds h.mu.
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

// forget removes a stream that ended at this end.
func (h *host) forget(c *Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conns[c.number] == c {
		delete(h.conns, c.number)
		delete(h.accepted, peerKey{c.peer, c.peerNumber})
	}
}

// gone returns the error of every call after the end of the host.
func (h *host) gone() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return cmp.Or(h.err, net.ErrClosed)
}

// owe enqueues c for serve, which sends its duties.
func (h *host) owe(c *Conn) {
	h.owed.Lock()
	h.owing = append(h.owing, c)
	h.owed.Unlock()
	h.owes.Open()
}

// heed asks a peer for its state when an event reports the end of the peer's process or NIC. After
// a lost event, heed does not ask all peers, since that would fail streams to peers that are merely
// slow. keepAlive finds the peers that ended.
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

// doubt asks the peers of all streams to a process, or to all processes of a NIC.
func (h *host) doubt(ended weft.Address) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.p.Runtime().Now()
	for _, c := range h.conns {
		c.doubt(ended, now)
	}
}
