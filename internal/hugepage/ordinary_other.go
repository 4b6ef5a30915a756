//go:build !unix

package hugepage

import (
	"errors"
	"fmt"
	"runtime"
)

// MapOrdinary fails: Weft does not support this system, and says so by one error (internal/target) if this package compiles.
func MapOrdinary(n int) ([]byte, error) {
	return nil, fmt.Errorf("%d bytes: %w on %s", n, errors.ErrUnsupported, runtime.GOOS)
}

// Unmap has nothing to let go of.
func Unmap([]byte) error { return nil }
