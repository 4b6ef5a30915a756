package daemon_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/procstat"
)

const headlessRole = "headless"

func init() {
	if strings.HasPrefix(os.Getenv(roleVariable), headlessRole) {
		runtime.LockOSThread() // TestMain runs on the first thread then
	}
	roles[headlessRole] = func(string) error {
		go func() {
			for { // Go's runtime would end a program whose goroutines are all blocked
				time.Sleep(time.Hour)
			}
		}()
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
		return nil
	}
}

// headlessChild returns the child of a process whose first thread has ended and whose other threads
// live, or 0.
func headlessChild(parent int) int {
	for _, pid := range procstat.PIDs() {
		if p, ok := procstat.Read(pid); ok && p.Parent == parent && p.State == 'Z' && p.Threads > 1 {
			return pid
		}
	}
	return 0
}

// Linux shows such a process as a zombie.
func TestALeftoverWhoseFirstThreadHasEndedIsKilled(t *testing.T) {
	dir := dirForAll(t)
	if err := os.Chown(dir, outsiderUID, outsiderUID); err != nil {
		t.Fatal(err)
	}
	c := withSlots(t, 1, 2, "leaves-headless")[0]
	c.Socket, c.Subreaper, c.Plain, c.Grants = filepath.Join(dir, "0.sock"), true, true, nil
	x := outsider()
	begin(t, x, x.Start, "daemon", marshal(t, c))
	r := outsiderAsks(t, c, 0)
	if !r.Ready {
		t.Fatalf("reply %+v", r)
	}
	left := 0
	eventually(t, "the first thread of the keeper's child ends", func() bool { left = headlessChild(r.PID); return left != 0 })
	t.Cleanup(func() { _ = syscall.Kill(left, syscall.SIGKILL) })
	if err := syscall.Kill(r.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its child is killed and reaped", func() bool {
		_, err := os.Stat(filepath.Join("/proc", strconv.Itoa(left)))
		return os.IsNotExist(err)
	})
}
