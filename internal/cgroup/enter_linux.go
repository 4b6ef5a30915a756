package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Enter prepares the calling thread to start ranks. Processes that the thread forks with attr
// begin in the group, and are never outside of it. In version 1, the thread itself enters the
// group, so the goroutine must be locked to its thread. Call done when the ranks have started.
// done restores the thread and attr.
func (g *Group) Enter(attr *syscall.SysProcAttr) (done func(), err error) {
	return g.enter(ranksDir, attr)
}

// EnterKeeper is like Enter, but for the keeper, which is outside the limits of the ranks.
func (g *Group) EnterKeeper(attr *syscall.SysProcAttr) (done func(), err error) {
	return g.enter(keeperDir, attr)
}

func (g *Group) enter(part string, attr *syscall.SysProcAttr) (done func(), err error) {
	home, err := own()
	if err != nil {
		return nil, err
	}
	var undo []func()
	done = func() {
		for _, f := range undo {
			f()
		}
	}
	for controller, dir := range map[string]string{"memory": g.Memory, "pids": g.Pids, "freezer": g.Freezer} {
		if dir == "" {
			continue
		}
		if err := moveThread(filepath.Join(dir, part)); err != nil {
			done()
			return nil, fmt.Errorf("cgroup: enter: %w", err)
		}
		undo = append(undo, func() { leave(home[controller], filepath.Join(dir, keeperDir)) })
	}
	if g.Unified == "" {
		return done, nil
	}
	f, err := os.Open(filepath.Join(g.Unified, part))
	if err != nil {
		done()
		return nil, fmt.Errorf("cgroup: enter: %w", err)
	}
	attr.UseCgroupFD, attr.CgroupFD = true, int(f.Fd())
	undo = append(undo, func() {
		attr.UseCgroupFD, attr.CgroupFD = false, 0
		_ = f.Close()
	})
	return done, nil
}

// leave moves the calling thread back to its home. If the user lacks the right to do so, leave
// moves the thread to the keeper's part of the group, which is always open to the user. A thread
// that stayed in the ranks' part would count as a process of the job.
func leave(home, keeper string) {
	if home == "" || moveThread(home) != nil {
		_ = moveThread(keeper)
	}
}

// moveThread moves the calling thread to a directory of version 1. The number 0 names this
// thread. For any other number, even the thread's own, the kernel waits until no process of the
// host is in a fork. This grace period takes 5 to 30 ms.
func moveThread(dir string) error { return write(filepath.Join(dir, "tasks"), "0") }
