package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// pollEvery is the pause between two checks of Kill whether the processes have ended. The kernel
// offers no wait for version 1.
const pollEvery = 5 * time.Millisecond

// Processes returns the pids of the ranks' processes, without this process.
func (g *Group) Processes() ([]int, error) { return g.processes(ranksDir) }

// Kill kills every process of the ranks and waits until none is left, for at most the given time.
// It returns the processes that are left then: their system calls do not end. It spares this
// process, because one of its threads may be in the group at the moment. Start nothing in the
// group afterwards: some versions of Linux immediately kill a process that is created in a killed
// group of version 2.
func (g *Group) Kill(wait time.Duration) (left []int, err error) { return g.kill(wait, ranksDir) }

// Remove kills every process of the job, including the keeper, waits as Kill does, and removes
// the group. It returns the processes that are left. If there are any, the group is left too.
func (g *Group) Remove(wait time.Duration) (left []int, err error) {
	if g.removeEmpty() {
		return nil, nil
	}
	until := time.Now().Add(wait)
	left, err = g.kill(wait, ranksDir, keeperDir, "")
	if err != nil || len(left) > 0 {
		return left, err
	}
	for {
		// A process that has just ended may keep its directory busy for a moment.
		var errs []error
		for _, p := range g.Paths() {
			errs = append(errs, removeDirs(p))
		}
		if err = errors.Join(errs...); !errors.Is(err, unix.EBUSY) || time.Now().After(until) {
			return nil, err
		}
		time.Sleep(pollEvery)
	}
}

// removeEmpty removes the group if it holds no process and no further directory, as is usual at
// the end of a job. The kernel does not remove a directory that holds one, so removeEmpty does
// not read the directories first.
func (g *Group) removeEmpty() bool {
	all := true
	for _, dir := range g.Paths() {
		for _, part := range []string{ranksDir, keeperDir, ""} {
			err := unix.Rmdir(filepath.Join(dir, part))
			all = all && (err == nil || err == unix.ENOENT)
		}
	}
	return all
}

// kill kills the processes of some parts of the group. It repeats this until no process is left
// or the time is over.
func (g *Group) kill(wait time.Duration, parts ...string) (left []int, err error) {
	for until := time.Now().Add(wait); ; time.Sleep(pollEvery) {
		var errs []error
		for _, p := range parts {
			errs = append(errs, g.killPart(p))
		}
		left, err = g.processes(parts...)
		if errs = append(errs, err); len(left) == 0 && err == nil {
			return nil, nil
		}
		if time.Now().After(until) {
			return left, errors.Join(errs...)
		}
	}
}

// killPart kills the processes that are now in a part. cgroup.kill also reaches processes that
// are forked at the same moment. In version 1, the freezer stops the processes first, so the list
// of them is complete.
func (g *Group) killPart(part string) error {
	if g.Unified != "" {
		if pids, err := pidsIn(filepath.Join(g.Unified, part)); err == nil && !slices.Contains(pids, os.Getpid()) {
			if err := forgiveAbsence(write(filepath.Join(g.Unified, part, "cgroup.kill"), "1")); err != nil {
				return fmt.Errorf("cgroup: kill: %w", err)
			}
		}
	}
	if g.Freezer != "" {
		state := filepath.Join(g.Freezer, part, "freezer.state")
		if part != "" && write(state, "FROZEN") == nil {
			defer write(state, "THAWED")
			awaitFrozen(state)
		}
	}
	pids, err := g.processes(part)
	if len(pids) == 0 || err != nil {
		return err
	}
	return g.killAll(part, pids)
}

// killAll kills the listed processes that are still in a part. A listed process may have ended
// since the list was read, and another process of the host may have its pid. killAll opens a
// pidfd for each listed process and then reads the part again. A pidfd opened before that refers
// to a process of the part, and not to a later process.
func (g *Group) killAll(part string, pids []int) (err error) {
	opened := make(map[int]int, len(pids))
	defer func() {
		for _, fd := range opened {
			_ = unix.Close(fd)
		}
	}()
	for _, pid := range pids {
		switch fd, operr := unix.PidfdOpen(pid, 0); operr {
		case nil:
			opened[pid] = fd
		case unix.ESRCH:
		case unix.EINVAL: // a thread that outlives its process, or none
		default: // before Linux 5.3, or too many open files
			err = errors.Join(err, killed(pid, unix.Kill(pid, unix.SIGKILL)))
		}
	}
	still, serr := g.processes(part)
	for _, pid := range still {
		if fd, is := opened[pid]; is {
			err = errors.Join(err, killed(pid, unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)))
		}
	}
	return errors.Join(err, serr)
}

// killed returns the error of a kill. For a process that has already ended, it returns nil.
func killed(pid int, err error) error {
	if err == nil || err == unix.ESRCH {
		return nil
	}
	return fmt.Errorf("cgroup: kill process %d: %w", pid, err)
}

// awaitFrozen waits until no process of a directory runs, so that none is in the middle of a
// fork. A process in a long system call must not delay the others, so the wait is short.
func awaitFrozen(state string) {
	for range 20 {
		if s, err := read(state); err != nil || s == "FROZEN" {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// processes returns the processes of some parts in all hierarchies, without this process.
func (g *Group) processes(parts ...string) (all []int, err error) {
	for _, part := range parts {
		for _, dir := range g.parts(part) {
			pids, err := pidsIn(dir)
			if err != nil {
				return nil, err
			}
			all = append(all, pids...)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(pid int) bool { return pid == os.Getpid() }), nil
}

// pidsIn reads the processes of one directory. If the directory was removed, there are none.
func pidsIn(dir string) (pids []int, err error) {
	text, err := read(filepath.Join(dir, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	for line := range strings.Lines(text) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("cgroup: %s: process %.40q; expected a number", dir, line)
		}
		if pid != 0 { // 0 is a process of another pid namespace
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
