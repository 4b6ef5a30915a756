package ranks

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/limits"
)

// End ends every process of the job. It sends SIGTERM and SIGCONT to the ranks' process groups and
// to all other descendants, and waits for them at most for the grace. Then it kills the processes
// of the cgroup and every descendant of the keeper. It stops them first, and repeats this until no
// descendant is left. If a process lives 1 s after SIGKILL, End returns it and does not wait for
// it; the Exit of a rank then has Unkillable.
//
// End may run several times and concurrently; the shortest grace counts. Output and Ended may still
// follow: see Wait.
func (s *Set) End(grace time.Duration) []Survivor {
	if grace > 0 {
		s.terminate()
		select {
		case <-s.gone:
			return nil
		case <-time.After(grace):
		}
	}
	return s.kill()
}

// terminate asks every process of the job to end. A stopped process needs SIGCONT to handle
// SIGTERM.
func (s *Set) terminate() {
	s.mu.Lock()
	s.stops++
	s.signal(unix.SIGTERM)
	s.signal(unix.SIGCONT)
	groups := make(map[int]bool)
	for _, r := range s.ranks {
		groups[r.pid] = !r.reaped
	}
	s.mu.Unlock()
	for _, p := range descendants(os.Getpid()) {
		if !groups[p.Group] {
			p.signal(unix.SIGTERM)
			p.signal(unix.SIGCONT)
		}
	}
}

// kill kills every process of the job, and returns the survivors after limits.KillWait.
func (s *Set) kill() []Survivor {
	select {
	case <-s.gone:
		return nil
	default:
	}
	h := newHunter()
	s.mu.Lock()
	s.stops++
	for _, r := range s.ranks {
		r.killed = r.killed || !r.reaped
		h.leaders[r.pid] = true
	}
	s.mu.Unlock()
	until := time.Now().Add(limits.KillWait)
	if s.cfg.Cgroup != nil {
		// One round: cgroup.kill and the freezer reach everything in the cgroup. The descendants
		// are killed in any case, so an error is of no further interest.
		_, _ = s.cfg.Cgroup.Kill(0)
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		h.sweep()
		select {
		case <-s.gone:
			return nil
		case <-time.After(pause):
		}
		if time.Now().After(until) {
			return s.giveUp()
		}
	}
}

// giveUp returns the processes that SIGKILL has not ended, and reports the end of the ranks among
// them.
func (s *Set) giveUp() (left []Survivor) {
	left = survivors(descendants(os.Getpid()))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range left {
		if r := s.byPID[left[i].PID]; r != nil {
			left[i].Rank = r.num
		}
	}
	for _, r := range s.ranks {
		if !r.reaped && !r.given {
			r.given = true
			r.exit.Unkillable = true
			r.exit.Cause = r.exit.cause()
			r.dies(s.obituary.after(time.Now()))
			close(r.over)
		}
	}
	return left
}
