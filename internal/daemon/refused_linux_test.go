package daemon_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/refusal/refusaltest"
)

// daemonUnder returns a function that runs a daemon on a system that refuses calls, and returns
// the result of part.
func daemonUnder(c daemon.Config, part func(socket string) string) func() string {
	return func() string {
		c.Listen, c.Socket = "127.0.0.1:0", filepath.Join(os.Getenv("WEFT_TEST_DIR"), "a.sock")
		d, err := daemon.New(c, os.Stderr)
		if err != nil {
			return err.Error()
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		said := part(c.Socket)
		cancel()
		<-ended
		return said
	}
}

// alloc returns a function that attaches a process, registers memory, and returns the result as
// text.
func alloc(bytes int) func(socket string) string {
	return func(socket string) string {
		p, err := attach(context.Background(), socket, "a/0")
		if err != nil {
			return err.Error()
		}
		defer p.Close()
		r, err := p.Alloc(bytes)
		if err != nil {
			return err.Error()
		}
		for i := range r.Bytes() {
			r.Bytes()[i] = 1
		}
		return fmt.Sprintf("it has %d bytes, closed: %v", bytes, r.Close())
	}
}

// testDir makes a directory that children of refusaltest find, and that others may enter.
func testDir(t *testing.T) {
	t.Helper()
	if refusaltest.Inside() {
		return
	}
	dir := t.TempDir()
	if os.Getuid() == 0 {
		dir = dirForAll(t)
	}
	t.Setenv("WEFT_TEST_DIR", dir)
}

func TestRegionsThatTheCgroupHasNoRoomForAreRefused(t *testing.T) {
	testDir(t)
	for name, c := range map[string]struct {
		cfg   daemon.Config
		part  func(string) string
		wants []string
	}{
		"as configured": {daemon.Config{RegionBytes: 256 << 20}, alloc(4096), []string{"region_bytes: 268435456; the cgroup limit 200 MiB (/", "expected less"}},
		"at once":       {daemon.Config{}, alloc(200<<20 - 64<<10), []string{"209649664 bytes of memory; the cgroup limit 200 MiB (/", "available; raise the limit"}},
		"by default":    {daemon.Config{}, alloc(256 << 20), []string{"its quota is 209715200 (region_bytes)"}},
		"less":          {daemon.Config{}, alloc(8 << 20), []string{"it has 8388608 bytes, closed: <nil>"}},
	} {
		said := refusaltest.RunLimited(t, name, 200<<20, daemonUnder(c.cfg, c.part))
		for _, want := range c.wants {
			if !strings.Contains(said, want) {
				t.Errorf("%s: %q; expected %q in it", name, said, want)
			}
		}
	}
}

// Without memfd_create the memory has no seals, so it is only for the daemon's own user.
func TestADaemonDoesWithoutMemfdCreateForItsOwnUser(t *testing.T) {
	testDir(t)
	forbid := refusaltest.Forbid(unix.EPERM, unix.SYS_MEMFD_CREATE)
	said := refusaltest.Run(t, "own", forbid, daemonUnder(daemon.Config{}, alloc(1<<20)))
	if said != "it has 1048576 bytes, closed: <nil>" {
		t.Errorf("a process of the daemon's user: %q", said)
	}
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	said = refusaltest.Run(t, "another", forbid, daemonUnder(daemon.Config{AllowUIDs: []int{outsiderUID}}, func(socket string) string {
		return outsiderSays(t, "outsider="+socket)
	}))
	for _, want := range []string{"not permitted: ", "memfd_create: operation not permitted", "only processes of the daemon's user, 0, may attach"} {
		if !strings.Contains(said, want) {
			t.Errorf("a process of another user: %q; expected %q in it", said, want)
		}
	}
}

func TestADaemonNamesTheLimitThatItsMemoryMeets(t *testing.T) {
	testDir(t)
	said := refusaltest.Run(t, "fsize", refusaltest.Limit(unix.RLIMIT_FSIZE, 8<<20), daemonUnder(daemon.Config{}, alloc(32<<20)))
	for _, want := range []string{"ftruncate: file too large", "33554432 bytes are wanted, and the limit of file sizes (RLIMIT_FSIZE) is 8388608", "LimitFSIZE="} {
		if !strings.Contains(said, want) {
			t.Errorf("%q; expected %q in it", said, want)
		}
	}
}
