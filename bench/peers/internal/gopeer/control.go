package gopeer

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// control returns a function that sets the congestion control of a socket by name.
func control(congestion string) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) (err error) {
		e := c.Control(func(fd uintptr) {
			err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, congestion)
		})
		if e != nil {
			return e
		}
		return err
	}
}

const (
	cubic = "cubic"
	bbr   = "bbr"
)

// haveTCP returns an error if this machine lacks a congestion control. It does not fall back to
// the kernel's default: the default differs between machines, so the contestant would differ,
// too.
func haveTCP(congestion string) func() error {
	return func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, congestion); err != nil {
			return fmt.Errorf("no congestion control %s: %w (load the module tcp_%[1]s, or let this user choose it: "+
				"sysctl net.ipv4.tcp_allowed_congestion_control)",
				congestion, err)
		}
		return nil
	}
}
