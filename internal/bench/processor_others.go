//go:build !linux

package bench

import (
	"errors"
	"time"
)

// processorTime is for Linux, as are daemons.
func processorTime([]int) (time.Duration, error) {
	return 0, errors.New("bench: processor time of other programs: needs Linux")
}
