package refusal

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/cgroup"
)

// Of returns an error that describes a refused call. bytes is the amount of memory or file that
// the call wanted, or 0. If no more words are needed, Of only adds the call before the error.
func Of(call string, bytes int64, err error) error {
	if err == nil {
		return nil
	}
	r := &Refusal{Call: call, Err: err}
	switch {
	case errors.Is(err, unix.EFBIG):
		r.Limit, r.Cure = fileSize(bytes)
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EAGAIN) && call == "mmap":
		r.Limit, r.Cure = noMemory(bytes)
	case errors.Is(err, unix.EMFILE):
		r.Limit = limitText(unix.RLIMIT_NOFILE, "descriptors")
		r.Cure = "raise it with ulimit -n, or LimitNOFILE= of the service"
	case errors.Is(err, unix.ENFILE):
		r.Limit, r.Cure = "the host has too many open files", "raise sysctl fs.file-max"
	case errors.Is(err, unix.ENOSPC):
		r.Limit = "the filesystem of the file is full"
		r.Cure = "free space there; the size of /dev/shm is a mount option"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EACCES):
		r.Limit, r.Cure = notPermitted(call)
	}
	return r
}

// notPermitted returns what forbids a call to a program.
func notPermitted(call string) (limit, cure string) {
	switch call {
	case "mount", "umount":
		return "this process lacks CAP_SYS_ADMIN, or a security module forbids mounts",
			"run it as root or with --cap-add SYS_ADMIN, or install fusermount3 for a mount without root"
	case "userfaultfd":
		return "this process lacks CAP_SYS_PTRACE, and sysctl vm.unprivileged_userfaultfd is 0, " +
				"or a seccomp filter forbids the call",
			"set that sysctl to 1, give access to /dev/userfaultfd, " +
				"or allow the call in the seccomp profile of the container"
	}
	return "a seccomp filter or a security module forbids the call",
		fmt.Sprintf("allow %s in the seccomp profile of the container or service", call)
}

// fileSize returns what limits the length of files.
func fileSize(bytes int64) (limit, cure string) {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &l) == nil && l.Cur != unix.RLIM_INFINITY && uint64(bytes) > l.Cur {
		return fmt.Sprintf("%d bytes are wanted, and the limit of file sizes (RLIMIT_FSIZE) is %d", bytes, l.Cur),
			"raise it with ulimit -f or prlimit --fsize, or LimitFSIZE= of the service; " +
				"memory that is shared is a file, too"
	}
	return fmt.Sprintf("%d bytes are more than the filesystem allows for a file", bytes),
		"want less, or use another filesystem"
}

// noMemory returns the limit of memory that a call has reached.
func noMemory(bytes int64) (limit, cure string) {
	if left, l, ok := addressSpace(); ok && bytes > left {
		return fmt.Sprintf("%d bytes are wanted, and the limit of the address space (RLIMIT_AS), %d bytes, leaves %d",
			bytes, l, left), cureAddressSpace
	}
	if room, limited, err := cgroup.MemoryRoom(); err == nil && limited && bytes > room.LeftBytes {
		return fmt.Sprintf("%d bytes are wanted, and %s leaves %d", bytes, cgroupText(room), room.LeftBytes), cureCgroup
	}
	return "the host is out of memory, or of mappings (sysctl vm.max_map_count, vm.overcommit_memory)",
		"free memory, or raise these settings"
}

// The cures for limits of memory.
const (
	cureAddressSpace = "raise it with ulimit -v or prlimit --as, or LimitAS= of the service"
	cureCgroup       = "raise the limit of the container, service or job, or want less"
	cureHost         = "free memory on the host, or want less"
)

func cgroupText(r cgroup.Room) string {
	return fmt.Sprintf("the cgroup limit %s (%s)", cgroup.Size(r.LimitBytes), r.File)
}

// limitText names a limit of this process with its value.
func limitText(which int, what string) string {
	var l unix.Rlimit
	if unix.Getrlimit(which, &l) != nil {
		return ""
	}
	return fmt.Sprintf("the limit of %s of this process is %d", what, l.Cur)
}
