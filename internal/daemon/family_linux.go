package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// family is the child processes of this process. Each keeper adopts the orphans of its job. If a keeper
// dies, its children become children of the daemon, which is a child subreaper too: family finds them, kills
// them, and reaps them.
type family struct {
	subreaper bool

	mu    sync.Mutex
	own   map[int]bool // keepers that are not reaped
	elder map[int]bool // children from before the daemon
}

// adopt makes this process the parent of orphans among its descendants.
func (f *family) adopt() error {
	f.own = make(map[int]bool)
	if !f.subreaper {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("child subreaper: %w", err)
	}
	f.elder = make(map[int]bool)
	for pid, p := range processTable() {
		if p.parent == os.Getpid() {
			f.elder[pid] = true
		}
	}
	return nil
}

// start starts a keeper, and wait reaps it. Between the two, nothing else reaps it.
func (f *family) start(c *exec.Cmd) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := c.Start()
	if err == nil {
		f.own[c.Process.Pid] = true
	}
	return err
}

func (f *family) wait(c *exec.Cmd) error {
	err := c.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.own, c.Process.Pid)
	return err
}

// reapOrphans reaps orphans that end, until done.
func (f *family) reapOrphans(done <-chan struct{}) {
	if !f.subreaper {
		return
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	defer signal.Stop(ended)
	for {
		select {
		case <-ended:
			f.reap()
		case <-done:
			return
		}
	}
}

// reap reaps the orphans that have ended. A pid that wait may still use is left alone.
func (f *family) reap() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for pid, p := range processTable() {
		if p.parent == os.Getpid() && p.ended() && !f.own[pid] && !f.elder[pid] {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

// leftovers are the processes that a keeper, which has ended, has left: orphans which are younger than it, and
// their descendants. If this process is the first of its container, other orphans come to it as well, so
// those must be the job's user's.
func (f *family) leftovers(since uint64, uid int) map[int]process {
	all := processTable()
	f.mu.Lock() // behind the table: start holds the lock until own has what it forked
	own := maps.Clone(f.own)
	f.mu.Unlock()
	found := make(map[int]process)
	for pid, p := range all {
		if p.parent == os.Getpid() && !own[pid] && !f.elder[pid] && p.started >= since && (os.Getpid() != 1 || p.uid(pid) == uid) {
			found[pid] = p
		}
	}
	for grown := len(found) > 0; grown; {
		grown = false
		for pid, p := range all {
			if _, is := found[pid]; is {
				continue
			}
			if _, is := found[p.parent]; is {
				found[pid], grown = p, true
			}
		}
	}
	for pid, p := range found {
		if p.ended() {
			delete(found, pid)
		}
	}
	return found
}

// endLeftovers kills the leftovers of a keeper, and returns those that SIGKILL did not end within the time. It
// stops them first, so that they cannot fork faster than they are killed.
func (f *family) endLeftovers(since uint64, uid int, within time.Duration) (unkillable []int) {
	if !f.subreaper {
		return nil
	}
	for end := time.Now().Add(within); ; time.Sleep(leftoversEvery) {
		f.reap()
		found := f.leftovers(since, uid)
		if len(found) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return slices.Sorted(maps.Keys(found))
		}
		for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} {
			for pid, p := range found {
				p.signal(pid, sig)
			}
		}
	}
}

// leftoversEvery is how often leftovers are looked for until there are none.
const leftoversEvery = 2 * time.Millisecond

// process is a row of the table of processes.
type process struct {
	parent  int
	state   byte
	started uint64 // clock ticks since boot
}

func (p process) ended() bool { return p.state == 'Z' || p.state == 'X' }

// uid is the user of a process; -1 if it has ended.
func (p process) uid(pid int) int {
	var st unix.Stat_t
	if unix.Stat("/proc/"+strconv.Itoa(pid), &st) != nil {
		return -1
	}
	return int(st.Uid)
}

// signal sends a signal to the process, and to no later one with its pid.
func (p process) signal(pid int, sig unix.Signal) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		if errors.Is(err, unix.ENOSYS) { // before Linux 5.3
			_ = unix.Kill(pid, sig)
		}
		return
	}
	defer unix.Close(fd)
	if now, err := readProcess(pid); err == nil && now.started == p.started {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// processTable reads /proc. Processes that end meanwhile may be missing.
func processTable() map[int]process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what was read counts
	all := make(map[int]process, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, err := readProcess(pid); err == nil {
				all[pid] = p
			}
		}
	}
	return all
}

// readProcess reads /proc/PID/stat: "pid (name) state ppid …", where the 22nd field is the start. The name may
// have parentheses and blanks.
func readProcess(pid int) (p process, err error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, err
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	const first, start = 3, 22 // numbers of the first field here, and of the start
	if len(fields) <= start-first {
		return p, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	p.state = fields[0][0]
	if p.parent, err = strconv.Atoi(string(fields[1])); err == nil {
		p.started, err = strconv.ParseUint(string(fields[start-first]), 10, 64)
	}
	return p, err
}

// startOf is when a process began, in clock ticks since boot; the largest number if it has ended.
func startOf(pid int) uint64 {
	p, err := readProcess(pid)
	if err != nil {
		return 1<<64 - 1
	}
	return p.started
}
