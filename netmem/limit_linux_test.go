package netmem_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/refusal/refusaltest"
	"github.com/weftnet/weft/netmem"
)

// serveAlone starts a server with its own NIC and returns the result as text.
func serveAlone(bytes int, spill string, spillBytes int64) func() string {
	return func() string {
		p, err := weft.Open(context.Background(), weft.Config{Name: weft.Name{App: "mem"}, Link: weft.NewSwitch().Link()})
		if err != nil {
			return fmt.Sprintf("no process: %v", err)
		}
		defer p.Close()
		s, err := netmem.Serve(p, netmem.ServerConfig{Bytes: bytes, Spill: spill, SpillBytes: spillBytes})
		if err != nil {
			return err.Error()
		}
		defer s.Close()
		return "it lends"
	}
}

// Once, a server lent more memory than its cgroup had, and the kernel killed it while a client
// wrote.
func TestAServerThatItsCgroupHasNoRoomForIsRefusedAtStart(t *testing.T) {
	for _, c := range []struct {
		bytes int
		want  []string
	}{
		{256 << 20, []string{"netmem: 32912 pages of 8192 bytes: ", " bytes of memory; the cgroup limit 100 MiB (/", "available; raise the limit"}},
		{16 << 20, []string{"it lends"}},
	} {
		said := refusaltest.RunLimited(t, fmt.Sprint(c.bytes), 100<<20, serveAlone(c.bytes, "", 0))
		for _, part := range c.want {
			if !strings.Contains(said, part) {
				t.Errorf("a server of %d bytes in 100 MiB: %q; expected %q in it", c.bytes, said, part)
			}
		}
	}
}

// A server has the memory that it lends from the start: a second server in its cgroup finds less.
func TestWhatAServerLendsIsTakenFromItsCgroup(t *testing.T) {
	said := refusaltest.RunLimited(t, "two", 150<<20, func() string {
		p, err := weft.Open(context.Background(), weft.Config{Name: weft.Name{App: "mem"}, Link: weft.NewSwitch().Link()})
		if err != nil {
			return err.Error()
		}
		defer p.Close()
		s, err := netmem.Serve(p, netmem.ServerConfig{Bytes: 64 << 20})
		if err != nil {
			return err.Error()
		}
		defer s.Close()
		return serveAlone(96<<20, "", 0)()
	})
	if !strings.Contains(said, "the cgroup limit 150 MiB") {
		t.Errorf("a second server of 96 MiB beside one of 64 MiB in 150 MiB: %q", said)
	}
}

func TestALimitThatAServerMeetsIsNamed(t *testing.T) {
	if !refusaltest.Inside() { // a child of Run removes nothing
		t.Setenv("WEFT_TEST_SPILL", t.TempDir()+"/spill")
	}
	spill := os.Getenv("WEFT_TEST_SPILL")
	for name, c := range map[string]struct {
		refuse func() error
		serve  func() string
		want   string
	}{
		"prlimit --as":    {refusaltest.LeaveAddressSpace(256 << 20), serveAlone(512<<20, "", 0), "RLIMIT_AS"},
		"prlimit --fsize": {refusaltest.Limit(unix.RLIMIT_FSIZE, 1<<20), serveAlone(1<<20, spill, 8<<20), "8388608 bytes are wanted, and the limit of file sizes (RLIMIT_FSIZE) is 1048576"},
		"no madvise":      {refusaltest.Forbid(unix.EPERM, unix.SYS_MADVISE), serveAlone(1<<20, "", 0), "it lends"},
		"no memfd_create": {refusaltest.Forbid(unix.ENOSYS, unix.SYS_MEMFD_CREATE), serveAlone(1<<20, "", 0), "it lends"},
	} {
		if said := refusaltest.Run(t, name, c.refuse, c.serve); !strings.Contains(said, c.want) {
			t.Errorf("%s: %q; expected %q in it", name, said, c.want)
		}
	}
}
