// Package udp carries frames in UDP datagrams, one frame each, over IPv4 and IPv6.
//
//	Reserve ─► stage: frames side by side ─► Flush ─► sendto (one frame), sendmsg (one batch), sendmmsg (more)
//	arena: a slot for each frame or each batch ◄─ Poll ◄─ recvfrom, recvmsg, recvmmsg; the same slots every time
//
// Frames are staged without gaps in one small buffer, so that it stays in the cache and so that segmentation offload
// can send neighbours of one length and one destination as a single packet, a batch (offload_linux.go). Nothing waits for
// company: whatever is staged leaves at the Flush. A full stage, which is one full batch, is sent of its own accord.
// What the kernel does not take (its buffer is full) stays staged until the next Flush, and while the stage is full,
// Reserve says nil. What cannot be sent at all is dropped and counted by cause.
//
// Datagrams have the don't-fragment bit. A path that carries less than the MTU is found out above, by internal/rel.
// Where one peer has most of the frames, they leave by a socket that is connected to it (direct_linux.go), and large batches out of
// memory that the kernel need not copy (lend_linux.go).
//
// A driver that listens at every address of the host tells at which one a frame arrived, and sends
// from the address that its user names (source_linux.go).
//
// Linux has system calls of its own, none of which ever blocks; other systems use package
// net, with a goroutine that reads (udp_others.go; on Linux build tag "portable" chooses it for tests).
package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// Config says where and how to listen.
type Config struct {
	// Addr is the local address; port 0 takes a free one. The unspecified address takes frames for any address of this
	// host; [::] those of both families, where the host has IPv6.
	Addr netip.AddrPort

	// MTU is the largest frame in bytes, without UDP and IP headers; 0 = what the interface carries (see mtu.go).
	MTU int

	// SocketBuffer is how many bytes of socket buffer to ask for, each way; 0 = limits.SocketBuffer.
	SocketBuffer int

	// NoOffload is the kill switch of segmentation offload, both ways: frames are sent and received one by one.
	NoOffload bool

	// OneSocket does without a direct socket (direct_linux.go), for a user whose frames mostly go by another link.
	OneSocket bool

	// Log, if set, is told in a sentence when the driver has to change how it goes about things. It is called from within
	// the driver's methods and must be quick.
	Log func(text string)
}

// Largest is the largest MTU, in bytes: what the 16-bit length of IPv4 leaves for UDP's payload. An interface carries
// less of IPv6: loopback 65,488 on Linux.
const Largest = 65535 - headers4

// ErrAddress is wrapped by errors about an address that is none.
var ErrAddress = errors.New("no address; expected HOST:PORT, [IPv6]:PORT or :PORT")

// ParseAddr makes an address for Config out of what a user writes: "10.0.0.1:7000", "[fe80::1%eth0]:7000",
// "hostname:7000", or ":7000" for every address of this host. A host's name is looked up, which may take a while.
func ParseAddr(s string) (netip.AddrPort, error) {
	if a, err := netip.ParseAddrPort(s); err == nil {
		return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || port == "" {
		return netip.AddrPort{}, fmt.Errorf("%q: %w", s, ErrAddress)
	}
	if host == "" {
		host = "::"
	}
	a, err := net.ResolveUDPAddr("udp", net.JoinHostPort(host, port))
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q: %w (%v)", s, ErrAddress, err)
	}
	p := a.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port()), nil
}

// Stats are what UDP alone can count, in frames.
type Stats struct {
	TooBig     uint64 // not sent: larger than the path carries
	Unsendable uint64 // not sent: no route, other family, refused by the firewall
	Blocked    uint64 // times the kernel took no more for now; nothing was lost
	Refused    uint64 // times the kernel reported that a peer's host sent an ICMP error
	Oversize   uint64 // received, but larger than the MTU, and dropped
	Overrun    uint64 // dropped by the kernel because a receive buffer was full (where it tells)
	Turned     uint64 // times the direct socket was turned to a peer
	Direct     uint64 // frames that left by it
	Lent       uint64 // of those, frames of batches that the kernel did not copy
	Resourced  uint64 // frames that left from an address of the system's choice, since the host has lost the one asked for
}

// Driver is one UDP address.
type Driver struct {
	addr     link.Addr
	mtu      int
	size     string // how the MTU came about
	way      string // how the rest did
	log      func(text string)
	unsent   unsent
	out      stage
	sock     socket // the system's part
	counters link.Counters
	stats    Stats // Overrun: of sockets that are closed
	closed   bool
}

var _ link.Driver = (*Driver)(nil)

// Listen opens a socket. Its errors name the address; they wrap the system's.
func Listen(cfg Config) (*Driver, error) {
	if !cfg.Addr.IsValid() {
		return nil, fmt.Errorf("udp: listen on %q: %w", cfg.Addr, ErrAddress)
	}
	cfg.Addr = netip.AddrPortFrom(cfg.Addr.Addr().Unmap(), cfg.Addr.Port())
	if cfg.SocketBuffer == 0 {
		cfg.SocketBuffer = limits.SocketBuffer
	}
	d := &Driver{log: cfg.Log}
	var err error
	if d.size, err = d.chooseMTU(cfg); err != nil {
		return nil, fmt.Errorf("udp: listen on %v: %w", cfg.Addr, err)
	}
	offload := d.chooseOffload(cfg)
	if err := d.sock.open(cfg, d.mtu); err != nil {
		return nil, fmt.Errorf("udp: listen on %v: %w", cfg.Addr, err)
	}
	d.addr = d.sock.localAddr()
	d.out = newStage(d.mtu)
	d.way = offload + "; " + d.sock.explain(cfg.SocketBuffer) + d.sock.addDirect(cfg, d.addr)
	return d, nil
}

