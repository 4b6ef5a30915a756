// Package udp carries frames in UDP datagrams, one frame each, over IPv4 and IPv6.
//
//	Reserve ─► stage, frames in a buffer ─► Flush ─► sendto (one frame), sendmsg (one batch),
//	                                                 sendmmsg (more)
//	arena: a slot for each frame or each batch ◄─ Poll ◄─ recvfrom, recvmsg, recvmmsg;
//	       the same slots each time
//
// Frames are staged without gaps in one small buffer, so that it stays in the cache and so that
// segmentation offload can send neighbours of one length and one destination as a single packet,
// a batch (offload_linux.go). No frame waits for others: all staged frames leave at the Flush. A
// full stage, which is one full batch, is sent by itself. Frames that the kernel does not take
// (its buffer is full) stay staged until the next Flush, and while the stage is full, Reserve
// returns nil. Frames that cannot be sent at all are dropped and counted by cause.
//
// Datagrams have the don't-fragment bit. internal/rel, above this package, finds out if a path
// carries less than the MTU. If one peer gets most of the frames, they leave by a socket that is
// connected to it (direct_linux.go), and large batches leave from memory that the kernel need
// not copy (lend_linux.go).
//
// A driver that listens at every address of the host reports at which one a frame arrived, and
// sends from the address that its user names (source_linux.go).
//
// On Linux the package makes its own system calls, none of which ever blocks. On other systems
// it uses package net, with a goroutine that reads (udp_others.go; on Linux build tag "portable"
// chooses it for tests).
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
	// Addr is the local address; port 0 takes a free one. The unspecified address takes frames
	// for any address of this host; [::] takes those of both families, if the host has IPv6.
	Addr netip.AddrPort

	// MTU is the largest frame in bytes, without UDP and IP headers; 0 = as much as the
	// interface carries (see mtu.go).
	MTU int

	// SocketBuffer is how many bytes of socket buffer to request, for each direction; 0 =
	// limits.SocketBuffer.
	SocketBuffer int

	// NoOffload is the kill switch of segmentation offload in both directions: frames are sent
	// and received one by one.
	NoOffload bool

	// OneSocket omits the direct socket (direct_linux.go), for a user whose frames mostly use
	// another link.
	OneSocket bool

	// Log, if set, is called with a sentence when the driver has to change its way of working.
	// It is called from within the driver's methods and must be quick.
	Log func(text string)
}

// Largest is the largest MTU, in bytes: the limit that the 16-bit length of IPv4 sets for UDP's
// payload. An interface carries less of IPv6: loopback 65,488 on Linux.
const Largest = 65535 - headers4

// ErrAddress is wrapped by errors about an address that is not one.
var ErrAddress = errors.New("no address; expected HOST:PORT, [IPv6]:PORT or :PORT")

// ParseAddr makes an address for Config from a user's text: "10.0.0.1:7000",
// "[fe80::1%eth0]:7000", "hostname:7000", or ":7000" for every address of this host. It looks up
// a host's name, which may take a while.
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

// Stats are the counts that only UDP has, in frames.
type Stats struct {
	TooBig     uint64 // not sent: larger than the path carries
	Unsendable uint64 // not sent: no route, other family, refused by the firewall
	Blocked    uint64 // times the kernel took no more for now; nothing was lost
	Refused    uint64 // times the kernel reported that a peer's host sent an ICMP error
	Oversize   uint64 // received, but larger than the MTU, and dropped
	Overrun    uint64 // dropped by the kernel as a receive buffer was full (if it tells)
	Turned     uint64 // times the direct socket was turned to a peer
	Direct     uint64 // frames that left by it
	Lent       uint64 // of those, frames of batches that the kernel did not copy
	// Frames that left from an address that the system chose, because the host has lost the
	// requested one.
	Resourced uint64
}

// Driver is one UDP address.
type Driver struct {
	addr     link.Addr
	mtu      int
	size     string // explains the MTU
	way      string // explains the rest
	log      func(text string)
	unsent   unsent
	out      stage
	sock     socket // the system's part
	counters link.Counters
	stats    Stats // Overrun is that of closed sockets
	closed   bool
}

var _ link.Driver = (*Driver)(nil)

// Listen opens a socket. Its errors name the address, and wrap the system's errors.
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
		return fmt.Sprintf("MTU %d bytes as configured, more than expected of the path (%d: %s)",
			cfg.MTU, carries, why), nil
	}
	return fmt.Sprintf("MTU %d bytes as configured", cfg.MTU), nil
}

// Explain returns one line that says how the MTU and the buffers were chosen, and what the
// administrator may do for more.
func (d *Driver) Explain() string { return d.size + "; " + d.way }

// ExplainSocket is Explain without the MTU, for a driver around this one that has its own MTU.
func (d *Driver) ExplainSocket() string { return d.way }

// ReceiveBuffer returns how many bytes of full frames may safely be in flight to this socket:
// half of the size that the kernel granted, because it charges its own bookkeeping to the
// buffer, too. Small frames cost it far more than their length.
func (d *Driver) ReceiveBuffer() int { return d.sock.receiveBuffer }

// Addr implements link.Driver. It returns the unspecified address, which no peer can use, if
// Config named that.
func (d *Driver) Addr() link.Addr { return d.addr }

// MTU implements link.Driver.
func (d *Driver) MTU() int { return d.mtu }

// Properties implements link.Driver: UDP promises nothing. Its checksum of 16 bits is too weak
// to count.
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

// CommitRun implements link.Caps. It panics if fewer frames were reserved.
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

// retry is the time after which refused frames are tried again, if nothing happens before: the
// time in which a gigabit link sends some ten frames.
const retry = 100 * time.Microsecond

// Poll implements link.Driver. It makes one system call, two when coalescing ends, or none if
// the last one brought more than a batch. While committed frames wait for the kernel it asks to
// be polled, and flushed, again soon.
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
