package ranks

import (
	"os"
	"strconv"

	"github.com/weftnet/weft/internal/procstat"
)

// States of Info.
const (
	stateRunning         = "running"
	stateSleeping        = "sleeping"
	stateStopped         = "stopped"
	stateUninterruptible = "uninterruptible"
	stateEnded           = "ended"
)

// mostThreads bounds the threads of a rank that Inspect looks at.
const mostThreads = 256

// Inspect returns the state of every rank.
func (s *Set) Inspect() []Info {
	all := make([]Info, len(s.ranks))
	for i, r := range s.ranks {
		s.mu.Lock()
		ended, exit := r.reaped, r.exit
		s.mu.Unlock()
		all[i] = Info{Rank: r.num, PID: r.pid, State: stateEnded}
		if !ended {
			all[i].State = stateOf(r.pid)
		} else if all[i].Cause = exit.Cause; exit.Cause == "" {
			all[i].Cause = "exited with status 0"
		}
	}
	return all
}

// stateOf returns the state of a process: running if a thread runs, else uninterruptible if a
// thread is, else the state of the first thread.
func stateOf(pid int) string {
	p, ok := readProcess(pid)
	if !ok || p.Ended() {
		return stateEnded
	}
	state := word(p.State)
	if state == stateEnded {
		state = stateSleeping // the first thread alone has ended
	}
	if state == stateStopped {
		return state
	}
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := os.ReadDir(dir)
	if err != nil {
		return state
	}
	for _, t := range threads[:min(len(threads), mostThreads)] {
		b, err := os.ReadFile(dir + "/" + t.Name() + "/stat")
		if err != nil {
			continue
		}
		if p, ok := procstat.Parse(b); ok {
			switch w := word(p.State); w {
			case stateRunning:
				return w
			case stateUninterruptible:
				state = w
			}
		}
	}
	return state
}

func word(state byte) string {
	switch state {
	case 'R':
		return stateRunning
	case 'T', 't':
		return stateStopped
	case 'D':
		return stateUninterruptible
	case 'Z', 'X':
		return stateEnded
	}
	return stateSleeping
}
