package proxy

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
)

// Listen listens as [net.Listen] does. A unix socket of any network at which nothing answers, which a process that was killed has left, gives way.
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

// Free returns an error if a process has the unix socket at a path open. It connects to no server.
// Other networks are free as far as Free knows.
func Free(network, path string) error {
	if strings.HasPrefix(network, "unix") && probe(network, path) == nil {
		return fmt.Errorf("listen %s: %s: %w", network, path, syscall.EADDRINUSE)
	}
	return nil
}

// longestPath is how many bytes the path of a unix socket has at most: a zero is behind it.
const longestPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// CheckPath returns an error for a path that is too long for a unix socket, of which the system says no more than "invalid argument".
func CheckPath(path string) error {
	if len(path) > longestPath {
		return fmt.Errorf("%s is a path of %d bytes; expected at most %d", path, len(path), longestPath)
	}
	return nil
}

// OffLoopback reports whether other hosts can reach an address by IP. Unix sockets and services of
// the fabric are not reached so.
func OffLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && !tcp.IP.IsLoopback()
}
