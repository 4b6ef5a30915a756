// Package cgroup makes the control groups of a job on a host, places processes in them, limits and
// counts their memory, ends all their processes, and removes them.
//
// A daemon that may write the cgroup file system makes a Group for each job, below its own cgroup,
// so that the limits of the daemon's container or service hold for the job, too:
//
//	…/daemon's cgroup
//	└── job-1a2b3c4d        cgroup.procs belongs to the user
//	    ├── keeper          the keeper: no memory limit of the job kills it
//	    └── ranks           the ranks: cgroup.procs, cgroup.kill, memory.max … belong to the user
//
// A host has version 2, version 1, or both. Version 2 needs cgroup.kill (Linux 5.14). Version 1
// has one hierarchy for each controller. A Group uses memory, pids and freezer. If both versions
// are mounted, a Group ends processes with version 2 instead of the freezer. It limits memory
// with the version that has the memory controller.
package cgroup

import (
	"fmt"
	"path/filepath"
	"slices"
)

// These are the names of the two parts of a job's cgroup.
const (
	ranksDir  = "ranks"
	keeperDir = "keeper"
)

// Group is the control group of one job on one host. It holds the directory in each hierarchy, or
// an empty string. The daemon passes it to the keeper as JSON, or by Paths and Open.
type Group struct {
	Unified string `json:"unified,omitempty"` // version 2
	Memory  string `json:"memory,omitempty"`  // version 1, like the following fields
	Pids    string `json:"pids,omitempty"`
	Freezer string `json:"freezer,omitempty"`
}

// Paths returns the group's directories.
func (g *Group) Paths() (paths []string) {
	for _, p := range []string{g.Unified, g.Memory, g.Pids, g.Freezer} {
		if p != "" && !slices.Contains(paths, p) {
			paths = append(paths, p)
		}
	}
	return paths
}

// OOM holds the kernel's counts and limits of a group's memory.
type OOM struct {
	Kills      uint64 // processes that the kernel has killed for lack of memory
	LimitBytes int64  // the lowest limit that applies here; 0 if there is none
}

// String describes the memory that ran out, such as "cgroup limit 512 MiB".
func (o OOM) String() string {
	if o.LimitBytes == 0 {
		return "memory of the host"
	}
	return "cgroup limit " + Size(o.LimitBytes)
}

// Size formats a number of bytes in the largest binary unit that divides it, such as "512 MiB".
func Size(bytes int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for bytes != 0 && bytes%1024 == 0 && i < len(units)-1 {
		bytes /= 1024
		i++
	}
	return fmt.Sprintf("%d %s", bytes, units[i])
}

// parts returns the directories of one part of the group, in all hierarchies.
func (g *Group) parts(part string) (dirs []string) {
	for _, p := range g.Paths() {
		dirs = append(dirs, filepath.Join(p, part))
	}
	return dirs
}
