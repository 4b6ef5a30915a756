package limit

import (
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/payload"
)

// tcpBytes is how much a call sends or receives.
const tcpBytes = 256 << 10

// tcpPut waits for a connection, and sends for ever.
func tcpPut(c *child) error {
	own, err := netip.ParseAddr(c.Hosts[1].Addr)
	if err != nil {
		return err
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Bind(s, &unix.SockaddrInet4{Addr: own.As4()}); err != nil {
		return err
	}
	if err := unix.Listen(s, 1); err != nil {
		return err
	}
	sa, err := unix.Getsockname(s)
	if err != nil {
		return err
	}
	if err := c.ready(sa.(*unix.SockaddrInet4).Port); err != nil {
		return err
	}
	conn, _, err := unix.Accept(s)
	if err != nil {
		return err
	}
	for b := payload.Written(tcpBytes); ; {
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(conn), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
		if errno != 0 && errno != unix.EINTR {
			return fmt.Errorf("sending: %w", errno)
		}
	}
}

// tcpTake connects, and counts what comes.
func tcpTake(c *child) error {
	to, err := netip.ParseAddr(c.Hosts[1].Addr)
	if err != nil {
		return err
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Connect(s, &unix.SockaddrInet4{Addr: to.As4(), Port: c.Port}); err != nil {
		return err
	}
	b := make([]byte, tcpBytes)
	return c.count(func() (int, error) {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(s), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0, 0, 0)
		if errno != 0 && errno != unix.EINTR {
			return 0, fmt.Errorf("receiving: %w", errno)
		}
		if errno != 0 {
			return 0, nil
		}
		return int(n), nil
	})
}
