package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Enter prepares the calling thread to start ranks: processes that the thread forks with attr begin in the
// group, and have no moment outside. The goroutine must be locked to its thread. In version 1, the thread
// itself enters the group, and cannot leave it: let the thread end with its goroutine, and fork nothing
// else from it. Call done when the ranks are started.
func (g *Group) Enter(attr *syscall.SysProcAttr) (done func(), err error) {
	return g.enter(ranksDir, attr)
}

// EnterKeeper is Enter for the keeper, which is outside the limits of the ranks.
func (g *Group) EnterKeeper(attr *syscall.SysProcAttr) (done func(), err error) {
	return g.enter(keeperDir, attr)
}

func (g *Group) enter(part string, attr *syscall.SysProcAttr) (done func(), err error) {
	thread := strconv.Itoa(unix.Gettid())
	for _, dir := range []string{g.Memory, g.Pids, g.Freezer} {
		if dir == "" {
			continue
		}
		if err := write(filepath.Join(dir, part, "tasks"), thread); err != nil {
			return nil, fmt.Errorf("cgroup: enter: %w", err)
		}
	}
	if g.Unified == "" {
		return func() {}, nil
	}
	f, err := os.Open(filepath.Join(g.Unified, part))
	if err != nil {
		return nil, fmt.Errorf("cgroup: enter: %w", err)
	}
	attr.UseCgroupFD, attr.CgroupFD = true, int(f.Fd())
	return func() {
		attr.UseCgroupFD, attr.CgroupFD = false, 0
		_ = f.Close()
	}, nil
}
