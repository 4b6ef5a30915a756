//go:build !linux

package hugepage

import (
	"errors"
	"fmt"
	"runtime"
)

// Map fails: only Linux has them in a way that Weft knows.
func Map(n int) ([]byte, error) {
	return nil, fmt.Errorf("%d bytes in huge pages: %w on %s", n, errors.ErrUnsupported, runtime.GOOS)
}
