package daemon

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// openFiles counts the open descriptors of this process.
func openFiles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// If the kernel cannot provide the pages of an idle VNI, the process is refused, the VNI is freed,
// and another takes its place when a process goes.
func TestAnIdleVNIWithoutPagesIsFreedAndReplaced(t *testing.T) {
	g := vni.DefaultGeometry(false)
	var v vnis
	before := openFiles(t)
	if err := v.prepare(g, 2); err != nil {
		t.Fatal(err)
	}
	lacks := v.idle[1].ro
	if err := unix.Munmap(lacks.mem); err != nil {
		t.Fatal(err)
	}
	lacks.release()
	if err := lacks.shared(); err != nil {
		t.Fatal(err)
	}
	lacks.mem = make([]byte, len(lacks.mem)+1)[1:] // not whole pages, and without a file
	if _, err := v.take(g); err == nil {
		t.Fatal("a VNI without pages is taken")
	}
	m, err := v.take(g)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.give(m); err != nil {
		t.Error(err)
	}
	if len(v.idle) != 1 || len(v.used) != 0 || v.ready != 1 {
		t.Errorf("%d VNIs are idle, %d used, %d ready; expected 1, 0 and 1", len(v.idle), len(v.used), v.ready)
	}
	if err := v.close(); err != nil {
		t.Error(err)
	}
	if n := openFiles(t); n > before {
		t.Errorf("%d descriptors are open; expected %d", n, before)
	}
}

// A process that floods the log gets lines again as time passes, at most LogLines at once. The next
// line tells how many were left out since the last one.
func TestTheLogTellsOfAProcessAgainAfterAWhile(t *testing.T) {
	s := said{counts: map[lineKey]*lineCount{}}
	k, now := lineKey{message: "process thrown out", pid: 7}, time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		after         time.Duration
		asks, printed int
		missed        int // as the first printed line tells
	}{
		{0, limits.LogLines + 5, limits.LogLines, 0},
		{limits.LogEvery / 2, 1, 0, 0},
		{limits.LogEvery / 2, 3, 1, 6},
		{limits.LogEvery, 1, 1, 2},
		{limits.LogEvery, 1, 1, 0},
		{1000 * limits.LogEvery, 2 * limits.LogLines, limits.LogLines, 0},
		{limits.LogEvery, 2, 1, limits.LogLines},
	} {
		now = now.Add(c.after)
		printed, told := 0, 0
		for range c.asks {
			if missed, ok := s.count(k, now); ok {
				printed++
				told += missed
			}
		}
		if printed != c.printed || told != c.missed {
			t.Errorf("%v later %d of %d lines are printed, and tell of %d; expected %d and %d", c.after, printed, c.asks, told, c.printed, c.missed)
		}
	}
}

// A process that is refused leaves the daemon neither a slot, nor memory, nor a descriptor.
func TestAProcessThatIsRefusedLeavesNothing(t *testing.T) {
	const most = 4
	b := newBenchOf(t, Config{MaxProcesses: most})
	before := openFiles(t)
	for range 2 * most {
		if _, err := b.d.attachment(t, "a/0", nil); !errors.Is(err, ctl.ErrNameTaken) {
			t.Fatalf("%v; expected %v", err, ctl.ErrNameTaken)
		}
	}
	eventually(t, "the end of its descriptors", func() bool { return openFiles(t) <= before })
	b.d.loop.Do(func(clock.Time) {
		if n := len(b.d.sessions); n != len(b.parts) {
			t.Errorf("the loop has %d sessions; expected %d", n, len(b.parts))
		}
	})
	var count ctl.VNIs
	if b.d.vnis.segment(&count); count.Used != len(b.parts) {
		t.Errorf("%d VNIs are used; expected %d", count.Used, len(b.parts))
	}
}

// The daemon closes its copies of the descriptors of a process once. Other files may have their
// numbers when the process goes.
func TestTheEndOfAProcessClosesNoOtherFile(t *testing.T) {
	b := newBench(t)
	if _, _, _, err := b.parts[0].Alloc(t.Context(), 4096, false); err != nil { // behind the attach
		t.Fatal(err)
	}
	var pipes [][2]*os.File
	for range 32 { // these take the lowest free numbers
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		pipes = append(pipes, [2]*os.File{r, w})
	}
	b.parts[0].Close()
	eventually(t, "its end", func() bool { return b.session(0) == nil })
	eventually(t, "the end of its connection", func() bool {
		b.d.mu.Lock()
		defer b.d.mu.Unlock()
		return len(b.d.clients) == 1
	})
	for i, p := range pipes {
		if _, err := p[1].Write([]byte("x")); err != nil {
			t.Errorf("pipe %d: %v", i, err)
		} else if _, err := p[0].Read(make([]byte, 1)); err != nil {
			t.Errorf("pipe %d: %v", i, err)
		}
	}
}
