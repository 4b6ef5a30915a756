package bench

import (
	"path/filepath"
	"strconv"
	"syscall"
)

// favoured is the nice value of favoured programs.
const favoured = -10

// favour makes the kernel prefer a program and its children, if the kernel allows it. Then the
// figures show what the NIC costs the working processes, rather than how the kernel shares out
// its processors.
func favour(pid int) { renice(strconv.Itoa(pid), favoured) }

// level takes that preference back for a program that must not have it. Otherwise the program
// inherits it.
func level() { renice("self", 0) }

func renice(process string, to int) {
	tasks, _ := filepath.Glob("/proc/" + process + "/task/*")
	for _, t := range tasks {
		if tid, err := strconv.Atoi(filepath.Base(t)); err == nil {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, tid, to)
		}
	}
}
