package poller

import (
	"encoding/binary"
	"fmt"
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
	return &sleeper{fds: [2]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(link), Events: unix.POLLIN}}}, nil
}

// sleep parks for d, for ever if d is negative. It may end early.
func (s *sleeper) sleep(d time.Duration) {
	fds := s.fds[:1]
	if s.fds[1].Fd >= 0 {
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

// wake ends the present or the next sleep. It does not block: the counter cannot fill up by ones.
func (s *sleeper) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		_, _ = unix.Write(int(s.fds[0].Fd), one)
	}
}

func (s *sleeper) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return unix.Close(int(s.fds[0].Fd))
}
