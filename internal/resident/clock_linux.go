package resident

import "golang.org/x/sys/unix"

// kernelClock is the clock that programs in the driver read, in ns.
func kernelClock() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // fails for no clock that there is
	return t.Nano()
}
