package idle

import (
	"bytes"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Room reports whether no more threads of this machine want to run just now than this program has processors: two of them that share one then
// leave another idle. To ask takes some microseconds. It is false where the kernel does not tell.
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

// loads is /proc/loadavg, which stays open; -1 if there is none.
var loads = sync.OnceValue(func() int {
	fd, err := unix.Open("/proc/loadavg", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
})

// runnable is how many threads run or want to, of a line as "0.20 0.18 0.12 2/80 11206".
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
