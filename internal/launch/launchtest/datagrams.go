package launchtest

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/launch"
	"github.com/weftnet/weft/sim"
)

// Datagrams is a second network, without the NICs. Its datagrams take 100 µs.
type Datagrams struct {
	w    *World
	ends map[netip.AddrPort]*End
	next uint16

	// Lose reports whether a datagram is lost. It may be nil.
	Lose func(from, to netip.AddrPort, b []byte) bool

	Sent int
}

// End is one end of such a network.
type End struct {
	net    *Datagrams
	at     netip.AddrPort
	to     netip.AddrPort // of a keeper
	rt     weft.Runtime   // nil until the first Receive
	gate   *weft.Gate
	queue  []datagram
	closed bool
}

type datagram struct {
	from netip.AddrPort
	b    []byte
}

// hostAddr returns the address of a host.
func hostAddr(host int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 0, byte(host >> 8), byte(host)})
}

// Beside gives the hosts datagrams without their NICs, and lets a job use them.
func (w *World) Beside(o *launch.Options) *Datagrams {
	w.beside = &Datagrams{w: w, ends: make(map[netip.AddrPort]*End), next: 5000}
	end := w.beside.End(0)
	o.Notices = &launch.Notices{Datagrams: end,
		NoticePort: launch.NoticePort{Port: end.at.Port(), Key: slices.Repeat([]byte{7}, 32)}}
	return w.beside
}

// End opens an end on a host.
func (d *Datagrams) End(host int) *End {
	d.next++
	e := &End{net: d, at: netip.AddrPortFrom(hostAddr(host), d.next)}
	d.ends[e.at] = e
	return e
}

// notices opens the keeper's end.
func (w *World) notices(p *sim.Process, host int) func(port uint16) (launch.Datagrams, error) {
	if w.beside == nil || host == 0 { // the launcher's host
		return nil
	}
	return func(port uint16) (launch.Datagrams, error) {
		e := w.beside.End(host)
		e.use(p.Runtime())
		e.to = netip.AddrPortFrom(hostAddr(0), port)
		return e, nil
	}
}

func (e *End) use(rt weft.Runtime) {
	e.rt, e.gate = rt, rt.NewGate()
}

// Send sends a datagram.
func (e *End) Send(to netip.AddrPort, b []byte) error {
	if e.to.IsValid() {
		to = e.to
	}
	d := e.net
	d.Sent++
	if d.Lose != nil && d.Lose(e.at, to, b) {
		return nil
	}
	b = slices.Clone(b)
	d.w.F.After(100*time.Microsecond, func() {
		if r := d.ends[to]; r != nil && !r.closed {
			r.queue = append(r.queue, datagram{e.at, b})
			if r.gate != nil {
				r.gate.Open()
			}
		}
	})
	return nil
}

// Receive waits for a datagram.
func (e *End) Receive(ctx context.Context, b []byte) (int, netip.AddrPort, error) {
	for len(e.queue) == 0 {
		if e.closed {
			return 0, netip.AddrPort{}, context.Canceled
		}
		if err := e.gate.Wait(ctx); err != nil {
			return 0, netip.AddrPort{}, err
		}
	}
	m := e.queue[0]
	e.queue = e.queue[1:]
	return copy(b, m.b), m.from, nil
}

// Close closes the end.
func (e *End) Close() error {
	e.closed = true
	if e.gate != nil {
		e.gate.Open()
	}
	return nil
}
