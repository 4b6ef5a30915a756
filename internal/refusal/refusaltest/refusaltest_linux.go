package refusaltest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/cgroup"
)

// inside is the name of a variable in the environment of a child.
const inside = "WEFT_REFUSALTEST"

// Run calls refuse and then part in a separate process, and returns the text that part returns.
// The process runs the same test again. So Run must be called in the same order in both
// processes. name distinguishes the calls of a test.
func Run(t *testing.T, name string, refuse func() error, part func() string) string {
	t.Helper()
	if which := os.Getenv(inside); which != "" {
		if which != name {
			return ""
		}
		runtime.LockOSThread()
		if err := refuse(); err != nil {
			fmt.Printf("<refusaltest>cannot refuse: %v</refusaltest>\n", err)
			os.Exit(0)
		}
		fmt.Printf("<refusaltest>%s</refusaltest>\n", part())
		os.Exit(0)
	}
	c := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.count=1")
	c.Env = append(os.Environ(), inside+"="+name)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	_, rest, begun := strings.Cut(out.String(), "<refusaltest>")
	said, _, ended := strings.Cut(rest, "</refusaltest>")
	switch why, cannot := strings.CutPrefix(said, "cannot refuse: "); {
	case !begun || !ended:
		t.Fatalf("%s: %v: %s", name, err, out.String())
	case cannot:
		t.Skipf("%s: %s", name, why)
	}
	return said
}

// Inside reports whether this process was started by Run.
func Inside() bool { return os.Getenv(inside) != "" }

// cgroups is the variable with the files by which a child enters its cgroup.
const cgroups = "WEFT_REFUSALTEST_CGROUP"

// Cgroup creates a cgroup with limited memory, and returns the files by which processes enter it.
// If that is not permitted, it skips the test.
func Cgroup(t *testing.T, bytes int64) (procs []string) {
	t.Helper()
	g, err := cgroup.Make(fmt.Sprintf("weft-test-%d-%d", os.Getpid(), time.Now().UnixNano()), os.Getuid(), os.Getgid())
	if err != nil {
		t.Skipf("no cgroup can be made: %v", err)
	}
	t.Cleanup(func() {
		if _, err := g.Remove(time.Minute); err != nil {
			t.Errorf("the cgroup stays: %v", err)
		}
	})
	if err := g.LimitMemory(bytes); err != nil {
		t.Skip(err)
	}
	for _, dir := range []string{g.Memory, g.Unified} {
		if dir != "" {
			procs = append(procs, filepath.Join(dir, "ranks", "cgroup.procs"))
		}
	}
	return procs
}

// RunLimited is Run in a cgroup with limited memory.
func RunLimited(t *testing.T, name string, bytes int64, part func() string) string {
	t.Helper()
	if !Inside() {
		t.Setenv(cgroups, strings.Join(Cgroup(t, bytes), ":"))
	}
	return Run(t, name, func() (err error) {
		for file := range strings.SplitSeq(os.Getenv(cgroups), ":") {
			err = errors.Join(err, os.WriteFile(file, fmt.Append(nil, os.Getpid()), 0o600))
		}
		return err
	}, part)
}

// Forbid makes system calls of every thread of this process fail with errno from now on.
func Forbid(errno unix.Errno, calls ...uintptr) func() error {
	return func() error {
		// The filter begins by loading the number of the call.
		filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}}
		for _, nr := range calls {
			filter = append(filter,
				unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(nr), Jf: 1},
				unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)})
		}
		filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		// The flag of the filter applies this to the other threads, too.
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("no_new_privs: %w", err)
		}
		_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
			unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
		if e != 0 {
			return fmt.Errorf("seccomp: %w", e)
		}
		return nil
	}
}

// Limit sets a limit of this process, like prlimit.
func Limit(which int, most uint64) func() error {
	return func() error { return unix.Setrlimit(which, &unix.Rlimit{Cur: most, Max: most}) }
}

// LeaveAddressSpace limits the address space to the used part plus the given number of bytes.
func LeaveAddressSpace(more uint64) func() error {
	return func() error {
		text, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			return err
		}
		var pages uint64
		if _, err := fmt.Sscan(string(text), &pages); err != nil {
			return errors.Join(errors.New("/proc/self/statm"), err)
		}
		return Limit(unix.RLIMIT_AS, pages*uint64(os.Getpagesize())+more)()
	}
}
