package ranks

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// stopRounds bounds the rounds in which sweep looks for processes that were forked before it
// stopped their parents. Each round finds the children of the last one, so two suffice for most
// programs.
const stopRounds = 8

// hunter kills the descendants of this process.
type hunter struct {
	me      int
	leaders map[int]bool // processes of the job that were seen, dead or alive; they may lead groups
}

func newHunter() *hunter { return &hunter{me: os.Getpid(), leaders: make(map[int]bool)} }

// sweep stops all descendants, and then kills them. A stopped process neither forks nor reacts to
// the death of another one, so no process starts between the two. A whole group dies at once, even
// if its members fork; this ends chains of processes that live too briefly to be found one by one.
func (h *hunter) sweep() {
	stopped := make(map[int]uint64)
	var all []process
	for range stopRounds {
		all = descendants(h.me)
		fresh := false
		for _, p := range all {
			if began, old := stopped[p.PID]; old && began == p.Began {
				continue
			}
			stopped[p.PID] = p.Began
			fresh = true
			p.signal(unix.SIGSTOP)
		}
		if !fresh {
			break
		}
	}
	h.kill(all)
	for range stopRounds {
		for _, pid := range orphans() {
			if p, ok := readProcess(pid); ok && p.Parent == h.me && !p.Ended() {
				h.kill([]process{p})
			}
		}
	}
}

// kill kills processes, and the groups that processes of the job have made. A group's number is the
// pid of its maker. So a process of the job that joined a group of another program does not draw
// that group into death.
func (h *hunter) kill(all []process) {
	for _, p := range all {
		if p.Group == p.PID {
			h.leaders[p.PID] = true
		}
	}
	done := make(map[int]bool)
	for _, p := range all {
		if h.leaders[p.Group] && !done[p.Group] {
			done[p.Group] = true
			_ = syscall.Kill(-p.Group, unix.SIGKILL)
		}
		p.signal(unix.SIGKILL)
	}
}

// signal sends a signal to the process, and never to another one that has got its pid since.
func (p *process) signal(sig syscall.Signal) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		if err == unix.ENOSYS { // Linux before 5.3
			_ = syscall.Kill(p.PID, sig)
		}
		return
	}
	defer unix.Close(fd)
	if now, ok := readProcess(p.PID); ok && now.Began == p.Began {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// survivors describes the processes that SIGKILL has not ended.
func survivors(all []process) (left []Survivor) {
	for _, p := range all {
		left = append(left, Survivor{Rank: -1, PID: p.PID, Name: p.Name, Why: why(&p)})
	}
	return left
}

// why describes the state of a process that SIGKILL has not ended.
func why(p *process) string {
	state := word(p.State)
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", p.PID)); err == nil {
		if at := strings.TrimSpace(string(b)); at != "" && at != "0" {
			return state + " in " + at
		}
	}
	return state
}
