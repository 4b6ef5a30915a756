package daemon_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/version"
)

// sleepers returns the processes that keepers of a daemon have left.
func sleepers(daemon int) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		b, _ := os.ReadFile(path)
		if string(b) == fmt.Sprintf("sleep\x00600.%d\x00", daemon) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// childrenOf counts the processes whose parent is pid, zombies included.
func childrenOf(pid int) (n int) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		b, _ := os.ReadFile(path)
		_, rest, _ := strings.Cut(string(b), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(pid) {
			n++
		}
	}
	return n
}

// leaves checks a keeper that dies and leaves processes that ignore SIGTERM, with their own
// sessions and environments. All of them end.
func leaves(t *testing.T, daemonPID int, r *ctl.JobReply) {
	t.Helper()
	t.Cleanup(func() {
		for _, pid := range sleepers(daemonPID) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	if !r.Ready {
		t.Fatalf("reply %+v", r)
	}
	eventually(t, "the keeper leaves processes", func() bool { return len(sleepers(daemonPID)) == 2 })
	if err := syscall.Kill(r.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "they end", func() bool { return len(sleepers(daemonPID)) == 0 })
	eventually(t, "they are reaped", func() bool { return childrenOf(daemonPID) == 0 })
}

func TestWhatAKeeperLeavesIsEndedByItsControlGroup(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root makes control groups everywhere")
	}
	c := withSlots(t, 1, 2, "leaves")[0] // no subreaper
	d := child(t, "daemon", marshal(t, c))
	l := launch(t, c)
	leaves(t, d.Process.Pid, l.reserve(t, 0, l.wants(1)))
	for _, dir := range []string{"unified", "memory", "pids", "freezer", "."} {
		if left, _ := filepath.Glob("/sys/fs/cgroup/" + dir + "/" + aJob + "*"); len(left) > 0 {
			t.Errorf("control groups remain: %v", left)
		}
	}
}

// A daemon of a user makes no control groups. It adopts the leftovers.
func TestWhatAKeeperLeavesIsEndedByItsParent(t *testing.T) {
	dir := dirForAll(t)
	if err := os.Chown(dir, outsiderUID, outsiderUID); err != nil {
		t.Fatal(err)
	}
	c := withSlots(t, 1, 2, "leaves")[0]
	c.Socket, c.Subreaper, c.Plain, c.Grants = filepath.Join(dir, "0.sock"), true, true, nil
	x := outsider()
	d := begin(t, x, x.Start, "daemon", marshal(t, c))
	r := outsiderAsks(t, c, 0)
	leaves(t, d.Process.Pid, &r)
}

func TestADaemonOfAUserStartsKeepersAsThatUserOnly(t *testing.T) {
	t.Setenv("TMPDIR", "/run") // root trusts no socket of a user below /tmp
	dir := dirForAll(t)
	if err := os.Chown(dir, outsiderUID, outsiderUID); err != nil {
		t.Fatal(err)
	}
	c := withSlots(t, 1, 2, "starts")[0]
	c.Socket, c.Plain, c.Grants = filepath.Join(dir, "0.sock"), true, nil
	x := outsider()
	begin(t, x, x.Start, "daemon", marshal(t, c))
	l := launch(t, c)
	r := l.reserve(t, 0, l.wants(1))
	if fmt.Sprint(causes(r)) != "[user]" || !strings.Contains(r.Refusals[0].Text, "starts processes as no other") {
		t.Errorf("reply %+v", r)
	}
}

func TestSocketsOfJobsOfADeadDaemonAreRemoved(t *testing.T) {
	c := configs(t, 1)[0]
	left := c.Socket + "." + aJob
	l, err := ctl.ListenFor(left, os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	run(t, c)
	if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket: %v", err)
	}
}

// A flood of reservations starts a bounded number of keepers, and delays nothing else.
func TestAFloodOfReservationsIsBounded(t *testing.T) {
	c := withSlots(t, 2, 1000, "silent")
	l, there := pair(t, c, "run="+me(), "observe")
	far := l.conn.NIC(there)
	var asking sync.WaitGroup
	var mu sync.Mutex
	busy, late := 0, 0
	for i := range 3 * limits.ReservesOfPeer {
		conn := dialTool(t, c[0])
		asking.Go(func() {
			r, err := conn.NIC(there).Job(t.Context(), &ctl.Job{What: ctl.JobReserve, Reserve: &ctl.Reserve{Job: fmt.Sprintf("job-%08x", i),
				Ranks: 1, Size: 1, Launcher: l.launcher, Program: "/bin/true", Dir: "/", Version: version.Release}})
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, ctl.ErrNoAnswer) { // its keeper was late, and the machine is busy
				late++
				return
			}
			if err != nil || len(r.Refusals) != 1 {
				t.Errorf("reply %+v, %v", r, err)
				return
			}
			if strings.Contains(r.Refusals[0].Text, "as many reservations as it can") {
				busy++
			} else {
				late++
			}
		})
	}
	most := 0
	for begun := time.Now(); time.Since(begun) < time.Second || most == 0 && time.Since(begun) < patience; {
		jobs, err := far.Jobs(t.Context())
		if err != nil {
			t.Errorf("the NIC is held up: %v", err)
		}
		most = max(most, len(jobs))
	}
	asking.Wait()
	t.Logf("%d keepers at once; %d reservations were refused at once, %d when their keepers were late", most, busy, late)
	if most > limits.ReservesOfPeer || most == 0 {
		t.Errorf("%d keepers at once; expected 1 to %d", most, limits.ReservesOfPeer)
	}
}
