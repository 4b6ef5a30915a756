package xdp

import (
	"fmt"
	"sync/atomic"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/udp"
)

// Driver is a NIC's attachment to an interface.
type Driver struct {
	cfg    Config
	addr   link.Addr
	zone   string // of link-local addresses
	mtu    int
	why    string // text for Explain
	slow   *udp.Driver
	steer  steering
	queues []*queue
	dead   []*queue    // of a lost interface: a frame in their memory may still be written
	tagged atomic.Bool // frames come with a VLAN tag
	pieces atomic.Bool // long frames come in several pieces
	first  int         // queue at which the next Poll begins
	routes *routes

	epoll   int
	watched bool // epoll watches the queues

	lastTo link.Addr // destination of the last frame
	last   *route
	chunk  uint64 // chunk of the open reservation
	staged []byte // its memory, if it is on the slow path
	open   reservation
	peeked *queue // queue of the frame that Peek returned
	marked bool   // a congested router has marked this frame
	polls  int    // polls since the last look
	now    clock.Time

	slowNext clock.Time // time at which the ordinary socket must be polled
	slowed   bool       // the last poll included it

	lost    atomic.Bool   // the interface is gone: no queues, no program
	news    chan struct{} // for Follow: a token if there was news after the loss
	chainOf chained

	counters link.Counters
	closed   bool
	fetched  byte // meaningless; it forces the loads of fetch and ahead
}

// reservation is the kind of the open reservation.
type reservation uint8

const (
	none reservation = iota
	direct
	slow
	adrift // in the memory of an interface that was lost meanwhile
)

var _ link.Driver = (*Driver)(nil)

// Addr implements link.Driver.
func (d *Driver) Addr() link.Addr { return d.addr }

// MTU implements link.Driver.
func (d *Driver) MTU() int { return d.mtu }

// Properties implements link.Driver. A network promises nothing.
func (d *Driver) Properties() link.Properties { return link.Properties{} }

// Caps implements link.Driver.
func (d *Driver) Caps() link.Caps {
	return link.Caps{
		Post:   d.Post,
		Glance: d.Glance, Peek: d.Peek, Pass: d.Pass, ReceiveBuffer: d.ReceiveBuffer,
		Fd: d.Fd, Sleep: d.Sleep, Awake: d.Awake,
	}
}

// Fd implements link.Caps. It returns -1 once the driver is closed.
func (d *Driver) Fd() int { return d.epoll }

// Explain returns a text that says how the driver is attached.
func (d *Driver) Explain() string { return d.why }

// Offload returns "none": segmentation offload happens later than AF_XDP takes the frames.
func (d *Driver) Offload() string { return "none" }

// ReceiveBuffer implements link.Caps. It returns the bytes of full frames that the rings hold.
func (d *Driver) ReceiveBuffer() int { return len(d.queues) * fillRing * d.mtu }

// Reserve implements link.Driver. It returns nil while all chunks for sending are in flight.
func (d *Driver) Reserve(to link.Addr) []byte {
	d.open = none
	if d.closed {
		return nil
	}
	if d.last == nil || d.lastTo != to || d.last.check || !d.last.direct {
		d.last, d.lastTo = d.routes.find(d.now, to), to
	}
	if !d.last.direct {
		b := d.slow.Reserve(to)
		if b != nil {
			d.open, d.staged = slow, b
		}
		return b
	}
	q := d.queues[0]
	if len(q.free) == 0 {
		if q.reclaim(); len(q.free) == 0 {
			q.tx.show()
			d.counters.SystemCalls += q.kick()
			if q.reclaim(); len(q.free) == 0 {
				return nil
			}
		}
	}
	d.chunk, d.open = q.free[len(q.free)-1], direct
	at := d.chunk + frameAt
	return q.umem[at : at+uint64(d.mtu) : at+uint64(d.mtu)]
}

// frameAt is the offset of an outgoing frame in its chunk: on a cache line, with room for the
// headers before it.
const frameAt = 128

// Commit implements link.Driver. It panics if no reservation is open or n exceeds it.
func (d *Driver) Commit(n int) {
	switch {
	case d.open == none:
		panic("xdp: Commit without Reserve")
	case n < 0 || n > d.mtu:
		panic(fmt.Sprintf("xdp: Commit of %d bytes: a frame has at most %d", n, d.mtu))
	case d.open == slow:
		d.open = none
		d.slow.Commit(n)
		return
	case d.open == adrift:
		d.open = none
		d.counters.DroppedOut++
		return
	}
	d.open = none
	q, h := d.queues[0], &d.last.header
	at := d.chunk + frameAt - uint64(h.n)
	h.put(q.umem[at : d.chunk+frameAt+uint64(n)])
	q.free = q.free[:len(q.free)-1]
	q.tx.put(desc{addr: at, length: uint32(h.n + n)})
	d.counters.FramesOut++
	d.counters.BytesOut += uint64(n)
}

// Post implements link.Caps.
func (d *Driver) Post(now clock.Time, frame []byte) {
	d.counters.FramesCopied++
	switch d.open {
	case slow:
		copy(d.staged, frame)
	case direct:
		copy(d.queues[0].umem[d.chunk+frameAt:], frame)
	}
	d.Commit(len(frame))
	d.Flush(now)
}

// Flush implements link.Driver.
func (d *Driver) Flush(now clock.Time) {
	d.now = now
	if d.closed {
		return
	}
	d.slow.Flush(now)
	if len(d.queues) == 0 {
		return
	}
	if q := d.queues[0]; q.tx.show() > 0 || len(q.free) < sendRing/2 && q.tx.pending() {
		d.counters.SystemCalls += q.kick()
		q.reclaim()
		q.giveBack()
	}
}

// Counters implements link.Driver.
func (d *Driver) Counters(c *link.Counters) {
	c.Add(&d.counters)
	c.DroppedIn += d.overrun()
	d.slow.Counters(c)
}

// overrun returns the number of frames that the kernel has dropped because a ring was full.
func (d *Driver) overrun() (frames uint64) {
	for _, q := range d.queues {
		frames += q.overrun()
	}
	return frames
}

// Close implements link.Driver. It removes the program first, so that the kernel gets all
// further frames.
func (d *Driver) Close() error {
	if d.closed {
		return nil
	}
	d.counters.DroppedIn += d.overrun()
	d.closed = true
	return d.release()
}
