package poller

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// alarm is for the short sleeps of one goroutine, for which the runtime waits. A thread of ours that sleeps in the kernel keeps the runtime's
// monitor awake, which takes its processor away each time: where there is none to spare, that was a sixth of the time of a process whose
// callers poll. The runtime's own timers are a millisecond late.
type alarm struct {
	file *os.File // a timer
	fd   int
	buf  [8]byte

	mu     sync.Mutex // ring may come late, as sleeper.wake
	closed bool
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("poller: timerfd: %w", err)
	}
	return &alarm{file: os.NewFile(uintptr(fd), "alarm"), fd: fd}, nil
}

// nap sleeps for d, which only ring ends early; a ring just before it may have to wait for its end.
func (a *alarm) nap(d time.Duration) {
	a.set(d)
	_, _ = a.file.Read(a.buf[:])
}

// ring ends the present nap. It does not block.
func (a *alarm) ring() { a.set(1) }

func (a *alarm) set(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		_ = unix.TimerfdSettime(a.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
	}
}

func (a *alarm) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	return a.file.Close()
}
