//go:build !linux

package ranks

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"
)

// Set is the processes of one job on one host. It exists on Linux only.
type Set struct{}

// Start fails: other systems than Linux cannot adopt the orphans of a job.
func Start(Config) (*Set, error) {
	return nil, fmt.Errorf("ranks: %s cannot run the processes of a job; expected Linux: %w",
		runtime.GOOS, errors.ErrUnsupported)
}

// Feed fails.
func (*Set) Feed(int, []byte) error { return ErrNoInput }

// CloseStdin does nothing.
func (*Set) CloseStdin(int) {}

// Signal does nothing.
func (*Set) Signal(syscall.Signal) {}

// End returns no survivor.
func (*Set) End(time.Duration) []Survivor { return nil }

// Wait returns at once.
func (*Set) Wait() {}

// Inspect returns nothing.
func (*Set) Inspect() []Info { return nil }

// PIDs returns nothing.
func (*Set) PIDs() []int { return nil }
