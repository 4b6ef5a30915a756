//go:build !linux

package xdp

import (
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/link"
)

// Listen returns an error, since it needs Linux.
func Listen(Config) (link.Driver, error) {
	return nil, fmt.Errorf("%w: it needs Linux: %w", ErrUnavailable, errors.ErrUnsupported)
}
