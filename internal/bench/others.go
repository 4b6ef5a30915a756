//go:build !linux

package bench

import (
	"errors"
	"net"
	"os/exec"
	"time"
)

// Stubs for systems other than Linux.

// bind does nothing here: only Linux can end a program with its parent.
func bind(*exec.Cmd) {}

func favour(int) {}
func level()     {}

// processorTime returns an error here: daemons need Linux, too.
func processorTime([]int) (time.Duration, error) {
	return 0, errors.New("bench: processor time of other programs: needs Linux")
}

// Spoils returns nothing here: the checks need Linux.
func Spoils() []string { return nil }

// tcpAgain returns zero here: hosts with a lossy cable need Linux, too.
func tcpAgain(net.Conn) Again { return Again{} }

// kernelCost returns errors.ErrUnsupported here: a timer that is a file needs Linux.
func kernelCost(time.Duration) (TimerCost, error) { return TimerCost{}, errors.ErrUnsupported }
