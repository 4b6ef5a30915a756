//go:build linux && !portable

package udp

import (
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// paths knows the destinations to which frames of the MTU do not get through whole, because a network in the middle
// carries less than both ends:
//
//	host ══ 1500 ══ router ── 1400 ── router ══ 1500 ══ host
//
// It shows in one of two ways. The router says so (ICMP), and the kernel refuses the next frame of that length; or nobody
// says so, and rel sees large frames lost again and again while small ones arrive (DoubtSize). From then on frames for
// there may be cut into IP fragments, by this host or by the router: slow, since one that is lost loses the frame, but
// nothing stands still; and the log says which MTU to configure. Shorter frames instead would be the better mend, but what
// is under way has its length for life.
type paths struct {
	narrow []link.Addr
	pieces bool // the socket's options are set so that IP fragments are allowed
}

func (p *paths) isNarrow(to link.Addr) bool {
	return len(p.narrow) > 0 && slices.Contains(p.narrow, to)
}

// DoubtSize implements link.Doubter.
func (d *Driver) DoubtSize(to link.Addr) {
	d.narrow(to, "large frames were lost again and again, and small ones were not")
}

// narrow notes that frames for to may leave in IP fragments. It is false if that was so already, or if there are too many
// such destinations.
func (d *Driver) narrow(to link.Addr, why string) bool {
	p := &d.sock.paths
	if p.isNarrow(to) || len(p.narrow) == limits.NarrowDestinations {
		return false
	}
	p.narrow = append(p.narrow, to)
	o := &d.sock.offload
	if o.batches(to) && len(o.plain) < limits.PlainDestinations {
		o.plain = append(o.plain, to) // a batch cannot be cut up so
	}
	mend := fmt.Sprintf("an mtu of less than %d, on both hosts", d.mtu)
	if n := d.sock.pathMTU(to); n >= limits.LeastFrame && n < d.mtu {
		mend = fmt.Sprintf("mtu = %d, on both hosts", n)
	}
	d.say(fmt.Sprintf("the path to %v carries less than frames of %d bytes: %s. They leave in IP fragments from now on, which is slow; the mend is %s",
		to, d.mtu, why, mend))
	return true
}

// inPieces allows IP fragments to the frames of the next system call, or forbids them.
func (s *socket) inPieces(pieces bool) {
	if s.paths.pieces == pieces {
		return
	}
	s.paths.pieces = pieces
	four, six, carries := unix.IP_PMTUDISC_DO, unix.IPV6_PMTUDISC_DO, 0
	if pieces {
		// Routers of IPv6 cut up nothing, so that this host has to, into what every path carries.
		four, six, carries = unix.IP_PMTUDISC_DONT, unix.IPV6_PMTUDISC_DONT, 1280
	}
	_ = unix.SetsockoptInt(s.fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, four)
	if s.six {
		_ = unix.SetsockoptInt(s.fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, six)
		_ = unix.SetsockoptInt(s.fd, unix.IPPROTO_IPV6, unix.IPV6_MTU, carries)
	}
}

// pathMTU is the largest frame that the kernel believes the path to carry, 0 if it does not say. It asks by a socket that
// is connected to there and sends nothing.
func (s *socket) pathMTU(to link.Addr) int {
	family, level, option, headers := unix.AF_INET, unix.IPPROTO_IP, unix.IP_MTU, headers4
	six := to.Addr().Is6()
	if six {
		family, level, option, headers = unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_MTU, headers6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	var name sockaddr
	n, ok := name.set(to, six, &s.zones)
	if !ok {
		return 0
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&name)), uintptr(n)); errno != 0 {
		return 0
	}
	mtu, err := unix.GetsockoptInt(fd, level, option)
	if err != nil {
		return 0
	}
	return mtu - headers
}
