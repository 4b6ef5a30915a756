package ranks

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// reap waits for all children until none is left: for ranks, and for the orphans that the keeper
// adopts. The process has no child if and only if no process of the job is left.
func (s *Set) reap() {
	defer close(s.gone)
	defer running.Store(false)
	defer s.noMore()
	for {
		// The peek leaves the event in place. Signals use a pid under mu, so a pid is freed under
		// mu, too.
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WSTOPPED|unix.WCONTINUED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil { // ECHILD
			return
		}
		s.mu.Lock()
		for s.reapOne() {
		}
		s.mu.Unlock()
	}
}

// reapOne takes one event of a child, and reports whether there was one. The caller holds mu.
func (s *Set) reapOne() bool {
	var status unix.WaitStatus
	var usage unix.Rusage
	pid, err := unix.Wait4(-1, &status, unix.WNOHANG|unix.WUNTRACED|unix.WCONTINUED, &usage)
	if errors.Is(err, unix.EINTR) {
		return true
	}
	if err != nil || pid <= 0 {
		return false
	}
	r := s.byPID[pid]
	switch {
	case r == nil:
		if status.Exited() || status.Signaled() {
			s.memory.killed(status.Signaled() && status.Signal() == unix.SIGKILL)
		}
	case status.Stopped():
		r.turn(true)
	case status.Continued():
		r.turn(false)
	default:
		delete(s.byPID, pid)
		if r.pidfd < 0 { // its death is noted already, or there is no other moment
			r.dies(s.obituary.after(time.Now()))
		}
		r.finish(status, &usage, s.memory)
	}
	return true
}

// turn notes that the rank was stopped or continued. The caller holds Set.mu.
func (r *rank) turn(stopped bool) {
	r.stopped = stopped
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// finish notes how the rank ended. The caller holds Set.mu.
func (r *rank) finish(status unix.WaitStatus, usage *unix.Rusage, m *memory) {
	r.reaped = true
	if r.given {
		return // its end is reported
	}
	e := &r.exit
	e.User, e.System = duration(usage.Utime), duration(usage.Stime)
	e.MaxRSSBytes = int64(usage.Maxrss) << 10
	if status.Signaled() {
		e.Signal, e.Core = int(status.Signal()), status.CoreDump()
		if oom := m.killed(status.Signal() == unix.SIGKILL && !r.killed); oom != "" {
			e.OOM = oom
		}
	} else {
		e.Status = status.ExitStatus()
	}
	e.Cause = e.cause()
	close(r.over)
}

func duration(t unix.Timeval) time.Duration { return time.Duration(unix.TimevalToNsec(t)) }

// attend reports the stops, the continuations and the end of a rank. It is the only goroutine that
// calls State and Ended for the rank.
func (s *Set) attend(r *rank) {
	defer s.ended.Done()
	go r.out.run()
	go r.err.run()
	if r.in != nil {
		go r.in.run()
	}
	told := false
	for over := false; !over; {
		select {
		case <-r.changed:
		case <-r.over:
			over = true
		}
		s.mu.Lock()
		quiet := r.reaped || r.killed // End stops processes before it kills them
		stopped := r.stopped
		s.mu.Unlock()
		if stopped != told && !quiet && s.cfg.State != nil {
			s.cfg.State(r.num, stopped)
			told = stopped
		}
	}
	if r.in != nil {
		r.in.end()
	}
	<-r.noted
	drain(r.out, r.err)
	s.mu.Lock()
	e := r.exit
	s.mu.Unlock()
	if s.cfg.Ended != nil {
		s.cfg.Ended(e)
	}
}
