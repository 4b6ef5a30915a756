//go:build !linux

package doctor

import (
	"errors"
	"runtime"
)

// xdpQueueBytes is the memory that AF_XDP locks for each queue: none, since only Linux has it.
const xdpQueueBytes = 0

// NewHost returns an error: the checks read what only Linux has.
func NewHost() (Host, error) {
	return nil, errors.New("weft doctor needs Linux, this is " + runtime.GOOS)
}
