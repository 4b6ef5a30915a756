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
	if unix && len(address) > longestPath {
		return nil, fmt.Errorf("listen %s: %s is a path of %d bytes; expected at most %d", network, address, len(address), longestPath)
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

// longestPath is how many bytes the path of a unix socket has at most: a zero is behind it.
const longestPath = len(syscall.RawSockaddrUnix{}.Path) - 1
