package poller

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper parks one goroutine until a frame arrives, a time has passed, or wake is called.
//
//	wake ──► eventfd ─┐
//	sleep ─► timerfd ─┼─► epoll ──► the runtime's own ──► the goroutine
//	frame ─► link ────┘
//
// In company, the runtime waits for it, as for a socket; see [Poller.sleepsByRuntime]. A thread
// that sleeps in the kernel keeps its processor from the other goroutines of the program until
// the runtime's monitor notices, which takes from 20 µs to 20 ms. A sleeper without company
// still sleeps in the kernel (ppoll): it is back sooner, by a third if other threads compute.
// The runtime's own timers are a millisecond late. If the timeouts of a thread are made precise,
// those of the runtime on this thread become precise, too: for example those that delay it in
// taking a goroutine which another thread is about to run.
//
// The link is watched only during a sleep. Otherwise each frame would wake a thread of the
// runtime, even a frame for which another goroutine polls.
type sleeper struct {
	file   *os.File // the epoll
	conn   syscall.RawConn
	came   func(epoll uintptr) bool // looks whether there is an event
	events [3]unix.EpollEvent

	// wake may be called late, from a link's callback. It must not write to a descriptor that is
	// another file's by then.
	mu           sync.Mutex
	closed       bool
	event, timer int
	armed        bool // the timer is

	fds [3]unix.PollFd // event, timer and link
	buf [8]byte

	epoll, link int  // link: -1 if there is none
	seen        bool // the link has ended the last sleep, and is no longer watched

	failure error // the first one, of newSleeper
}

// one is added to an eventfd to signal it.
var one = binary.NativeEndian.AppendUint64(nil, 1)

// newSleeper watches link for frames; -1 means that there is no descriptor to watch.
func newSleeper(link int) (*sleeper, error) {
	s := &sleeper{event: -1, timer: -1, link: link}
	s.epoll = s.made("epoll", func() (int, error) { return unix.EpollCreate1(unix.EPOLL_CLOEXEC) })
	s.event = s.made("eventfd", func() (int, error) { return unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK) })
	s.timer = s.made("timerfd", func() (int, error) {
		return unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	})
	// An event is reported once, and only sleepAlone needs to read it.
	s.watch(unix.EPOLL_CTL_ADD, s.event, unix.EPOLLIN|unix.EPOLLET)
	s.watch(unix.EPOLL_CTL_ADD, s.timer, unix.EPOLLIN|unix.EPOLLET)
	if link >= 0 {
		s.watch(unix.EPOLL_CTL_ADD, link, unix.EPOLLONESHOT)
	}
	if s.epoll >= 0 {
		s.done(unix.SetNonblock(s.epoll, true))
		s.file = os.NewFile(uintptr(s.epoll), "sleeper")
		var err error
		s.conn, err = s.file.SyscallConn()
		s.done(err)
	}
	for i, fd := range []int{s.event, s.timer, link} {
		s.fds[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	s.came = func(epoll uintptr) bool {
		n, _ := unix.EpollWait(int(epoll), s.events[:], 0)
		for i := range max(n, 0) {
			s.seen = s.seen || int(s.events[i].Fd) == s.link
		}
		return n > 0
	}
	if s.failure != nil {
		return nil, errors.Join(s.failure, s.close())
	}
	return s, nil
}

// made makes a descriptor; it returns -1 if this fails or something has failed before.
func (s *sleeper) made(what string, of func() (int, error)) int {
	if s.failure != nil {
		return -1
	}
	fd, err := of()
	if err != nil {
		s.failure = fmt.Errorf("poller: %s: %w", what, err)
		return -1
	}
	return fd
}

// watch sets which events of a descriptor end a sleep.
func (s *sleeper) watch(how, fd int, events uint32) {
	if s.failure == nil {
		s.done(unix.EpollCtl(s.epoll, how, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}))
	}
}

func (s *sleeper) done(err error) {
	if s.failure == nil && err != nil {
		s.failure = fmt.Errorf("poller: epoll: %w", err)
	}
}

// sleepAlone is sleep for the case that no other goroutine wants the processor.
func (s *sleeper) sleepAlone(d time.Duration) {
	if !s.begin(d, false) {
		return
	}
	fds := s.fds[:]
	if s.link < 0 {
		fds = s.fds[:2]
	}
	_, _ = unix.Ppoll(fds, nil, nil)
	if s.fds[0].Revents != 0 {
		_, _ = unix.Read(s.event, s.buf[:])
	}
}

// sleep parks for d, without limit if d is negative. It may end early.
func (s *sleeper) sleep(d time.Duration) {
	if !s.begin(d, true) {
		return
	}
	_ = s.conn.Read(s.came) // it fails when the sleeper is closed
	s.end()
}

// begin sets the timer to expire after d, and watches the link if the runtime is to wait. It
// returns false if the sleeper is closed.
func (s *sleeper) begin(d time.Duration, watched bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if d >= 0 || s.armed {
		at := unix.NsecToTimespec(int64(max(d, 1)))
		if s.armed = d >= 0; !s.armed {
			at = unix.Timespec{}
		}
		_ = unix.TimerfdSettime(s.timer, 0, &unix.ItimerSpec{Value: at}, nil)
	}
	if watched {
		s.look(unix.EPOLLIN)
	}
	return true
}

// end stops watching the link.
func (s *sleeper) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.seen && !s.closed {
		s.look(0)
	}
}

// look watches the link for events, once. A closed link, as that of a NIC that ends, has none.
func (s *sleeper) look(events uint32) {
	if s.seen = false; s.link >= 0 {
		_ = unix.EpollCtl(s.epoll, unix.EPOLL_CTL_MOD, s.link,
			&unix.EpollEvent{Events: events | unix.EPOLLONESHOT, Fd: int32(s.link)})
	}
}

// wake ends the present or the next sleep. It does not block: the counter cannot be filled by
// ones.
func (s *sleeper) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		_, _ = unix.Write(s.event, one)
	}
}

func (s *sleeper) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var errs []error
	if s.file != nil {
		errs = append(errs, s.file.Close())
	}
	for _, fd := range []int{s.event, s.timer} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}
