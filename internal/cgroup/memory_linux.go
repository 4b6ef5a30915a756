package cgroup

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// LimitMemory limits the memory of all ranks together, including swap. If a process of the group
// needs more, the kernel kills it. The limit is rounded down to whole pages.
func (g *Group) LimitMemory(bytes int64) error {
	if bytes <= 0 {
		return fmt.Errorf("cgroup: memory limit %d; expected a positive number of bytes", bytes)
	}
	v := strconv.FormatInt(bytes, 10)
	switch {
	case g.Memory != "":
		dir := filepath.Join(g.Memory, ranksDir)
		if err := write(filepath.Join(dir, "memory.limit_in_bytes"), v); err != nil {
			return fmt.Errorf("cgroup: memory limit: %w", err)
		}
		// Kernels without swap accounting lack this file and memory.swap.max below.
		return forgiveAbsence(write(filepath.Join(dir, "memory.memsw.limit_in_bytes"), v))
	case g.Unified != "" && has(g.Unified, "memory.max"):
		dir := filepath.Join(g.Unified, ranksDir)
		if err := write(filepath.Join(dir, "memory.max"), v); err != nil {
			return fmt.Errorf("cgroup: memory limit: %w", err)
		}
		return forgiveAbsence(write(filepath.Join(dir, "memory.swap.max"), "0"))
	}
	return fmt.Errorf("cgroup: memory limit: this host gives the job no memory controller; "+
		"expected version 1's, or version 2's in a cgroup without other processes: %w", errors.ErrUnsupported)
}

// LimitProcesses limits the number of processes and threads of all ranks together.
func (g *Group) LimitProcesses(n int64) error {
	for _, dir := range []string{g.Pids, g.Unified} {
		if dir != "" && has(dir, "pids.max") {
			if err := write(filepath.Join(dir, ranksDir, "pids.max"), strconv.FormatInt(n, 10)); err != nil {
				return fmt.Errorf("cgroup: process limit: %w", err)
			}
			return nil
		}
	}
	return fmt.Errorf("cgroup: process limit: this host gives the job no pids controller: %w", errors.ErrUnsupported)
}

// OOM returns the number of processes of the ranks that the kernel has killed for lack of memory,
// and the memory limit.
func (g *Group) OOM() (OOM, error) {
	switch {
	case g.Memory != "":
		return oom1(filepath.Join(g.Memory, ranksDir))
	case g.Unified != "" && has(g.Unified, "memory.events"):
		return oom2(filepath.Join(g.Unified, ranksDir))
	}
	return Enclosing()
}

// Enclosing returns the same for the cgroup of this process. It is for ranks without their own
// cgroup. A root cgroup counts nothing. Then the error wraps errors.ErrUnsupported.
func Enclosing() (OOM, error) {
	h, err := own()
	if err != nil {
		return OOM{}, err
	}
	if dir := h["memory"]; dir != "" {
		return oom1(dir)
	}
	if dir := h[""]; dir != "" {
		if _, err := os.Stat(filepath.Join(dir, "memory.events")); err == nil {
			return oom2(dir)
		}
	}
	return OOM{}, fmt.Errorf("cgroup: no memory controller: %w", errors.ErrUnsupported)
}

// oom1 reads the counts and the limit of a directory of version 1.
func oom1(dir string) (o OOM, err error) {
	if o.Kills, err = keyed(filepath.Join(dir, "memory.oom_control"), "oom_kill"); err != nil {
		return o, err
	}
	// Without a limit, the file holds the largest multiple of the page size.
	limit, err := keyed(filepath.Join(dir, "memory.stat"), "hierarchical_memory_limit")
	if err == nil && limit < math.MaxInt64-1<<20 {
		o.LimitBytes = int64(limit)
	}
	return o, err
}

// oom2 reads the counts of a directory of version 2, and the limits of this directory and all
// directories above it.
func oom2(dir string) (o OOM, err error) {
	if o.Kills, err = keyed(filepath.Join(dir, "memory.events"), "oom_kill"); err != nil {
		return o, err
	}
	for ; len(dir) > 1; dir = filepath.Dir(dir) {
		v, err := read(filepath.Join(dir, "memory.max"))
		if err != nil {
			return o, nil // the root has no such file
		}
		if n, err := strconv.ParseInt(v, 10, 64); err == nil && (o.LimitBytes == 0 || n < o.LimitBytes) {
			o.LimitBytes = n // otherwise it is "max"
		}
	}
	return o, nil
}

// keyed returns the number after a key in a file of "key number" lines.
func keyed(file, key string) (uint64, error) {
	text, err := read(file)
	if err != nil {
		return 0, fmt.Errorf("cgroup: %w", err)
	}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == key {
			return strconv.ParseUint(f[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("cgroup: %s has no line %q: %w", file, key, errors.ErrUnsupported)
}
