package linktest

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// readable waits until a descriptor is readable, at most for wait. It reports whether it is.
func readable(tb testing.TB, fd int, wait time.Duration) bool {
	tb.Helper()
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for end := time.Now().Add(wait); ; {
		n, err := unix.Poll(fds, int(time.Until(end).Milliseconds()))
		if err != unix.EINTR {
			return err == nil && n > 0
		}
	}
}
