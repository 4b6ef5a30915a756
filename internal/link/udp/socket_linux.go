//go:build linux && !portable

package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/link"
)

// socket is a non-blocking UDP socket, with a second one at the same address, and the arguments
// of their system calls, made once.
type socket struct {
	fd            int  // the listening socket
	six           bool // of IPv6; the listening socket may also carry IPv4, as mapped addresses
	receiveBuffer int
	sendBuffer    int
	in            inbound
	out           outbound
	direct        direct
	lent          lender
	offload       offload
	zones         zones
	sources       bool // the kernel reports at which address of this host a frame has arrived
}

// Caps implements link.Driver.
func (d *Driver) Caps() link.Caps {
	c := link.Caps{
		Post: d.Post, ReserveRun: d.ReserveRun, CommitRun: d.CommitRun, DoubtBatches: d.DoubtBatches,
		ReceiveBuffer: d.ReceiveBuffer,
		Fd:            d.Fd, Sleep: d.Sleep, Awake: d.Awake,
	}
	if d.sock.sources {
		c.Reached, c.From = d.Reached, d.From
	}
	return c
}

// Fd implements link.Caps. It returns -1 once the driver is closed.
func (d *Driver) Fd() int { return d.sock.fd }

func (s *socket) open(cfg Config, mtu int) error {
	s.direct.fd = -1
	err := s.bind(cfg.Addr)
	if cfg.Addr.Addr() == netip.IPv6Unspecified() &&
		(errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL)) {
		// A host without IPv6 still has "every address of this host".
		err = s.bind(netip.AddrPortFrom(netip.IPv4Unspecified(), cfg.Addr.Port()))
	}
	if err != nil {
		return err
	}
	s.receiveBuffer, s.sendBuffer = raiseBuffers(s.fd, cfg.SocketBuffer)
	s.in = newInbound(mtu, s.offload.receive, s.sources)
	s.out = newOutbound()
	return nil
}

// bind makes the listening socket. On an error it leaves nothing open.
func (s *socket) bind(addr netip.AddrPort) (err error) {
	s.six = addr.Addr().Is6()
	if s.fd, err = newSocket(s.six); err != nil {
		return err
	}
	if err = s.prepare(addr); err != nil {
		unix.Close(s.fd)
		s.fd = -1
	}
	return err
}

func newSocket(six bool) (fd int, err error) {
	family := unix.AF_INET
	if six {
		family = unix.AF_INET6
	}
	fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	return fd, os.NewSyscallError("socket", err)
}

func (s *socket) prepare(addr netip.AddrPort) error {
	if err := setOptions(s.fd, s.six, addr.Addr()); err != nil {
		return err
	}
	var name sockaddr
	n, ok := name.set(addr, s.six, &s.zones)
	if !ok {
		return fmt.Errorf("no interface %q", addr.Addr().Zone())
	}
	s.tellSources(addr.Addr())
	return bindTo(s.fd, &name, n)
}

func bindTo(fd int, name *sockaddr, size uint32) error {
	_, _, errno := unix.RawSyscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(name)), uintptr(size))
	if errno != 0 {
		return os.NewSyscallError("bind", errno)
	}
	return nil
}

// setOptions sets the options that must be set before a socket is bound to ip.
func setOptions(fd int, six bool, ip netip.Addr) error {
	// Don't fragment, even if a router seems to report a small MTU. rel finds out how long
	// frames may be on a path by frames that arrive (internal/rel), and an attacker that forges
	// a router's message must not make them short. A frame that is too long for the interface is
	// refused (EMSGSIZE). A mapped IPv4 address on an IPv6 socket obeys the option of IPv4.
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER,
		unix.IP_PMTUDISC_PROBE); err != nil && !six {
		return os.NewSyscallError("setsockopt IP_MTU_DISCOVER", err)
	}
	if !six {
		return nil
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE); err != nil {
		return os.NewSyscallError("setsockopt IPV6_MTU_DISCOVER", err)
	}
	only := 1
	if ip.IsUnspecified() {
		only = 0
	}
	return os.NewSyscallError("setsockopt IPV6_V6ONLY",
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, only))
}

// raiseBuffers asks for larger buffers: with privilege beyond the system's limit, otherwise up
// to it. To get less is no error; explain reports it.
func raiseBuffers(fd, want int) (receive, send int) {
	for _, option := range [][2]int{{unix.SO_RCVBUFFORCE, unix.SO_RCVBUF}, {unix.SO_SNDBUFFORCE, unix.SO_SNDBUF}} {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, option[0], want) != nil {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option[1], want)
		}
	}
	// The kernel doubles the requested size and returns the double.
	granted := func(option int) int {
		got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
		if err != nil {
			return 0
		}
		return got / 2
	}
	return granted(unix.SO_RCVBUF), granted(unix.SO_SNDBUF)
}

// explain returns a text about the sizes of the buffers. It mentions the send buffer only if
// that is short: frames wait for it, and none is lost.
func (s *socket) explain(want int) string {
	why := fmt.Sprintf("receive buffer %d KiB", s.receiveBuffer>>10)
	if s.receiveBuffer < want {
		why = fmt.Sprintf("receive buffer only %d KiB of %d: for more, sysctl -w net.core.rmem_max=%d",
			s.receiveBuffer>>10, want>>10, want)
	}
	if s.sendBuffer < want {
		why += fmt.Sprintf("; send buffer only %d KiB: for more, sysctl -w net.core.wmem_max=%d",
			s.sendBuffer>>10, want)
	}
	return why
}

func (s *socket) localAddr() link.Addr {
	var name sockaddr
	size := uint32(unsafe.Sizeof(name))
	_, _, errno := unix.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(s.fd), uintptr(unsafe.Pointer(&name)),
		uintptr(unsafe.Pointer(&size)))
	if errno != 0 {
		panic("udp: getsockname of a bound socket: " + errno.Error())
	}
	return name.addr(&s.zones)
}

// overrun asks the kernel how many datagrams it dropped because a receive buffer was full.
func (s *socket) overrun() uint64 { return dropped(s.fd) + dropped(s.direct.fd) }

func dropped(fd int) uint64 {
	if fd < 0 {
		return 0
	}
	const drops = 8 // SK_MEMINFO_DROPS
	var info [drops + 1]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0
	}
	return uint64(info[drops])
}

func (s *socket) close() error {
	fds := []int{s.fd, s.direct.fd}
	s.fd, s.direct = -1, direct{fd: -1}
	s.lent.close()
	var errs []error
	for _, fd := range fds {
		if fd >= 0 {
			errs = append(errs, os.NewSyscallError("close", unix.Close(fd)))
		}
	}
	return errors.Join(errs...)
}
