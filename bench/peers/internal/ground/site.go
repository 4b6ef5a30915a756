// Package ground has the places where contestants meet, and the programs that run there.
//
//	Site ── on this host ──── program 0 ◄─ 127.0.0.1 ─► program 1
//	  └─ between two hosts ── program 0 [eth0]────[eth0] program 1  namespaces of internal/testbed
//	                                      ▼ loss
//
// Every program that starts here ends here: it gets SIGKILL when its part is over or this
// process ends. [Sweep] finds the processes that it has left behind.
package ground

import (
	"context"
	"os"
	"os/exec"
	"syscall"

	"github.com/weftnet/weft/internal/testbed"
)

// Site is a place where two programs meet: 0 is the client's place, 1 the server's.
type Site struct {
	bed *testbed.Testbed // nil: both on this host
}

// Here returns the site on this host.
func Here() *Site { return &Site{} }

// Between makes a site of two hosts and a cable. If lossy is set, it attaches a program that
// loses packets, at the rate loss.
func Between(lossy bool, loss float64) (*Site, error) {
	tb, err := testbed.New(testbed.Config{Hosts: 2, Lossy: lossy, Loss: loss})
	if err != nil {
		return nil, err
	}
	for i := range 2 {
		// By default, the kernel keeps what a connection has learned about the path for the next
		// one to the same host. Here a contestant would inherit it from another's losses.
		err := tb.Host(i).Do(func() error {
			// some containers forbid it
			_ = os.WriteFile("/proc/sys/net/ipv4/tcp_no_metrics_save", []byte("1"), 0)
			return nil
		})
		if err != nil {
			tb.Close()
			return nil, err
		}
	}
	return &Site{tb}, nil
}

// Close removes the hosts.
func (s *Site) Close() error {
	if s.bed == nil {
		return nil
	}
	return s.bed.Close()
}

// Addr returns the IPv4 address of one of the two places.
func (s *Site) Addr(place int) string {
	if s.bed == nil {
		return "127.0.0.1"
	}
	return s.bed.Host(place).Addr().String()
}

// Hosts reports whether the two places are two hosts.
func (s *Site) Hosts() bool { return s.bed != nil }

// Program makes a program that will run at one of the two places.
func (s *Site) Program(ctx context.Context, place int, name string, args ...string) *Program {
	if s.bed != nil {
		c := s.bed.Host(place).Command(context.Background(), name, args...)
		return newProgram(ctx, c.Cmd, c.Start)
	}
	c := exec.Command(name, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return newProgram(ctx, c, c.Start)
}
