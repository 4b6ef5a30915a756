package idle

import (
	"bytes"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Room reports whether the threads of this machine that want to run just now are no more than
// the processors of this program. If two of them share one processor, another is then idle. The
// call takes some microseconds. Room returns false if the kernel does not tell.
func Room() bool {
	fd := loads()
	if fd < 0 {
		return false
	}
	var b [64]byte
	n, err := unix.Pread(fd, b[:], 0)
	if err != nil {
		return false
	}
	running, ok := runnable(b[:n])
	return ok && running <= runtime.NumCPU()
}

// loads returns the descriptor of /proc/loadavg, which stays open; -1 if there is none.
var loads = sync.OnceValue(func() int {
	fd, err := unix.Open("/proc/loadavg", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
})

// runnable returns the number of threads that run or want to, from a line such as "0.20 0.18
// 0.12 2/80 11206".
func runnable(loads []byte) (n int, ok bool) {
	fields := bytes.Fields(loads)
	if len(fields) < 4 {
		return 0, false
	}
	running, _, ok := bytes.Cut(fields[3], []byte("/"))
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(string(running))
	return n, err == nil
}
