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
	l, err := net.Listen(network, address)
	if !strings.HasPrefix(network, "unix") || !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	if kept := giveWay(network, address); kept != nil {
		return nil, fmt.Errorf("listen %s: %w", network, kept)
	}
	return net.Listen(network, address)
}
