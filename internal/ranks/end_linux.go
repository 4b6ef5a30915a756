package ranks

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/limits"
)

// End ends every process of the job. It sends SIGTERM and SIGCONT to the ranks' process groups and to all
// other descendants, and waits for them at most for the grace. Then it kills what is left: the cgroup, and
// every descendant of the keeper, which it stops first, again and again until none is left. A process that
// lives 1 s after SIGKILL is returned and not waited for; if it is a rank, its Exit has Unkillable.
//
// End may run several times and concurrently; the shortest grace counts. Output and Ended may still follow:
// see Wait.
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

// terminate asks every process of the job to end. A stopped process needs SIGCONT to handle SIGTERM.
func (s *Set) terminate() {
	s.mu.Lock()
	s.stops++
	s.signal(unix.SIGTERM)
	s.signal(unix.SIGCONT)
	groups := make(map[int]bool)
	for _, r := range s.ranks {
		groups[r.pid] = true
	}
	s.mu.Unlock()
	for _, p := range descendants(os.Getpid()) {
		if !groups[p.group] {
			p.signal(unix.SIGTERM)
			p.signal(unix.SIGCONT)
		}
	}
}

// kill kills every process of the job, and returns those that are left after limits.KillWait.
func (s *Set) kill() []Survivor {
	s.mu.Lock()
	s.stops++
	for _, r := range s.ranks {
		r.killed = r.killed || !r.reaped
	}
	s.mu.Unlock()
	until := time.Now().Add(limits.KillWait)
	if s.cfg.Cgroup != nil {
		// One round: cgroup.kill and the freezer reach everything in the cgroup. The descendants are
		// killed in any case, so an error is of no further interest.
		_, _ = s.cfg.Cgroup.Kill(0)
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		s.sweep()
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

// stopRounds bounds the rounds in which sweep looks for processes that were forked before it stopped their
// parents. Each round finds the children of the last one, so two suffice for most programs.
const stopRounds = 8

// sweep stops all descendants, and then kills them. A stopped process neither forks nor reacts to the death
// of another one, so no process starts between the two. A whole group dies at once, even if its members
// fork; this ends chains of processes that live too briefly to be found one by one.
func (s *Set) sweep() {
	me := os.Getpid()
	stopped := make(map[int]uint64)
	var all []process
	for range stopRounds {
		all = descendants(me)
		fresh := false
		for _, p := range all {
			if stopped[p.pid] == p.began {
				continue
			}
			stopped[p.pid] = p.began
			fresh = true
			p.signal(unix.SIGSTOP)
		}
		if !fresh {
			break
		}
	}
	s.killGroups(all)
	for _, p := range all {
		p.signal(unix.SIGKILL)
	}
	for range stopRounds {
		for _, pid := range orphans() {
			if p, ok := readProcess(pid); ok && p.parent == me && !p.dead() {
				s.killGroups([]process{p})
				p.signal(unix.SIGKILL)
			}
		}
	}
}

// killGroups kills the process groups of some descendants. A group counts if its number is the pid of a
// process of the job: that process has made the group. So a process of the job that joined a group of
// somebody else does not draw that group into death.
func (s *Set) killGroups(all []process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range all {
		if p.group == p.pid {
			s.leader[p.pid] = true
		}
	}
	done := make(map[int]bool)
	for _, p := range all {
		if s.leader[p.group] && !done[p.group] {
			done[p.group] = true
			_ = syscall.Kill(-p.group, unix.SIGKILL)
		}
	}
}

// signal sends a signal to the process, and never to another one that has got its pid since.
func (p *process) signal(sig syscall.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		if err == unix.ENOSYS { // Linux before 5.3
			_ = syscall.Kill(p.pid, sig)
		}
		return
	}
	defer unix.Close(fd)
	if now, ok := readProcess(p.pid); ok && now.began == p.began {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// giveUp returns the processes that SIGKILL has not ended, and reports the end of the ranks among them.
func (s *Set) giveUp() (left []Survivor) {
	all := descendants(os.Getpid())
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range all {
		sv := Survivor{Rank: -1, PID: p.pid, Name: p.name, Why: why(&p)}
		if r := s.byPID[p.pid]; r != nil {
			sv.Rank = r.num
		}
		left = append(left, sv)
	}
	for _, r := range s.ranks {
		if !r.reaped && !r.given {
			r.given = true
			r.exit.Unkillable = true
			r.exit.Cause = r.exit.cause()
			close(r.over)
		}
	}
	return left
}

// why describes what a process does that SIGKILL has not ended.
func why(p *process) string {
	state := word(p.state)
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", p.pid)); err == nil {
		if at := strings.TrimSpace(string(b)); at != "" && at != "0" {
			return state + " in " + at
		}
	}
	return state
}
