package sim

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/simulated"
)

// Link describes the network without faults. Zero fields take the defaults.
type Link struct {
	MTU       int           // most bytes of a frame; 1452 by default, as for UDP over IPv6 on Ethernet
	Latency   time.Duration // delay between any two ports, without the time on the wire; 20 µs by default
	Jitter    time.Duration // most random delay of a frame on top; it reorders nothing; 5 µs by default
	Bandwidth int64         // bytes a second that leave a port; 1.25 GB/s by default
	SendQueue int           // bytes that may wait in a port to leave; 256 KiB by default
	RecvQueue int           // bytes that may wait in a port for its NIC; 208 KiB by default; more is dropped
	Reliable  bool          // no frame is lost, duplicated, reordered or damaged, whatever Faults says
}

func (l *Link) setDefaults() {
	setDefault(&l.MTU, 1452)
	setDefault(&l.Latency, 20*time.Microsecond)
	setDefault(&l.Jitter, 5*time.Microsecond)
	setDefault(&l.Bandwidth, 1_250_000_000)
	setDefault(&l.SendQueue, 256<<10)
	setDefault(&l.RecvQueue, 208<<10)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// network is the switch that all ports hang on.
//
//	Reserve, Commit ─► out ─Flush─► wire (bandwidth) ─► path (faults, latency) ─event─► inbox ─Poll─► NIC
type network struct {
	s      *sched
	link   Link
	faults Faults
	rng    *rand.Rand
	counts *Counts
	ports  []*port
	paths  []path   // from × len(ports) + to
	free   []*frame // frames for reuse
	tap    func(from, to int, frame []byte)
	uses   simulated.Uses
	can    able
}

// path is one direction between two ports.
type path struct {
	last     clock.Time // arrival of the latest frame in order
	clogged  clock.Time // nothing arrives before
	blocked  int        // partitions that it crosses: while there is one, everything is lost
	narrow   int        // frames of more bytes are lost; 0: none are
	burst    int        // frames still to be lost of the present burst of losses,
	burstEnd clock.Time // which ends by then in any case
	underway int        // bytes on the wire and in the inbox at its end, of a reliable link
}

// frame is one frame on its way. It is the event of its own arrival.
type frame struct {
	net      *network
	buf      []byte // MTU bytes
	n        int
	from, to int
}

// port is one attachment. It is the link.Driver of the NIC that is plugged in.
type port struct {
	net   *network
	index int
	addr  link.Addr

	open    *frame   // the reservation,
	row     []byte   // or that of a run,
	rowTo   int      // where it goes,
	rowSize int      // and how long its frames are
	rows    []byte   // memory of runs
	out     []*frame // committed
	outLen  int      // bytes of them
	freeAt  clock.Time
	starved bool // Reserve said no since the last look

	in       []*frame // arrived
	inLen    int      // bytes of them
	joined   []byte   // frames that are handed over as one run
	plugged  bool
	arrived  func() // tells the NIC
	counters link.Counters
}

const framesPerPoll = 64

// capacity is how many bytes the port's NIC says may be under way to it: half of what the port holds, as that of a socket. It says no less than one whose
// driver knows no better, though a port may hold less.
func (p *port) capacity() uint64 {
	return uint64(max(p.net.link.RecvQueue/2, limits.ReceiveCapacityBytes))
}

// Addresses are made up: fd57::(index+1), port 1.
func portAddr(index int) link.Addr {
	b := [16]byte{0: 0xfd, 1: 0x57}
	binary.BigEndian.PutUint32(b[12:], uint32(index+1))
	return netip.AddrPortFrom(netip.AddrFrom16(b), 1)
}

func portIndex(a link.Addr) int {
	b := a.Addr().As16()
	return int(binary.BigEndian.Uint32(b[12:])) - 1
}

func newNetwork(s *sched, seed uint64, ports int, l Link, faults Faults, counts *Counts) *network {
	l.setDefaults()
	net := &network{s: s, link: l, faults: faults, rng: stream(seed, 1), counts: counts, paths: make([]path, ports*ports)}
	net.can = drawAble(stream(seed, 4))
	for i := range ports {
		net.ports = append(net.ports, &port{net: net, index: i, addr: portAddr(i)})
	}
	return net
}

func (net *network) path(from, to int) *path { return &net.paths[from*len(net.ports)+to] }

func (net *network) newFrame() *frame {
	if n := len(net.free); n > 0 {
		f := net.free[n-1]
		net.free = net.free[:n-1]
		return f
	}
	return &frame{net: net, buf: make([]byte, net.link.MTU)}
}

func (net *network) release(f *frame) { net.free = append(net.free, f) }

// plug connects a NIC; what was under way to the one before it still arrives, as it would on a real wire.
func (p *port) plug(arrived func()) { p.plugged, p.arrived = true, arrived }

// unplug loses what waits at the port in either direction.
func (p *port) unplug() {
	p.plugged = false
	for _, f := range p.in {
		p.net.path(f.from, f.to).underway -= f.n
		p.net.release(f)
	}
	for _, f := range p.out {
		p.net.release(f)
	}
	p.in, p.inLen, p.out, p.outLen, p.starved = p.in[:0], 0, p.out[:0], 0, false
}

func (p *port) Addr() link.Addr { return p.addr }
func (p *port) MTU() int        { return p.net.link.MTU }

func (p *port) Properties() link.Properties {
	r := p.net.link.Reliable
	return link.Properties{Reliable: r, Ordered: r, Checked: r, Whole: r}
}

func (p *port) Poll(now clock.Time, to link.Receiver) (int, clock.Time) {
	n := min(len(p.in), framesPerPoll)
	for _, f := range p.in[:n] {
		p.noteIn(f)
	}
	for at := 0; at < n; {
		at += p.hand(now, to, p.in[at:n])
	}
	for _, f := range p.in[:n] {
		p.net.release(f)
	}
	if p.in = append(p.in[:0], p.in[n:]...); len(p.in) > 0 {
		return n, now
	}
	return n, clock.Never
}

// hand hands over the first of some frames, or as many as a system would have joined: of one length and one sender, but for the last,
// which may be shorter.
func (p *port) hand(now clock.Time, to link.Receiver, frames []*frame) (n int) {
	first, from := frames[0], p.net.ports[frames[0].from].addr
	p.joined = append(p.joined[:0], first.buf[:first.n]...)
	for n = 1; !p.net.link.Reliable && n < len(frames) && frames[n].from == first.from && frames[n].n <= first.n && frames[n].n > 0; n++ {
		p.joined = append(p.joined, frames[n].buf[:frames[n].n]...)
		if frames[n].n < first.n {
			n++
			break
		}
	}
	if n == 1 {
		to.Receive(now, from, first.buf[:first.n])
	} else {
		to.ReceiveRun(now, from, p.joined, first.n)
	}
	return n
}

func (p *port) Reserve(to link.Addr) []byte {
	if p.full(to) {
		p.starved = true
		return nil
	}
	if p.open == nil {
		p.open = p.net.newFrame()
	}
	p.open.from, p.open.to = p.index, portIndex(to)
	p.row = nil
	return p.open.buf[:p.net.link.MTU]
}

// full reports whether a frame for to has no room in the send queue or, on a reliable link, at its destination.
func (p *port) full(to link.Addr) bool {
	waiting := p.outLen
	if late := p.freeAt.Sub(p.net.s.now); late > 0 {
		waiting += int(int64(late) * p.net.link.Bandwidth / int64(time.Second))
	}
	if waiting > p.net.link.SendQueue {
		return true
	}
	i := portIndex(to)
	return p.net.link.Reliable && p.net.known(i) && p.net.path(p.index, i).underway > p.net.link.RecvQueue/2
}

func (net *network) known(port int) bool { return uint(port) < uint(len(net.ports)) }

func (p *port) Commit(n int) {
	f := p.open
	p.open = nil
	p.commit(f, n)
}

// commit puts a frame of n bytes behind those that wait to leave.
func (p *port) commit(f *frame, n int) {
	f.n = n
	p.out = append(p.out, f)
	p.outLen += n
	if p.net.known(f.to) {
		p.net.path(f.from, f.to).underway += n
	}
}

func (p *port) Flush(now clock.Time) {
	now = max(now, p.net.s.now) // the straight way does not look at the clock for each message
	for _, f := range p.out {
		p.counters.FramesOut++
		p.counters.BytesOut += uint64(f.n)
		p.freeAt = max(p.freeAt, now).Add(p.net.onWire(f.n))
		p.net.noteFrame(f)
		if p.net.tap != nil {
			p.net.tap(f.from, f.to, f.buf[:f.n])
		}
		p.net.carry(f, p.freeAt)
	}
	p.out, p.outLen = p.out[:0], 0
}

// noteIn counts a frame that is handed over.
func (p *port) noteIn(f *frame) {
	p.inLen -= f.n
	if p.net.link.Reliable {
		p.net.path(f.from, f.to).underway -= f.n
	}
	p.counters.FramesIn++
	p.counters.BytesIn += uint64(f.n)
}

func (p *port) Counters(c *link.Counters) {
	c.FramesIn += p.counters.FramesIn
	c.FramesOut += p.counters.FramesOut
	c.BytesIn += p.counters.BytesIn
	c.BytesOut += p.counters.BytesOut
	c.DroppedIn += p.counters.DroppedIn
}

func (p *port) Close() error { return nil }

// drained is when a starved port can send again, or Never.
func (p *port) drained() clock.Time {
	if !p.starved {
		return clock.Never
	}
	p.starved = false
	return max(p.net.s.now, p.freeAt.Add(-p.net.onWire(p.net.link.SendQueue/2))).Add(p.net.link.Latency)
}

func (net *network) onWire(bytes int) time.Duration {
	return time.Duration(int64(bytes) * int64(time.Second) / net.link.Bandwidth)
}

// noteFrame puts a frame's beginning and length into the trace: headers differ as soon as anything differs.
func (net *network) noteFrame(f *frame) {
	h := uint64(f.from)<<48 | uint64(f.to)<<32 | uint64(f.n)
	for b := f.buf[:min(f.n, 64)]; len(b) >= 8; b = b[8:] {
		h = (h ^ binary.LittleEndian.Uint64(b)) * 0x9fb21c651e98df25
	}
	net.s.note(h)
}

// happen is the arrival.
func (f *frame) happen(uint64) {
	net, p := f.net, f.net.ports[f.to]
	at := net.path(f.from, f.to)
	switch {
	case at.blocked > 0:
		net.counts.Partitioned++
	case !p.plugged:
		net.counts.Unplugged++
	case p.inLen+f.n > net.link.RecvQueue && !net.link.Reliable:
		net.counts.Overflowed++
		p.counters.DroppedIn++
	default:
		p.in = append(p.in, f)
		p.inLen += f.n
		p.arrived()
		return
	}
	at.underway -= f.n
	net.release(f)
}
