package daemon_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/daemon"
)

// keepersOf counts the keepers of one kind that this process has started and not reaped.
func keepersOf(t *testing.T, how string) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if b, _ := os.ReadFile(path); string(b) == "weft\x00"+keeperArgument+"\x00"+how+"\x00" {
			n++
		}
	}
	return n
}

func TestAnExpectedJobGetsTheKeeperThatHasStartedEarly(t *testing.T) {
	c := withSlots(t, 1, 4, "early")[0]
	c.Expect = aJob
	run(t, c)
	eventually(t, "one keeper runs before the reservation", func() bool { return keepersOf(t, "early") == 1 })
	l := launch(t, c)
	if r := l.reserve(t, 0, l.wants(2)); !r.Ready || !running(r.PID) {
		t.Errorf("reply %+v", r)
	}
	if n := keepersOf(t, "early"); n != 1 {
		t.Errorf("%d keepers run; expected the one that had started early", n)
	}
	other := l.reserve(t, 0, l.wants(1, func(r *ctl.Reserve) { r.Restart = 1 }))
	if n := keepersOf(t, "early"); !other.Ready || n != 2 {
		t.Errorf("reply %+v, %d keepers run; expected another one for another job", other, n)
	}
}

func TestNothingIsLeftOfAnExpectedJobThatDoesNotCome(t *testing.T) {
	c := withSlots(t, 1, 4, "unwanted")[0]
	c.Expect = aJob
	d, err := daemon.New(c, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "one keeper runs", func() bool { return keepersOf(t, "unwanted") == 1 })
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := d.Run(ctx); err != nil {
		t.Error(err)
	}
	if n := keepersOf(t, "unwanted"); n != 0 {
		t.Errorf("%d keepers are left", n)
	}
	for _, dir := range []string{"unified", "memory", "pids", "freezer", "."} {
		if left, _ := filepath.Glob("/sys/fs/cgroup/" + dir + "/" + aJob + "*"); len(left) > 0 {
			t.Errorf("control groups remain: %v", left)
		}
	}
}
