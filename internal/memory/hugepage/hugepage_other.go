//go:build !linux

package hugepage

import (
	"errors"
	"fmt"
	"runtime"
)

// Map fails, because Weft supports huge pages on Linux only.
func Map(n int) ([]byte, error) {
	return nil, fmt.Errorf("%d bytes in huge pages: %w on %s", n, errors.ErrUnsupported, runtime.GOOS)
}
