package refusal

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/cgroup"
)

// Memory checks whether the host and the cgroups of this process have n more bytes. If they do
// not, it fails with a *MemoryError. If the system does not tell a figure, Memory assumes that it
// suffices. Memory is not reserved: Commit takes it.
func Memory(n int64) error {
	if room, limited, err := cgroup.MemoryRoom(); err == nil && limited && n > room.LeftBytes {
		return &MemoryError{WantBytes: n, LeftBytes: room.LeftBytes, Limit: cgroupText(room), Cure: cureCgroup}
	}
	if has, ok := available(); ok && n > has {
		return &MemoryError{WantBytes: n, LeftBytes: has, Limit: "this host", Cure: cureHost}
	}
	return nil
}

// Commit takes the memory of a mapping now if a cgroup limits the memory. The promised memory is
// then charged to the cgroup, so Memory refuses a second promise of the same memory. Without a
// limit, Commit does nothing, and the memory is taken when it is used.
func Commit(mem []byte) error {
	if _, limited, err := cgroup.MemoryRoom(); err != nil || !limited || len(mem) == 0 {
		return nil
	}
	err := unix.Madvise(mem, unix.MADV_POPULATE_WRITE)
	switch {
	// This is Linux before 5.14, or a filter.
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSYS):
		for at := 0; at < len(mem); at += os.Getpagesize() {
			mem[at] = 0
		}
		return nil
	case err != nil:
		return Of("madvise", int64(len(mem)), err)
	}
	return nil
}

// addressSpace returns the address space that RLIMIT_AS leaves to this process, and the limit. It
// reports false if there is no limit.
func addressSpace() (left, limit int64, ok bool) {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &l) != nil || l.Cur > 1<<62 {
		return 0, 0, false
	}
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, 0, false
	}
	pages, _, _ := bytes.Cut(text, []byte(" "))
	n, err := strconv.ParseInt(string(pages), 10, 64)
	return max(int64(l.Cur)-n*int64(os.Getpagesize()), 0), int64(l.Cur), err == nil
}

// available returns the number of bytes that the host could give to a program now without swapping.
func available() (n int64, ok bool) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	_, rest, ok := bytes.Cut(text, []byte("MemAvailable:"))
	line, _, _ := bytes.Cut(rest, []byte(" kB"))
	kib, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 52)
	return kib << 10, ok && err == nil
}

// Limit returns the tightest limit that a cgroup sets on the memory of this process, and its
// name. It reports false if there is no limit.
func Limit() (bytes int64, name string, limited bool) {
	room, limited, err := cgroup.MemoryRoom()
	if err != nil || !limited {
		return 0, "", false
	}
	return room.LimitBytes, cgroupText(room), true
}
