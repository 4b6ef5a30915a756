package proxy

import (
	"errors"
	"net"
	"syscall"
)

// Listen listens as [net.Listen] does. A unix socket at which nothing answers, which a process that was killed has left, gives way.
func Listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	if network != "unix" || !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	if kept := giveWay(address); kept != nil {
		return nil, errors.Join(err, kept)
	}
	return net.Listen(network, address)
}
