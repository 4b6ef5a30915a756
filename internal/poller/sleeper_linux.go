package poller

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/weftnet/weft/internal/idle"
	"golang.org/x/sys/unix"
)

// sleeper parks one goroutine until a frame arrives, a time has passed, or wake is called.
type sleeper struct {
	fds [2]unix.PollFd // ours to be woken by, the link's
	ts  unix.Timespec
	buf [8]byte

	alarm   *os.File // a timer, for nap
	alarmFd int

	mu     sync.Mutex // wake may come late, from a link's callback: not to a descriptor that is another file's by then
	closed bool
}

// one is what is added to an eventfd to signal it.
var one = binary.NativeEndian.AppendUint64(nil, 1)

// newSleeper watches link for frames; -1 if there is no descriptor to watch.
func newSleeper(link int) (*sleeper, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("poller: eventfd: %w", err)
	}
	alarm, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("poller: timerfd: %w", err), unix.Close(fd))
	}
	return &sleeper{
		fds:   [2]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(link), Events: unix.POLLIN}},
		alarm: os.NewFile(uintptr(alarm), "alarm"), alarmFd: alarm,
	}, nil
}

// sleep parks for d, for ever if d is negative. It may end early. Frames end it only if asked for.
func (s *sleeper) sleep(d time.Duration, frames bool) {
	fds := s.fds[:1]
	if frames && s.fds[1].Fd >= 0 {
		fds = s.fds[:]
	}
	ts := &s.ts
	*ts = unix.NsecToTimespec(int64(d))
	if d < 0 {
		ts = nil
	}
	idle.PreciseTimers() // each time: the goroutine changes threads
	_, _ = unix.Ppoll(fds, ts, nil)
	if s.fds[0].Revents != 0 {
		_, _ = unix.Read(int(s.fds[0].Fd), s.buf[:])
	}
}

// nap is a short sleep, which only wake ends early; a wake just before it may have to wait for its end. The runtime waits
// for the timer. A thread of ours that sleeps in the kernel keeps the runtime's monitor awake, which takes its processor
// away each time: where there is none to spare, that was a sixth of the time of a process whose callers poll. The
// runtime's own timers are a millisecond late.
func (s *sleeper) nap(d time.Duration) {
	s.mu.Lock()
	s.set(d)
	s.mu.Unlock()
	_, _ = s.alarm.Read(s.buf[:])
}

// set has the alarm go off after d. With the lock held, and not closed.
func (s *sleeper) set(d time.Duration) {
	_ = unix.TimerfdSettime(s.alarmFd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
}

// wake ends the present or the next sleep, and the present nap. It does not block: the counter cannot fill up by ones.
func (s *sleeper) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		_, _ = unix.Write(int(s.fds[0].Fd), one)
		s.set(1)
	}
}

func (s *sleeper) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return errors.Join(s.alarm.Close(), unix.Close(int(s.fds[0].Fd)))
}
