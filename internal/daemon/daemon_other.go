//go:build !linux

package daemon

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"runtime"

	"github.com/weftnet/weft/internal/registry"
)

// Daemon needs memfd, eventfd, epoll and packet sockets. This system lacks them, so New always
// fails.
type Daemon struct{}

// New checks the configuration and then returns an error that says what is missing.
func New(c Config, _ io.Writer) (*Daemon, error) {
	if _, err := c.check(); err != nil {
		return nil, err
	}
	return nil, errors.New("a NIC daemon needs Linux, this is " + runtime.GOOS +
		"; open the NIC inside the process instead (weft.Open)")
}

// ID, Addr, Socket, Run and Reload are never called, since there is no Daemon.
func (*Daemon) ID() registry.NICID        { return 0 }
func (*Daemon) Addr() netip.AddrPort      { return netip.AddrPort{} }
func (*Daemon) Socket() string            { return "" }
func (*Daemon) Run(context.Context) error { return errors.ErrUnsupported }
func (*Daemon) Reload()                   {}