// say tells the log, if there is one.
func (d *Driver) say(text string) {
	if d.log != nil {
		d.log(text)
	}
}

func (d *Driver) chooseMTU(cfg Config) (why string, err error) {
	carries, why, err := interfaceMTU(cfg.Addr.Addr())
	if err != nil {
		return "", err
	}
	if cfg.MTU == 0 {
		if carries < limits.LeastFrame {
			return "", fmt.Errorf("MTU %d bytes: %s; expected %d or more", carries, why, limits.LeastFrame)
		}
		d.mtu = carries
		return fmt.Sprintf("MTU %d bytes: %s", carries, why), nil
	}
	if cfg.MTU < limits.LeastFrame || cfg.MTU > Largest {
		return "", fmt.Errorf("MTU of %d bytes: not in %d…%d", cfg.MTU, limits.LeastFrame, Largest)
	}
	d.mtu = cfg.MTU
	if cfg.MTU > carries {
		return fmt.Sprintf("MTU %d bytes as configured, more than expected of the path (%d: %s)", cfg.MTU, carries, why), nil
	}
	return fmt.Sprintf("MTU %d bytes as configured", cfg.MTU), nil
}

// Explain says in one line how MTU and buffers came about, and what the administrator may do for more.
func (d *Driver) Explain() string { return d.size + "; " + d.way }

// ExplainSocket is Explain without the MTU, for a driver around this one that has an MTU of its own.
func (d *Driver) ExplainSocket() string { return d.way }

// ReceiveBuffer is how many bytes of full frames may safely be under way to this socket: half of what the kernel
// granted, because it charges its own bookkeeping to the buffer, too. Small frames cost it far more than their length.
func (d *Driver) ReceiveBuffer() int { return d.sock.receiveBuffer }

// Addr implements link.Driver. It is the unspecified address, which no peer can use, if Config named that.
func (d *Driver) Addr() link.Addr { return d.addr }

// MTU implements link.Driver.
func (d *Driver) MTU() int { return d.mtu }

// Properties implements link.Driver: UDP promises nothing. Its checksum of 16 bits is too weak to count.
func (d *Driver) Properties() link.Properties { return link.Properties{} }

// Stats returns UDP's own counts.
func (d *Driver) Stats() Stats {
	s := d.stats
	s.Overrun += d.sock.overrun()
	return s
}

// Counters implements link.Driver.
func (d *Driver) Counters(c *link.Counters) {
	own := d.counters
	s := d.Stats()
	own.DroppedOut += s.TooBig + s.Unsendable
	own.DroppedIn += s.Oversize + s.Overrun
	c.Add(&own)
}

// Reserve implements link.Driver.
func (d *Driver) Reserve(to link.Addr) []byte {
	if d.closed {
		return nil
	}
	d.out.abandon()
	if d.out.full() {
		d.transmit()
	}
	return d.out.reserve(to)
}

// Commit implements link.Driver. It panics if no reservation is open or n exceeds it.
func (d *Driver) Commit(n int) {
	d.out.commit(n)
	d.counters.FramesOut++
	d.counters.BytesOut += uint64(n)
}

// ReserveRun implements link.Caps.
func (d *Driver) ReserveRun(to link.Addr, size, n int) []byte {
	if d.closed {
		return nil
	}
	d.out.abandon()
	if d.out.full() {
		d.transmit()
	}
	if len(d.out.frames) == 0 {
		d.stageLent(to, size, n)
	}
	return d.out.reserveRun(to, size, n)
}

// CommitRun implements link.Caps. It panics if fewer have been offered.
func (d *Driver) CommitRun(n int) {
	d.out.commitRun(n)
	d.counters.FramesOut += uint64(n)
	d.counters.BytesOut += uint64(n * d.out.size)
}

// Flush implements link.Driver.
func (d *Driver) Flush(clock.Time) {
	if d.out.pending() > 0 && !d.closed {
		d.transmit()
	}
}

// retry is when frames that the kernel did not take are tried again, if nothing happens before: the time in which a
// gigabit link sends some ten frames.
const retry = 100 * time.Microsecond

// Poll implements link.Driver. It makes one system call, two where coalescing ends, or none if the last one brought more than a batch. While sent
// frames wait for the kernel it wants to be polled,
// and flushed, again soon.
func (d *Driver) Poll(now clock.Time, to link.Receiver) (int, clock.Time) {
	if d.closed {
		return 0, clock.Never
	}
	n := d.receive(now, to)
	switch {
	case d.closed:
		return n, clock.Never
	case d.sock.more():
		return n, now
	case d.out.pending() > 0:
		return n, now.Add(retry)
	}
	return n, clock.Never
}

// hand gives one received frame to the engine.
func (d *Driver) hand(now clock.Time, to link.Receiver, from link.Addr, frame []byte) {
	d.counters.FramesIn++
	d.counters.BytesIn += uint64(len(frame))
	to.Receive(now, from, frame)
}

// Close implements link.Driver. Frames that were not flushed are lost.
func (d *Driver) Close() error {
	if d.closed {
		return nil
	}
	d.stats.Overrun += d.sock.overrun()
	d.closed = true
	if err := d.sock.close(); err != nil {
		return fmt.Errorf("udp: close %v: %w", d.addr, err)
	}
	return nil
}
