package proxy

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
)

// Listen listens in the same way as [net.Listen]. It also replaces a unix socket at which no
// process answers, because a killed process has left it.
func Listen(network, address string) (net.Listener, error) {
	unix := strings.HasPrefix(network, "unix")
	if unix {
		if err := CheckPath(address); err != nil {
			return nil, fmt.Errorf("listen %s: %w", network, err)
		}
	}
	l, err := net.Listen(network, address)
	if !unix || !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	if kept := giveWay(network, address); kept != nil {
		return nil, fmt.Errorf("listen %s: %w", network, kept)
	}
	return net.Listen(network, address)
}

// Free returns an error if a process has the unix socket at a path open. It does not connect to a
// server. For other networks, Free always returns nil.
func Free(network, path string) error {
	if strings.HasPrefix(network, "unix") && probe(network, path) == nil {
		return fmt.Errorf("listen %s: %s: %w", network, path, syscall.EADDRINUSE)
	}
	return nil
}

// longestPath is the maximum length of the path of a unix socket, in bytes. A zero byte follows
// the path.
const longestPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// CheckPath returns an error for a path that is too long for a unix socket. The system reports
// only "invalid argument" for such a path.
func CheckPath(path string) error {
	if len(path) > longestPath {
		return fmt.Errorf("%s is a path of %d bytes; expected at most %d", path, len(path), longestPath)
	}
	return nil
}

// OffLoopback reports whether other hosts can reach an address by IP. For unix sockets and
// services of the fabric it returns false.
func OffLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && !tcp.IP.IsLoopback()
}
