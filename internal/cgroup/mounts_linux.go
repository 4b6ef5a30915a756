package cgroup

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// hierarchies holds the directories of this process's cgroup. The keys are "memory", "pids" and
// "freezer" for version 1, and "" for version 2.
type hierarchies map[string]string

// own returns the cgroups of this process.
func own() (hierarchies, error) {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	defer mounts.Close()
	member, err := os.Open("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	defer member.Close()
	h, err := parse(mounts, member)
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	for controller, dir := range h {
		if _, err := os.Stat(dir); err != nil {
			delete(h, controller) // the mount shows another part of the hierarchy
		}
	}
	return h, nil
}

// jobControllers are the controllers of version 1 that a Group uses.
var jobControllers = []string{"memory", "pids", "freezer"}

// CPU returns the directories of the cgroups of a process in the hierarchies that have the CPU
// controller, of both versions: its own cgroup first, then those around it. pid is the name of its
// directory in /proc.
func CPU(pid string) (dirs []string, err error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	member, err := os.ReadFile("/proc/" + pid + "/cgroup")
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	h, err := parseOf(bytes.NewReader(mounts), bytes.NewReader(member), []string{"cpu"})
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	for _, controller := range []string{"cpu", ""} {
		for dir := h[controller]; dir != "" && exists(dir, "cgroup.procs"); dir = filepath.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// parse is parseOf for the controllers of jobs.
func parse(mountinfo, member io.Reader) (hierarchies, error) {
	return parseOf(mountinfo, member, jobControllers)
}

// parseOf combines mountinfo with /proc/PID/cgroup. mountinfo says where a hierarchy is mounted,
// and which part of it. /proc/PID/cgroup says where in the hierarchy the process is.
func parseOf(mountinfo, member io.Reader, wanted []string) (hierarchies, error) {
	inside := make(map[string]string)
	for s := bufio.NewScanner(member); s.Scan(); {
		// The lines are like 4:memory:/a/b and, for version 2, 0::/a/b.
		f := strings.SplitN(s.Text(), ":", 3)
		if len(f) != 3 {
			return nil, fmt.Errorf("/proc/self/cgroup: line %.100q; expected id:controllers:path", s.Text())
		}
		for c := range strings.SplitSeq(f[1], ",") {
			inside[c] = f[2]
		}
	}
	h := make(hierarchies)
	for s := bufio.NewScanner(mountinfo); s.Scan(); {
		root, point, kind, options, ok := mountLine(s.Text())
		if !ok {
			continue
		}
		controllers := []string{""}
		if kind == "cgroup" {
			controllers = slices.DeleteFunc(options, func(o string) bool { return !slices.Contains(wanted, o) })
		}
		for _, c := range controllers {
			at, known := inside[c]
			rel, below := strings.CutPrefix(path.Clean(at)+"/", strings.TrimSuffix(path.Clean(root), "/")+"/")
			if known && below && h[c] == "" {
				h[c] = filepath.Join(point, rel)
			}
		}
	}
	return h, nil
}

// mountLine parses one line of mountinfo. It returns ok = false unless the line is a cgroup
// mount:
//
//	30 23 0:26 /root /mount/point rw,nosuid - cgroup cgroup rw,memory
func mountLine(line string) (root, point, kind string, options []string, ok bool) {
	before, after, found := strings.Cut(line, " - ")
	f, g := strings.Fields(before), strings.Fields(after)
	if !found || len(f) < 6 || len(g) < 3 || g[0] != "cgroup" && g[0] != "cgroup2" {
		return "", "", "", nil, false
	}
	return unescape(f[3]), unescape(f[4]), g[0], strings.Split(g[2], ","), true
}

// unescape replaces the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
