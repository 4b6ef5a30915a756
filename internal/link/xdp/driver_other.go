//go:build !linux

package xdp

import (
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/link"
)

// Listen needs Linux.
func Listen(Config) (link.Driver, error) {
	return nil, fmt.Errorf("%w: it needs Linux: %w", ErrUnavailable, errors.ErrUnsupported)
}
