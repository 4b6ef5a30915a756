package userfault

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/refusal/refusaltest"
)

// pagerUnder runs a pager and a program on a system that refuses some calls, and returns the
// outcome as text.
func pagerUnder(t *testing.T, name string, refuse func() error) string {
	t.Helper()
	if err := Check(); err != nil {
		t.Skip(err)
	}
	if !refusaltest.Inside() {
		t.Setenv("WEFT_TEST_DIR", t.TempDir())
	}
	return refusaltest.Run(t, name, refuse, func() string {
		var log lines
		p, err := New(Config{Device: &device{b: make([]byte, 4<<20)}, Page: 4096, Resident: 1 << 20, Log: log.add})
		if err != nil {
			return err.Error()
		}
		socket := filepath.Join(os.Getenv("WEFT_TEST_DIR"), "s")
		l, err := net.ListenUnix(Network, &net.UnixAddr{Name: socket, Net: Network})
		if err != nil {
			return err.Error()
		}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- p.Serve(ctx, l) }()
		out, err := program(t, "use", socket).CombinedOutput()
		cancel()
		return fmt.Sprintf("%s%v, %v, %s", out, err, <-served, log.String())
	})
}

func TestAPagerDoesWithoutMemfdCreate(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EPERM, unix.ENOSYS} {
		said := pagerUnder(t, errno.Error(), refusaltest.Forbid(errno, unix.SYS_MEMFD_CREATE))
		if !strings.HasPrefix(said, "4194304 bytes, ") || !strings.Contains(said, "<nil>, <nil>, ") {
			t.Errorf("%v: %q", errno, said)
		}
	}
}

func TestWhatAPagedProgramCannotDoWithoutIsNamed(t *testing.T) {
	said := pagerUnder(t, "madvise", refusaltest.Forbid(unix.EPERM, unix.SYS_MADVISE))
	if !strings.Contains(said, "madvise: operation not permitted: a seccomp filter") || !strings.Contains(said, "allow madvise in the seccomp profile") {
		t.Errorf("no madvise: %q", said)
	}
	said = refusaltest.Run(t, "userfaultfd", refusaltest.Forbid(unix.ENOSYS, unix.SYS_USERFAULTFD), func() string { return fmt.Sprint(Check()) })
	if !strings.Contains(said, "userfaultfd: function not implemented: ") || !strings.Contains(said, "vm.unprivileged_userfaultfd") || !strings.Contains(said, "/dev/userfaultfd") {
		t.Errorf("no userfaultfd: %q", said)
	}
}
