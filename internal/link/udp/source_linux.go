//go:build linux && !portable

package udp

import (
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
)

// A socket that listens at every address of the host has no source address of its own: the
// kernel chooses one for each frame, by its present routes. A peer drops frames that do not come
// from the address that it calls. So the driver tells its user at which address each frame has
// arrived, and sends frames from the address that the user names:
//
//	frame ─► IP_PKTINFO, IPV6_PKTINFO ─► Reached ─► user's session ─► From ─►
//	         the same in sendmsg ─► frame
//
// The user decides, and not the driver, since the user knows which frames are the peer's: a
// forged frame must not change the source of a session. A socket of one address has none of
// this, and no cost for it. A socket of IPv6 that also carries IPv4 gets both kinds of address
// as IPv6 addresses.

// tellSources makes the kernel report at which address frames arrive, unless ip is a single
// address.
func (s *socket) tellSources(ip netip.Addr) {
	level, option := unix.IPPROTO_IP, unix.IP_PKTINFO
	if s.six {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO
	}
	s.sources = ip.IsUnspecified() && unix.SetsockoptInt(s.fd, level, option, 1) == nil
}

// local is an address of this host as the kernel last reported it, and the same in our form.
// Most frames arrive at the address of the frame before.
type local struct {
	bytes [16]byte
	n     int
	ip    netip.Addr
}

// reached returns the address of this host, of 4 or 16 bytes, among the control messages of one
// buffer; nil if there is none. The kernel wrote them, so they are complete.
func reached(b []byte) []byte {
	const head = unix.SizeofCmsghdr
	for len(b) > head {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
		length := int(h.Len)
		if length <= head || length > len(b) {
			return nil
		}
		switch data := b[head:length]; {
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
			return data[4:8] // ipi_spec_dst
		case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
			return data[:16] // ipi6_addr
		}
		b = b[min(len(b), unix.CmsgSpace(length-head)):]
	}
	return nil
}

// note takes an address of 4 or 16 bytes, or none.
func (l *local) note(b []byte) {
	if l.n == len(b) && string(l.bytes[:l.n]) == string(b) {
		return
	}
	l.n = copy(l.bytes[:], b)
	ip, _ := netip.AddrFromSlice(b)
	if l.ip = ip.Unmap(); l.ip.IsMulticast() { // nothing leaves from there
		l.ip = netip.Addr{}
	}
}

// Reached implements link.Caps.
func (d *Driver) Reached() netip.Addr { return d.sock.in.here.ip }

// From implements link.Caps.
func (d *Driver) From(ip netip.Addr) { d.out.source = ip }

// receiveOneTold asks for a lone frame, and for the address at which it has arrived.
func (d *Driver) receiveOneTold(fd int, now clock.Time, to link.Receiver) int {
	in := &d.sock.in
	r := &in.several
	n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.headers[0].Msghdr)),
		unix.MSG_DONTWAIT|unix.MSG_TRUNC)
	if errno != 0 {
		d.receiveError(errno)
		return 0
	}
	in.here.note(reached(r.message(0)))
	in.mode, in.lone, in.sole = modeSeveral, true, d.sender(&r.names[0])
	r.ready(0)
	if int(n) > d.mtu {
		d.stats.Oversize++
		return 0
	}
	d.hand(now, to, in.sole, in.arena[:n])
	return 1
}

// sendControl holds the control messages of a batch: the length of its frames, and its source
// address. Either may be left out, and the used ones are contiguous.
type sendControl struct {
	segment segmentControl
	source  sourceControl
}

// sourceControl is struct in_pktinfo or struct in6_pktinfo after its header.
type sourceControl struct {
	unix.Cmsghdr
	info [24]byte
}

func newSendControls(n int) []sendControl {
	c := make([]sendControl, n)
	for i := range c {
		c[i].segment.Level, c[i].segment.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
		c[i].segment.SetLen(unix.CmsgLen(2))
	}
	return c
}

// set makes c name a source address for a socket of IPv6 (six) or IPv4, and returns its length;
// 0 if such a socket cannot send from ip. The kernel's routes choose the interface.
func (c *sourceControl) set(ip netip.Addr, six bool) int {
	c.info = [24]byte{}
	switch {
	case six:
		c.Level, c.Type = unix.IPPROTO_IPV6, unix.IPV6_PKTINFO
		c.SetLen(unix.CmsgLen(unix.SizeofInet6Pktinfo))
		from := ip.As16() // mapped, if it is IPv4
		copy(c.info[:], from[:])
		return unix.CmsgSpace(unix.SizeofInet6Pktinfo)
	case ip.Is4():
		c.Level, c.Type = unix.IPPROTO_IP, unix.IP_PKTINFO
		c.SetLen(unix.CmsgLen(unix.SizeofInet4Pktinfo))
		from := ip.As4()
		copy(c.info[4:], from[:]) // ipi_spec_dst
		return unix.CmsgSpace(unix.SizeofInet4Pktinfo)
	}
	return 0
}

// attach makes c the control messages of h: for frames of size bytes, if size is not 0, and from an
// address, if that is valid.
func (c *sendControl) attach(h *header, size uint16, from netip.Addr, six bool) {
	h.Control = nil
	h.SetControllen(0)
	length := 0
	if from.IsValid() {
		length = c.source.set(from, six)
	}
	switch {
	case size > 0:
		c.segment.size = size
		h.Control = (*byte)(unsafe.Pointer(&c.segment))
		length += int(unsafe.Sizeof(c.segment))
	case length > 0:
		h.Control = (*byte)(unsafe.Pointer(&c.source))
	}
	h.SetControllen(length)
}

// resource reports whether a send failed whose frames were to leave from a certain address,
// which the host may have lost. The frames then leave from an address that the system chooses.
func (d *Driver) resource(errno unix.Errno) bool {
	first := &d.out.waiting()[0]
	end := &d.out.peers[first.to]
	if !end.from.IsValid() {
		return false
	}
	switch errno {
	case unix.EINVAL, unix.EADDRNOTAVAIL, unix.ENODEV, unix.ENETUNREACH, unix.EHOSTUNREACH:
	default:
		return false
	}
	end.from = netip.Addr{}
	for i := range d.out.waiting() {
		if d.out.waiting()[i].to == first.to {
			d.stats.Resourced++
		}
	}
	return true
}
