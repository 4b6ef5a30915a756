package daemon

import (
	"fmt"
	"os"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/procstat"
)

// mostThreads bounds how many threads of a process are examined.
const mostThreads = 256

// processState returns the state of a process from /proc, in the words of ctl.RankInfo, or "" if
// it is not known. The threads of a process differ: the process runs if one of them does.
func processState(pid int) string {
	p, ok := procstat.Read(pid)
	switch {
	case !ok:
		return ""
	case p.Ended():
		return ctl.RankEnded
	case p.State == 'T':
		return ctl.RankStopped
	case p.State == 't':
		return ctl.RankTraced
	}
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.Open(dir)
	if err != nil {
		return stateName(p.State)
	}
	names, _ := tasks.Readdirnames(mostThreads)
	_ = tasks.Close()
	state := p.State
	for _, n := range names {
		b, err := os.ReadFile(dir + "/" + n + "/stat")
		if err != nil {
			continue
		}
		switch t, _ := procstat.Parse(b); t.State {
		case 'R':
			return ctl.RankRunning
		case 'D':
			state = t.State
		}
	}
	return stateName(state)
}

func stateName(state byte) string {
	switch state {
	case 'R':
		return ctl.RankRunning
	case 'D':
		return ctl.RankUninterruptible
	}
	return ctl.RankSleeping
}
