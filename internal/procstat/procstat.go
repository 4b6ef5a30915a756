// Package procstat reads the state of processes from /proc. On systems without /proc it finds no
// process.
package procstat

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// Stat holds fields of /proc/PID/stat.
type Stat struct {
	PID, Parent, Group int
	Threads            int
	Name               string
	State              byte   // R, S, D, T, t, Z, X, x, I
	Began              uint64 // clock ticks since boot; tells two processes of one pid apart
	Exiting            bool   // its first thread has begun to end
}

// exiting is Linux's PF_EXITING.
const exiting = 0x4

// Ended reports whether the process has ended and only waits to be reaped. If only its first thread
// has ended, the state is Z as well, but other threads are counted.
func (s *Stat) Ended() bool { return strings.IndexByte("ZXx", s.State) >= 0 && s.Threads <= 1 }

// Read reads one process. It reports false if the process is gone.
func Read(pid int) (Stat, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Stat{}, false
	}
	s, ok := Parse(b)
	return s, ok && s.PID == pid
}

// Parse parses a line such as "12 (a) b) S 1 12 12 …". A program's name may hold any byte, so the
// last parenthesis counts.
func Parse(b []byte) (s Stat, ok bool) {
	from, to := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if from < 0 || to < from {
		return s, false
	}
	f := bytes.Fields(b[to+1:])
	if len(f) < 20 || len(f[0]) != 1 {
		return s, false
	}
	s.Name, s.State = string(b[from+1:to]), f[0][0]
	var errs [6]error
	s.PID, errs[0] = strconv.Atoi(string(bytes.TrimSpace(b[:from])))
	s.Parent, errs[1] = strconv.Atoi(string(f[1]))
	s.Group, errs[2] = strconv.Atoi(string(f[2]))
	s.Threads, errs[3] = strconv.Atoi(string(f[17]))
	s.Began, errs[4] = strconv.ParseUint(string(f[19]), 10, 64)
	flags, err := strconv.ParseUint(string(f[6]), 10, 64)
	s.Exiting, errs[5] = flags&exiting != 0, err
	return s, errs == [6]error{}
}

// PIDs lists the processes of this host.
func PIDs() (pids []int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // the names that were read count
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
