package daemon

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/vni"
)

// mappings counts the mappings of this process whose memory has this name.
func mappings(t *testing.T, name string) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), "/memfd:"+name)
}

// descriptors counts the descriptors of this process whose memory has this name.
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

// A process may ask any number of times for memory that it does not get.
func TestARefusedRegionOrSegmentLeavesNoMemoryMapped(t *testing.T) {
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
		daemons := []string{"weft region", "weft segment"}
		var before [2][2]int
		for i, name := range daemons {
			before[i] = [2]int{mappings(t, name), descriptors(t, name)}
		}
		if err := ask(); !errors.Is(err, is) {
			t.Errorf("%s: %v; expected %v", what, err, is)
		}
		if n := mappings(t, name); n > 0 {
			t.Errorf("%s: %d mappings of the process's memory are left", what, n)
		}
		for i, name := range daemons {
			if m, n := mappings(t, name)-before[i][0], descriptors(t, name)-before[i][1]; m > 0 || n > 0 {
				t.Errorf("%s: %d mappings and %d descriptors of %q are left", what, m, n, name)
			}
		}
	}
	had := func(bytes int64) { b.d.loop.Do(func(clock.Time) { s.bytes = bytes }) }
	had(b.d.settings.config.RegionBytes - 5000) // less than the bytes of the pages
	refused("memory whose pages are beyond the quota", ctl.ErrNoMemory, func() error { return s.take(nil, given) })
	refused("a region whose pages are beyond the quota", ctl.ErrNoMemory, func() error { return s.alloc(nil, &ctl.Alloc{Bytes: 5000}) })
	had(0)
	b.d.loop.Do(func(clock.Time) { err = b.d.engine.Programs().AddSegment(9, vni.AlignedBytes(8+program.SegmentTail)) })
	if err != nil {
		t.Fatal(err)
	}
	refused("a segment that the engine refuses", ctl.ErrNoMemory, func() error { return s.share(nil, &ctl.SharedSegment{ID: 9, Bytes: 8}) })
	b.d.loop.Do(func(clock.Time) { err = b.d.engine.Programs().RemoveSegment(9) })
	if err != nil {
		t.Error(err)
	}
	s.expelled.Store(true)
	refused("memory of a process that is thrown out", ctl.ErrNICGone, func() error { return s.take(nil, given) })
	refused("a segment of a process that is thrown out", ctl.ErrNICGone, func() error { return s.share(nil, &ctl.SharedSegment{ID: 9, Bytes: 8}) })
	refused("a region of a process that is thrown out", ctl.ErrNICGone, func() error { return s.alloc(nil, &ctl.Alloc{Bytes: 5000}) })
	s.expelled.Store(false)
}
