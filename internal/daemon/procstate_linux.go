package daemon

import (
	"bytes"
	"fmt"
	"os"

	"github.com/weftnet/weft/internal/ctl"
)

// mostThreads bounds how many threads of a process are looked at.
const mostThreads = 256

// processState returns the state of a process from /proc, as in ctl.RankInfo; empty if it is not known.
// The threads of a process differ: it runs if one of them does.
func processState(pid int) string {
	dir := fmt.Sprintf("/proc/%d", pid)
	leader := threadState(dir + "/stat")
	switch leader {
	case 'T':
		return ctl.RankStopped
	case 't':
		return ctl.RankTraced
	case 'Z', 'X', 'x':
		return ctl.RankEnded
	case 0:
		return ""
	}
	tasks, err := os.Open(dir + "/task")
	if err != nil {
		return stateName(leader)
	}
	names, _ := tasks.Readdirnames(mostThreads)
	_ = tasks.Close()
	state := leader
	for _, n := range names {
		switch s := threadState(dir + "/task/" + n + "/stat"); {
		case s == 'R':
			return ctl.RankRunning
		case s == 'D':
			state = s
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

// threadState reads the state from a stat file; 0 if there is none. The name of the program before it
// may contain spaces and parentheses.
func threadState(file string) byte {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	if i := bytes.LastIndexByte(b, ')'); i >= 0 && i+2 < len(b) {
		return b[i+2]
	}
	return 0
}
