package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

// Sweep ends and removes the groups of jobs below the cgroup of this process that have no keeper,
// because their daemon and their keeper were killed together. A group that is younger than minAge
// stays, because it may still wait for its keeper. Only groups of version 2 show that their
// keeper is gone. Groups of version 1 are removed if they have no process. A directory that lacks
// one of the two parts of a job belongs to other software and stays. Sweep returns the names of
// the removed groups.
func Sweep(prefix string, minAge time.Duration) (removed []string, err error) {
	h, err := own()
	if err != nil {
		return nil, err
	}
	names := make(map[string]*Group)
	for controller, base := range h {
		if controller == "" {
			base = aboveLeaf(base)
		}
		// The only possible error is that of the pattern.
		found, _ := filepath.Glob(filepath.Join(base, prefix+"*"))
		for _, dir := range found {
			st, err := os.Stat(dir)
			if err != nil || !st.IsDir() || !groupName().MatchString(filepath.Base(dir)) ||
				time.Since(st.ModTime()) < minAge || !hasParts(dir) {
				continue
			}
			g := names[filepath.Base(dir)]
			if g == nil {
				g = new(Group)
				names[filepath.Base(dir)] = g
			}
			*map[string]*string{
				"": &g.Unified, "memory": &g.Memory, "pids": &g.Pids, "freezer": &g.Freezer,
			}[controller] = dir
		}
	}
	var errs []error
	for name, g := range names {
		if kept, err := g.kept(); err != nil || kept {
			errs = append(errs, err)
			continue
		}
		if left, err := g.Remove(sweepWithin); err != nil || len(left) > 0 {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, name)
	}
	return removed, errors.Join(errs...)
}

// sweepWithin is the time in which the processes of one group must end.
const sweepWithin = time.Second

// kept reports whether a group may have a keeper. Processes of other pid namespaces count too,
// although their pids read as 0.
func (g *Group) kept() (bool, error) {
	if g.Unified != "" {
		return populated(filepath.Join(g.Unified, keeperDir))
	}
	for _, dir := range append(g.parts(keeperDir), g.parts(ranksDir)...) {
		if is, err := populated(dir); is || err != nil {
			return is, err
		}
	}
	return false, nil
}

// hasParts reports whether a directory has both parts of a job. Another program may give its
// groups similar names.
func hasParts(dir string) bool {
	for _, part := range []string{ranksDir, keeperDir} {
		if st, err := os.Lstat(filepath.Join(dir, part)); err != nil || !st.IsDir() {
			return false
		}
	}
	return true
}

// populated reports whether a directory has processes. A removed directory has none.
func populated(dir string) (bool, error) {
	text, err := read(filepath.Join(dir, "cgroup.procs"))
	return text != "", forgiveAbsence(err)
}
