package bench

import (
	"path/filepath"
	"strconv"
	"syscall"
)

// favoured is how much nicer than usual the kernel shall be.
const favoured = -10

// favour has the kernel prefer a program, and what that starts, where it lets us: then what is compared is what the NIC
// costs the processes that work, rather than how the kernel shares out its processors.
func favour(pid int) { renice(strconv.Itoa(pid), favoured) }

// level takes that back for a program that is not to be preferred, which inherits it otherwise.
func level() { renice("self", 0) }

func renice(process string, to int) {
	tasks, _ := filepath.Glob("/proc/" + process + "/task/*")
	for _, t := range tasks {
		if tid, err := strconv.Atoi(filepath.Base(t)); err == nil {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, tid, to)
		}
	}
}
