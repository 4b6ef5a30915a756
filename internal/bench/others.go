//go:build !linux

package bench

import (
	"errors"
	"net"
	"os/exec"
	"time"
)

// What only Linux has.

// bind does nothing here: only Linux can have a program end with the one that started it.
func bind(*exec.Cmd) {}

func favour(int) {}
func level()     {}

// processorTime is for Linux, as are daemons.
func processorTime([]int) (time.Duration, error) {
	return 0, errors.New("bench: processor time of other programs: needs Linux")
}

// Spoils says what spoils measurements here, as far as it is known: nothing, but on Linux.
func Spoils() []string { return nil }

// tcpAgain is Linux's: hosts whose cable loses frames are as well.
func tcpAgain(net.Conn) Again { return Again{} }

// kernelCost is Linux's: there a timer is a file.
func kernelCost(time.Duration) (TimerCost, error) { return TimerCost{}, errors.ErrUnsupported }
