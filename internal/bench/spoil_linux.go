package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// machine is where the kernel describes the processors and their use. A test has its own.
type machine struct {
	root string      // of the file system
	may  unix.CPUSet // the processors that we may use
}

// Spoils returns the conditions of this machine that spoil measurements, one line each.
func Spoils() []string {
	m := machine{root: "/"}
	if err := unix.SchedGetaffinity(0, &m.may); err != nil {
		return nil
	}
	return append(m.spoils(), goSpoils(runtime.GOMAXPROCS(0))...)
}

// goSpoils checks the settings of the Go runtime.
func goSpoils(procs int) []string {
	if procs < 2 {
		return []string{"GOMAXPROCS is 1: a goroutine that waits keeps the processor from the one that it waits for"}
	}
	return nil
}

func (m *machine) spoils() (why []string) {
	all := m.processors()
	if n := m.may.Count(); n < len(all) {
		why = append(why, fmt.Sprintf("pinned to %d of %d processors (taskset or a cpuset)", n, len(all)))
	}
	if m.may.Count() < 2 {
		why = append(
			why, "one processor: the two sides take turns on it, and a round trip is two switches between them")
	} else if m.oneCore(all) {
		why = append(why, "all processors are threads of one core: one is slower while the other works")
	}
	for _, cpu := range all {
		if g := m.read("sys/devices/system/cpu", cpu, "cpufreq/scaling_governor"); g != "" && g != "performance" {
			why = append(why, fmt.Sprintf(
				"the governor of %s is %q: its clock goes up and down (cpupower frequency-set -g performance)", cpu, g))
			break
		}
	}
	if quota, period, ok := m.quota(); ok && quota < float64(m.may.Count()) {
		why = append(why, fmt.Sprintf("the control group allows %.2f processors, in slices of %v µs (cpu.max)",
			quota, period))
	}
	load, err := strconv.ParseFloat(firstWord(m.read("proc/loadavg")), 64)
	if err == nil && load >= 0.5 {
		why = append(why, fmt.Sprintf("others work on this machine (load %.1f): compare ratios, not figures", load))
	}
	return why
}

func (m *machine) read(path ...string) string {
	b, err := os.ReadFile(filepath.Join(append([]string{m.root}, path...)...))
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(b))
}

func firstWord(s string) string {
	first, _, _ := strings.Cut(s, " ")
	return first
}

// processors returns the names of the processors that are online.
func (m *machine) processors() (names []string) {
	dirs, _ := filepath.Glob(filepath.Join(m.root, "sys/devices/system/cpu/cpu[0-9]*"))
	for _, d := range dirs {
		if name := filepath.Base(d); m.read("sys/devices/system/cpu", name, "online") != "0" {
			names = append(names, name)
		}
	}
	return names
}

// oneCore reports whether all processors that we may use are threads of one core.
func (m *machine) oneCore(all []string) bool {
	core := ""
	for _, cpu := range all {
		n, err := strconv.Atoi(strings.TrimPrefix(cpu, "cpu"))
		if err != nil || !m.may.IsSet(n) {
			continue
		}
		at := m.read("sys/devices/system/cpu", cpu, "topology/thread_siblings_list")
		if at == "" || core != "" && at != core {
			return false
		}
		core = at
	}
	return core != ""
}

// quota returns how many processors the control group may use, and the length of its period in
// microseconds.
func (m *machine) quota() (processors float64, period string, ok bool) {
	q, period, _ := strings.Cut(m.read("sys/fs/cgroup/cpu.max"), " ")
	quota, err := strconv.ParseFloat(q, 64)
	of, err2 := strconv.ParseFloat(period, 64)
	if err != nil || err2 != nil || of <= 0 { // "max", or no such file
		return 0, "", false
	}
	return quota / of, period, true
}
