package gopeer

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// control has sockets use a congestion control by its name; "" is the system's.
func control(congestion string) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) (err error) {
		if congestion == "" {
			return nil
		}
		e := c.Control(func(fd uintptr) {
			err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, congestion)
		})
		if e != nil {
			return e
		}
		return err
	}
}

// haveBBR says why there is no BBR, if so.
func haveBBR() error {
	const list = "/proc/sys/net/ipv4/tcp_available_congestion_control"
	b, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(string(b)), "bbr") {
		return fmt.Errorf("the kernel's congestion controls are %s: load the module tcp_bbr", strings.TrimSpace(string(b)))
	}
	return nil
}
