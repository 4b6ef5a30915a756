//go:build unix && !linux

package filemem

import (
	"errors"
	"fmt"
	"runtime"
)

// Lasting fails: only Linux has memory files that can be sealed.
func Lasting(int) error {
	return fmt.Errorf("%w: %w on %s: memory that is shared with a NIC daemon",
		ErrFile, errors.ErrUnsupported, runtime.GOOS)
}

func hugePage(int) int64 { return 0 }
