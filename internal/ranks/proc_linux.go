package ranks

import (
	"bytes"
	"os"
	"strconv"

	"github.com/weftnet/weft/internal/procstat"
)

// process is one process of this host.
type process struct{ procstat.Stat }

// readProcess reads one process. It reports false if the process is gone.
func readProcess(pid int) (process, bool) {
	s, ok := procstat.Read(pid)
	return process{s}, ok
}

// descendants lists the living processes below root, parents first.
func descendants(root int) (found []process) {
	children := make(map[int][]process)
	for _, pid := range procstat.PIDs() {
		if p, ok := readProcess(pid); ok {
			children[p.Parent] = append(children[p.Parent], p)
		}
	}
	// A pid that was reused during the scan could close a circle; each process counts once.
	seen := map[int]bool{root: true}
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, p := range children[queue[0]] {
			if seen[p.PID] {
				continue
			}
			seen[p.PID] = true
			queue = append(queue, p.PID)
			if !p.Ended() {
				found = append(found, p)
			}
		}
	}
	return found
}

// orphans lists the children of this process. It is much faster than descendants, so it finds
// processes that live for less than a scan of /proc: chains in which each process forks the next
// one and ends. The list is empty on kernels without the file.
func orphans() (pids []int) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil
	}
	for _, t := range threads {
		b, err := os.ReadFile("/proc/self/task/" + t.Name() + "/children")
		if err != nil {
			continue
		}
		for _, f := range bytes.Fields(b) {
			if pid, err := strconv.Atoi(string(f)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
