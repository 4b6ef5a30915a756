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
	// MTU is the length of the longest frame in bytes: 1452 by default, as for UDP over IPv6 on
	// Ethernet.
	MTU int
	// Latency is the delay between any two ports, without the time to send the frame: 20 µs by
	// default.
	Latency time.Duration
	// Jitter is the longest random delay that is added to Latency: 5 µs by default. It reorders
	// no frames.
	Jitter time.Duration
	// Bandwidth is the number of bytes per second that a port sends: 1.25 GB/s by default.
	Bandwidth int64
	// SendQueue is the number of bytes that may wait in a port to be sent: 256 KiB by default.
	SendQueue int
	// RecvQueue is the number of bytes that may wait in a port for its NIC: 208 KiB by default. A
	// full queue drops frames.
	RecvQueue int
	// Reliable means that Faults lose, duplicate, reorder and damage no frame.
	Reliable bool
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

// network is the switch that connects all ports.
//
//	Reserve, Commit ─► out ─Flush─► wire: bandwidth ─► path: faults, delay ─event─► in ─Poll─► NIC
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

// path is the way from one port to another.
type path struct {
	last     clock.Time // arrival of the latest frame in order
	clogged  clock.Time // no frame arrives before
	blocked  int        // partitions that cut it; all frames are lost unless it is 0
	narrow   int        // longest frame that passes, in bytes; 0: no limit
	burst    int        // frames that the present burst of losses still takes
	burstEnd clock.Time // latest end of the burst
	underway int        // bytes in flight and in the receiver's queue, on a reliable link
}

// frame is one frame in flight. It is the event of its own arrival.
type frame struct {
	net      *network
	buf      []byte // MTU bytes
	n        int
	from, to int
}

// port is the link.Driver of one NIC.
type port struct {
	net   *network
	index int
	addr  link.Addr

	open    *frame     // the reserved frame
	row     []byte     // the reserved run, in place of open
	rowTo   int        // receiving port of the run
	rowSize int        // bytes of each frame of the run
	rows    []byte     // memory of runs, reused
	out     []*frame   // committed, not flushed
	outLen  int        // bytes of out
	freeAt  clock.Time // when the wire has taken all flushed frames
	starved bool       // Reserve has failed since the last call of drained

	in       []*frame // arrived, not polled
	inLen    int      // bytes of in
	joined   []byte   // frames of the run that is handed over
	plugged  bool     // a NIC is there
	arrived  func()   // wakes the NIC
	counters link.Counters
}

const framesPerPoll = 64

// capacity returns the number of bytes that may be in flight to the port's NIC: half of the receive
// queue, as for a socket. It is at least limits.ReceiveCapacityBytes, the default of drivers that
// do not know theirs, even if the queue is smaller.
func (p *port) capacity() uint64 {
	return uint64(max(p.net.link.RecvQueue/2, limits.ReceiveCapacityBytes))
}

// portAddr returns the invented address of a port: fd57::(index+1), port 1.
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
	net := &network{s: s, link: l, faults: faults, rng: stream(seed, 1), counts: counts}
	net.paths = make([]path, ports*ports)
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

// plug connects a NIC. Frames in flight to the previous NIC still arrive, as on a real wire.
func (p *port) plug(arrived func()) { p.plugged, p.arrived = true, arrived }

// unplug discards the frames that wait at the port in either direction.
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

// hand gives the NIC the first frame, or the first several as one run, and returns their number. It
// joins frames as a kernel's receive offload does: same sender, same length, and only the last may
// be shorter.
func (p *port) hand(now clock.Time, to link.Receiver, frames []*frame) (n int) {
	first, from := frames[0], p.net.ports[frames[0].from].addr
	p.joined = append(p.joined[:0], first.buf[:first.n]...)
	joins := func(f *frame) bool { return !p.net.link.Reliable && f.from == first.from && f.n <= first.n && f.n > 0 }
	for n = 1; n < len(frames) && joins(frames[n]); n++ {
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

// full reports whether the send queue or, on a reliable link, the receiver has no room for a frame.
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

// commit appends a frame of n bytes to those that wait for Flush.
func (p *port) commit(f *frame, n int) {
	f.n = n
	p.out = append(p.out, f)
	p.outLen += n
	if p.net.known(f.to) {
		p.net.path(f.from, f.to).underway += n
	}
}

func (p *port) Flush(now clock.Time) {
	now = max(now, p.net.s.now) // the straight way does not read the clock for each message
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

// noteIn counts a frame that the NIC takes.
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

// drained returns the time at which a starved port can send again, or Never if it is not starved.
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

// noteFrame mixes a frame's first bytes and length into the trace. If two runs differ, their
// headers do.
func (net *network) noteFrame(f *frame) {
	h := uint64(f.from)<<48 | uint64(f.to)<<32 | uint64(f.n)
	for b := f.buf[:min(f.n, 64)]; len(b) >= 8; b = b[8:] {
		h = (h ^ binary.LittleEndian.Uint64(b)) * 0x9fb21c651e98df25
	}
	net.s.note(h)
}

// happen is the arrival of the frame.
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
