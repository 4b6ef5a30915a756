package ranks

import (
	"syscall"
	"time"

	"github.com/weftnet/weft/internal/limits"
)

// Signal sends a signal to the process group of every rank that runs.
//
// SIGTSTP stops a rank by default, since its group has a parent in the keeper's session. The kernel
// ignores it for a group without such a parent, and a program may ignore it itself. A rank that has
// not stopped 500 ms later gets SIGSTOP, unless SIGCONT was sent meanwhile.
func (s *Set) Signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signal(sig)
	switch sig {
	case syscall.SIGTSTP:
		s.stops++
		turn := s.stops
		time.AfterFunc(limits.RankStopDelay, func() { s.stopRest(turn) })
	case syscall.SIGCONT, syscall.SIGTERM, syscall.SIGKILL:
		s.stops++
	}
}

// signal sends a signal to every rank's group. The caller holds mu.
func (s *Set) signal(sig syscall.Signal) {
	for _, r := range s.ranks {
		r.signal(sig)
	}
}

// signal sends a signal to a rank's group, or to the rank alone if it has left its group. The
// caller holds Set.mu, so the pid is not reused.
func (r *rank) signal(sig syscall.Signal) {
	if r.reaped {
		return
	}
	if sig == syscall.SIGKILL {
		r.killed = true
	}
	if syscall.Kill(-r.pid, sig) != nil {
		_ = syscall.Kill(r.pid, sig)
	}
}

// stopRest stops the ranks that SIGTSTP has not stopped, unless a later signal has replaced it.
func (s *Set) stopRest(turn int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stops != turn {
		return
	}
	for _, r := range s.ranks {
		if !r.stopped {
			r.signal(syscall.SIGSTOP)
		}
	}
}
