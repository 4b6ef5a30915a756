package sdnotify

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic returns the time of CLOCK_MONOTONIC, by which a supervisor orders messages and signals.
func monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic("sdnotify: the kernel has no monotonic clock: " + err.Error())
	}
	return time.Duration(t.Nano())
}
