package resident

import "golang.org/x/sys/unix"

// kernelClock returns the clock that programs in the driver read, in nanoseconds.
func kernelClock() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // fails only for unknown clocks
	return t.Nano()
}
