//go:build !linux

package shm

import (
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/link"
)

// Listen returns an error, since it needs Linux: sealed memory files, and sockets that pass
// them.
func Listen(cfg Config) (link.Driver, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("shm: shared memory between NICs needs Linux: %w", errors.ErrUnsupported)
}
