//go:build !linux

package bench

import (
	"errors"
	"time"
)

// kernelCost is Linux's: there a timer is a file.
func kernelCost(time.Duration) (TimerCost, error) { return TimerCost{}, errors.ErrUnsupported }
