package limit

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/load"
)

// tcpBytes is how many bytes one call sends or receives.
const tcpBytes = 256 << 10

// tcpPut waits for a connection, and sends for ever.
func tcpPut(c *child) error {
	conn, err := accept(unix.AF_INET, unix.SOCK_STREAM, c.at(1, 0),
		func(at unix.Sockaddr) error { return c.ready(at.(*unix.SockaddrInet4).Port) })
	if err != nil {
		return err
	}
	for b := load.Written(tcpBytes); ; {
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(conn), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
			unix.MSG_NOSIGNAL, 0, 0)
		if errno != 0 && errno != unix.EINTR {
			return fmt.Errorf("sending: %w", errno)
		}
	}
}

// tcpTake connects, and counts received bytes.
func tcpTake(c *child) error {
	s, err := connect(unix.AF_INET, unix.SOCK_STREAM, c.at(1, c.Port))
	if err != nil {
		return err
	}
	b := make([]byte, tcpBytes)
	return c.count(func() (int, error) {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(s), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
			0, 0, 0)
		if errno != 0 && errno != unix.EINTR {
			return 0, fmt.Errorf("receiving: %w", errno)
		}
		if errno != 0 {
			return 0, nil
		}
		return int(n), nil
	})
}
