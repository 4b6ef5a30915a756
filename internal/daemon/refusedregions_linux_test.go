package daemon

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
)

// mappings counts those of this process that are of memory with a name.
func mappings(t *testing.T, name string) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), "/memfd:"+name)
}

// descriptors counts those of this process that are of memory with a name.
func descriptors(t *testing.T, name string) (n int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range all {
		if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.HasPrefix(to, "/memfd:"+name) {
			n++
		}
	}
	return n
}

// A process may ask for regions that it does not get as often as it likes.
func TestARefusedRegionLeavesNoMemoryMapped(t *testing.T) {
	b := newBench(t)
	s := b.session(0)
	const name = "of a process that is refused"
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Skip(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, 1<<20); err != nil {
		t.Fatal(err)
	}
	given := &ctl.Register{FD: fd, Bytes: 5000}
	refused := func(what string, is error, ask func() error) {
		t.Helper()
		before, files := mappings(t, "weft region"), descriptors(t, "weft region")
		if err := ask(); !errors.Is(err, is) {
			t.Errorf("%s: %v; expected %v", what, err, is)
		}
		if n := mappings(t, name); n > 0 {
			t.Errorf("%s: %d mappings of the process's memory are left", what, n)
		}
		if n := mappings(t, "weft region") - before; n > 0 {
			t.Errorf("%s: %d mappings of the daemon's memory are left", what, n)
		}
		if n := descriptors(t, "weft region") - files; n > 0 {
			t.Errorf("%s: %d descriptors are left", what, n)
		}
	}
	had := func(bytes int64) { b.d.loop.Do(func(clock.Time) { s.bytes = bytes }) }
	had(b.d.settings.config.RegionBytes - 5000) // which is less than the pages are
	refused("memory whose pages are beyond the quota", ctl.ErrNoMemory, func() error { return s.take(nil, given) })
	refused("a region whose pages are beyond the quota", ctl.ErrNoMemory, func() error { return s.alloc(nil, &ctl.Alloc{Bytes: 5000}) })
	had(0)
	s.expelled.Store(true)
	refused("memory of a process that is thrown out", ctl.ErrNICGone, func() error { return s.take(nil, given) })
	refused("a region of a process that is thrown out", ctl.ErrNICGone, func() error { return s.alloc(nil, &ctl.Alloc{Bytes: 5000}) })
	s.expelled.Store(false)
}
