//go:build !linux

package weft

import (
	"errors"
	"net/netip"
)

func spoofer(from, to netip.AddrPort) (send func([]byte) error, done func(), err error) {
	return nil, nil, errors.New("raw sockets are used on Linux only")
}
