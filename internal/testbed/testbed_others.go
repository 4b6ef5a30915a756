//go:build !linux

package testbed

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"runtime"
)

// Testbed needs Linux. On other systems its methods exist so that its users compile; New always
// fails.
type Testbed struct{}

// Host needs Linux, like Testbed.
type Host struct{}

// Cmd needs Linux, like Testbed.
type Cmd struct{ *exec.Cmd }

func unavailable() error {
	return fmt.Errorf("%w on %s: hosts are made of Linux network namespaces; run it on Linux, "+
		"or in a virtual machine or privileged container with it",
		ErrUnavailable, runtime.GOOS)
}

// New returns an error that wraps ErrUnavailable.
func New(c Config) (*Testbed, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	return nil, unavailable()
}

// Check returns an error that wraps ErrUnavailable.
func Check() error { return unavailable() }

// Apart calls f: there are no shares of processors here.
func Apart(i, n int, f func() error) error { return f() }

func (t *Testbed) Hosts() int               { return 0 }
func (t *Testbed) Host(i int) *Host         { return nil }
func (t *Testbed) SetLoss(p float64) error  { return unavailable() }
func (t *Testbed) Drops() (Counters, error) { return Counters{}, unavailable() }
func (t *Testbed) Shaped() ShapeCounters    { return ShapeCounters{} }
func (t *Testbed) RemoveLink(int) error     { return unavailable() }
func (t *Testbed) RestoreLink(int) error    { return unavailable() }
func (t *Testbed) Close() error             { return nil }
func (h *Host) Index() int                  { return 0 }
func (h *Host) Addr() netip.Addr            { return netip.Addr{} }
func (h *Host) Addr6() netip.Addr           { return netip.Addr{} }
func (h *Host) SetLoss(p float64) error     { return unavailable() }
func (h *Host) SetPlugged(bool) error       { return unavailable() }
func (h *Host) SetPathMTU(n int) error      { return unavailable() }
func (h *Host) Drops() (Counters, error)    { return Counters{}, unavailable() }
func (h *Host) Do(fn func() error) error    { return unavailable() }
func (h *Host) Command(ctx context.Context, name string, args ...string) *Cmd {
	return &Cmd{exec.CommandContext(ctx, name, args...)}
}
func (c *Cmd) Start() error                    { return unavailable() }
func (c *Cmd) Run() error                      { return unavailable() }
func (c *Cmd) Output() ([]byte, error)         { return nil, unavailable() }
func (c *Cmd) CombinedOutput() ([]byte, error) { return nil, unavailable() }
