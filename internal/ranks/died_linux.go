package ranks

import (
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// obituary notes the order in which the ranks die, and the times. The kernel keeps the order: an
// epoll instance returns the pidfds of the ranks in the order in which they became ready. So the
// order is right even if the keeper reads it late. A pidfd becomes ready when the last thread of
// its process has ended, also if the first thread has ended before, or another one has executed a
// program.
//
// If the kernel refuses a pidfd, the rank dies when it is reaped.
type obituary struct {
	epoll int // -1: refused
	quit  int // eventfd that ends note; -1 with epoll
	over  chan struct{}
	last  time.Time // guarded by Set.mu
}

func (c *Config) openObituary() *obituary {
	o := &obituary{epoll: -1, quit: -1, over: make(chan struct{})}
	if c.noPidfds {
		return o
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return o
	}
	quit, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(epoll)
		return o
	}
	o.epoll, o.quit = epoll, quit
	if o.watch(quit, -1) != nil {
		_, _ = unix.Close(epoll), unix.Close(quit)
		o.epoll, o.quit = -1, -1
	}
	return o
}

// watch adds a file. The event of a rank has its index. One event of each file is enough, and a
// file whose event is over never goes before the others.
func (o *obituary) watch(fd, index int) error {
	return unix.EpollCtl(o.epoll, unix.EPOLL_CTL_ADD, fd,
		&unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(index)})
}

// add watches a rank that is not reaped yet. It returns the rank's pidfd, or -1.
func (o *obituary) add(pid, index int) int {
	if o.epoll < 0 {
		return -1
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1
	}
	if o.watch(fd, index) != nil {
		_ = unix.Close(fd)
		return -1
	}
	return fd
}

// after returns t, or a later time if an earlier call has returned t or a later one. The caller
// holds Set.mu.
func (o *obituary) after(t time.Time) time.Time {
	if !t.After(o.last) {
		t = o.last.Add(1)
	}
	o.last = t
	return t
}

// note notes the deaths of the ranks until no child is left.
func (s *Set) note() {
	defer close(s.obituary.over)
	if s.obituary.epoll < 0 {
		return
	}
	hurry()
	events := make([]unix.EpollEvent, 64)
	for last := false; !last; {
		n, err := unix.EpollWait(s.obituary.epoll, events, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		last = s.noteAll(events[:max(n, 0)], time.Now()) || err != nil
	}
	s.noteRest()
	_, _ = unix.Close(s.obituary.epoll), unix.Close(s.obituary.quit)
}

// hurry makes the kernel run this goroutine's thread soon after it wakes, so that the times of
// death are right on a busy host: a thread with a short slice goes first. No thread of the keeper
// has the short slice later, because the thread ends with its goroutine. Linux before 6.12 ignores
// it.
func hurry() {
	runtime.LockOSThread()
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Runtime: uint64(100 * time.Microsecond)}, 0)
}

// noteAll notes deaths in their order, and reports whether there will be no more.
func (s *Set) noteAll(events []unix.EpollEvent, at time.Time) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		if e.Fd < 0 {
			last = true
			continue
		}
		s.ranks[e.Fd].dies(s.obituary.after(at))
	}
	return last
}

// noteRest leaves the ranks that are not noted to the reaper.
func (s *Set) noteRest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.ranks {
		if r.reaped {
			r.dies(s.obituary.after(time.Now()))
		}
		r.closePidfd()
	}
}

// dies notes the death of a rank, unless it is noted. The caller holds Set.mu.
func (r *rank) dies(at time.Time) {
	if r.exit.Died.IsZero() {
		r.exit.Died = at
		close(r.noted)
	}
	r.closePidfd()
}

func (r *rank) closePidfd() {
	if r.pidfd >= 0 {
		_ = unix.Close(r.pidfd)
		r.pidfd = -1
	}
}

// noMore ends note, and waits for its end. Every rank has died and is reaped.
func (s *Set) noMore() {
	if s.obituary.quit >= 0 {
		_, _ = unix.Write(s.obituary.quit, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
	<-s.obituary.over
}
