package bench

import (
	"time"

	"golang.org/x/sys/unix"
)

// kernelTimers is how many kernel timers run. Each is an open file, of which a program may have
// few.
const kernelTimers = 128

// kernelCost uses one kernel timer per frame: a call to start it and one to stop it.
func kernelCost(d time.Duration) (c TimerCost, err error) {
	var fds []int
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	for range kernelTimers {
		fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
		if err != nil {
			return c, err
		}
		fds = append(fds, fd)
	}
	on := unix.ItimerSpec{Value: unix.NsecToTimespec(timerLasts.Nanoseconds())}
	c.Running = kernelTimers
	c.Each, err = perTimer(d, func(i int) error {
		fd := fds[i%kernelTimers]
		if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{}, nil); err != nil {
			return err
		}
		return unix.TimerfdSettime(fd, 0, &on, nil)
	})
	return c, err
}
