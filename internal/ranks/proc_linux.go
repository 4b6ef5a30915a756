package ranks

import (
	"bytes"
	"os"
	"strconv"
)

// process holds the fields of /proc/PID/stat that matter here.
type process struct {
	pid, parent, group int
	threads            int
	name               string
	state              byte   // R, S, D, T, t, Z, X, I
	began              uint64 // tells two processes of one pid apart
}

// readProcess reads one process. It reports false if the process is gone.
func readProcess(pid int) (process, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	p, ok := parseStat(b)
	return p, ok && p.pid == pid
}

// parseStat parses a line such as "12 (a) b) S 1 12 12 …". A program's name may hold any byte, so
// the last parenthesis counts.
func parseStat(b []byte) (p process, ok bool) {
	from, to := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if from < 0 || to < from {
		return p, false
	}
	f := bytes.Fields(b[to+1:])
	if len(f) < 20 || len(f[0]) != 1 {
		return p, false
	}
	p.name, p.state = string(b[from+1:to]), f[0][0]
	var errs [5]error
	p.pid, errs[0] = strconv.Atoi(string(bytes.TrimSpace(b[:from])))
	p.parent, errs[1] = strconv.Atoi(string(f[1]))
	p.group, errs[2] = strconv.Atoi(string(f[2]))
	p.threads, errs[4] = strconv.Atoi(string(f[17]))
	p.began, errs[3] = strconv.ParseUint(string(f[19]), 10, 64)
	return p, errs == [5]error{}
}

// dead reports whether the process has ended and only waits to be reaped. If only its first thread
// has ended, the state is Z as well, but other threads are counted.
func (p *process) dead() bool { return (p.state == 'Z' || p.state == 'X') && p.threads <= 1 }

// descendants lists the living processes below root, parents first.
func descendants(root int) (found []process) {
	children := make(map[int][]process)
	for _, pid := range allPIDs() {
		if p, ok := readProcess(pid); ok {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	// A pid that was reused during the scan could close a circle; each process counts once.
	seen := map[int]bool{root: true}
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, p := range children[queue[0]] {
			if seen[p.pid] {
				continue
			}
			seen[p.pid] = true
			queue = append(queue, p.pid)
			if !p.dead() {
				found = append(found, p)
			}
		}
	}
	return found
}

// allPIDs lists the processes of this host.
func allPIDs() (pids []int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
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
