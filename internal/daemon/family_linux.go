package daemon

import (
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
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/procstat"
)

// family is the child processes of this process. Each keeper adopts the orphans of its job. If a
// keeper dies, its children become children of the daemon, which is a child subreaper too. family
// then finds, kills and reaps them.
type family struct {
	subreaper bool

	mu    sync.Mutex
	own   map[int]bool // keepers that are not reaped yet
	elder map[int]bool // children from before the daemon started
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
	if childless() {
		return nil
	}
	for pid, p := range processTable() {
		if p.Parent == os.Getpid() {
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

// reapOrphans reaps orphans that end, until done is closed.
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

// reap reaps the orphans that have ended. It leaves a pid alone that wait may still use. It reads
// /proc only if such a pid hides the orphans: most calls find nothing, and a scan of /proc takes
// some milliseconds.
func (f *family) reap() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		pid := endedChild()
		if pid == 0 {
			return
		}
		if f.own[pid] || f.elder[pid] {
			break
		}
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
	for pid, p := range processTable() {
		if p.Parent == os.Getpid() && p.Ended() && !f.own[pid] && !f.elder[pid] {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

// leftovers returns the processes that an ended keeper has left: the orphans that are younger
// than the keeper, and their descendants. If this process is the first of its container, other
// orphans come to it as well; then only those of the job's user count.
func (f *family) leftovers(since uint64, uid int) map[int]process {
	if childless() {
		return nil
	}
	all := processTable()
	f.mu.Lock() // after the table: start holds the lock until own has its fork
	own := maps.Clone(f.own)
	f.mu.Unlock()
	found := make(map[int]process)
	for pid, p := range all {
		if p.Parent == os.Getpid() && !own[pid] && !f.elder[pid] && p.Began >= since &&
			(os.Getpid() != 1 || p.uid(pid) == uid) {
			found[pid] = p
		}
	}
	for grown := len(found) > 0; grown; {
		grown = false
		for pid, p := range all {
			if _, is := found[pid]; is {
				continue
			}
			if _, is := found[p.Parent]; is {
				found[pid], grown = p, true
			}
		}
	}
	for pid, p := range found {
		if p.Ended() {
			delete(found, pid)
		}
	}
	return found
}

// endLeftovers kills the leftovers of a keeper, and returns those that SIGKILL did not end within
// the time. It stops them first, so that they cannot fork faster than it kills them.
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

// childless reports whether this process has no child, and so no descendant: the orphans below it
// become its children. Threads count as one process.
func childless() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	return errors.Is(err, unix.ECHILD)
}

// endedChild returns a child that has ended and is not reaped; 0 if there is none.
func endedChild() int {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	if err != nil {
		return 0
	}
	// si_pid is the first field of a union that follows three numbers. The union holds pointers.
	const word = unsafe.Sizeof(uintptr(0))
	behind := unsafe.Offsetof(info.Code) + unsafe.Sizeof(info.Code)
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), (behind+word-1)/word*word)))
}

// leftoversEvery is the interval between two looks for leftovers.
const leftoversEvery = 2 * time.Millisecond

// process is a row of the table of processes.
type process struct{ procstat.Stat }

// uid returns the user of a process, or -1 if the process has ended.
func (p process) uid(pid int) int {
	var st unix.Stat_t
	if unix.Stat("/proc/"+strconv.Itoa(pid), &st) != nil {
		return -1
	}
	return int(st.Uid)
}

// signal sends a signal to the process, and not to a later process with the same pid.
func (p process) signal(pid int, sig unix.Signal) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		if errors.Is(err, unix.ENOSYS) { // before Linux 5.3
			_ = unix.Kill(pid, sig)
		}
		return
	}
	defer unix.Close(fd)
	if now, ok := procstat.Read(pid); ok && now.Began == p.Began {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// processTable reads /proc. Processes that end during the call may be missing.
func processTable() map[int]process {
	all := make(map[int]process)
	for _, pid := range procstat.PIDs() {
		if p, ok := procstat.Read(pid); ok {
			all[pid] = process{p}
		}
	}
	return all
}

// startOf returns when a process began, in clock ticks since boot. If the process has ended, it
// returns the largest number.
func startOf(pid int) uint64 {
	p, ok := procstat.Read(pid)
	if !ok {
		return 1<<64 - 1
	}
	return p.Began
}
