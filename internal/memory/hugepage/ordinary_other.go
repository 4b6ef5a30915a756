//go:build !unix

package hugepage

import (
	"errors"
	"fmt"
	"runtime"
)

// MapOrdinary fails. Weft does not support this system. If this package compiles, the build
// reports this by a single error, that of internal/target.
func MapOrdinary(n int) ([]byte, error) {
	return nil, fmt.Errorf("%d bytes: %w on %s", n, errors.ErrUnsupported, runtime.GOOS)
}

// Unmap does nothing, because there is nothing to release.
func Unmap([]byte) error { return nil }
