package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/procstat"
)

// pidfdsOf counts the pidfds of a process that this process has.
func pidfdsOf(t *testing.T, pid int) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fdinfo/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		// An error: the descriptor of the listing, which is closed.
		if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), fmt.Sprintf("\nPid:\t%d\n", pid)) {
			n++
		}
	}
	return n
}

// A daemon waits for the death of many processes in its life.
func TestTheWaitForADeathLeavesNoDescriptor(t *testing.T) {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), "WEFT_DAEMON_TEST_ROLE=headless=") // its first thread ends, and others live
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	pid := c.Process.Pid
	eventually(t, "the end of its first thread", func() bool {
		p, ok := procstat.Read(pid)
		return ok && p.Exiting && !p.Ended()
	})
	before := pidfdsOf(t, pid)
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Skip("this system has no pidfds:", err)
	}
	seen := pidfdsOf(t, pid) - before
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	if seen != 1 {
		t.Skipf("one pidfd shows as %d", seen)
	}
	d := &Daemon{door: newDoor(Config{})}
	d.awaitDeath(pid)
	if n := pidfdsOf(t, pid); n != before {
		t.Errorf("%d pidfds of the process are open; expected %d", n, before)
	}
}
