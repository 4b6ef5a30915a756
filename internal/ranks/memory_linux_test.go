package ranks

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/cgroup"
)

// makeGroup makes a control group that ends with the test, or skips the test.
func makeGroup(t *testing.T, uid int) *cgroup.Group {
	t.Helper()
	g, err := cgroup.Make("weft-test-"+itoa(os.Getpid()), uid, uid)
	if err != nil {
		t.Skipf("this host gives no control group: %v", err)
	}
	t.Cleanup(func() {
		if left, err := g.Remove(patience); err != nil || len(left) > 0 {
			t.Errorf("the group is left with processes %v: %v", left, err)
		}
		for _, p := range g.Paths() {
			if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is left (%v)", p, err)
			}
		}
	})
	return g
}

func TestARankThatNeedsTooMuchMemoryEndsWithThatCause(t *testing.T) {
	g := makeGroup(t, os.Getuid())
	if err := g.LimitMemory(32 << 20); err != nil {
		t.Skipf("this host limits no memory: %v", err)
	}
	r := newRecorder(t)
	c := r.config(2, argv("eat")...)
	c.Cgroup = g
	c.EnvOf = func(rank int) []string { return []string{"MEBIBYTES=" + itoa(200*rank)} }
	c.Stdin = map[int]bool{1: true}
	s := r.start(c)
	r.awaitText(0, "ate 0\n") // before the other rank eats: the kernel kills the largest process
	s.CloseStdin(1)
	e := r.exit(1)
	const want = "killed by SIGKILL, out of memory: cgroup limit 32 MiB"
	if e.Signal != 9 || e.OOM != "cgroup limit 32 MiB" || e.Cause != want {
		t.Errorf("the rank ended with %+v; expected %q", e, want)
	}
	// The other rank is alive. A later SIGKILL is not the kernel's.
	if err := unix.Kill(s.PIDs()[0], unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := r.exit(0); e.OOM != "" || e.Cause != "killed by SIGKILL" {
		t.Errorf("the other rank ended with %+v; expected SIGKILL alone", e)
	}
	end(t, s)
}

func TestEndEmptiesTheControlGroup(t *testing.T) {
	g := makeGroup(t, os.Getuid())
	r := newRecorder(t)
	c := r.config(2, argv("bomb", "20")...)
	c.Cgroup = g
	s := r.start(c)
	r.awaitText(0, "ready\n")
	r.awaitText(1, "ready\n")
	all := descendants(os.Getpid()) // first: the job still forks
	inside, err := g.Processes()
	if err != nil {
		t.Fatal(err)
	}
	// Every process of the job is inside, from its beginning.
	for _, p := range all {
		if now, ok := readProcess(p.PID); ok && !now.Ended() && !slices.Contains(inside, p.PID) {
			t.Errorf("process %d (%s) is outside of the group", p.PID, p.Name)
		}
	}
	if len(inside) < 40 || len(all) < 40 {
		t.Errorf("the job has %d processes, %d of them in the group; expected 40 at least", len(all), len(inside))
	}
	end(t, s)
	if left, err := g.Processes(); err != nil || len(left) > 0 {
		t.Errorf("processes %v are left in the group (%v)", left, err)
	}
}

// The keeper of a user has no rights but those that Make has given.
func TestAKeeperOfAUserStartsItsRanksInsideTheGroup(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to become another user")
	}
	const nobody = 65534
	g := makeGroup(t, nobody)
	attr := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	k := startKeeperIn(t, g, attr, "escape")
	k.await(t, "escaped", 2)
	keeper := k.cmd.Process.Pid
	below := descendants(keeper)
	for deadline := time.Now().Add(patience); len(below) != 4; below = descendants(keeper) {
		if time.Now().After(deadline) {
			t.Fatalf("the keeper has %d processes; expected two ranks and two that escaped", len(below))
		}
	}
	inside, err := g.Processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range below {
		if !slices.Contains(inside, p.PID) {
			t.Errorf("process %d is outside of the group", p.PID)
		}
		b, err := os.ReadFile("/proc/" + itoa(p.PID) + "/cgroup")
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(b), "/weft-test-"+itoa(os.Getpid())+"/ranks\n"); n != len(g.Paths()) {
			t.Errorf("process %d is in the group in %d hierarchies; expected %d:\n%s", p.PID, n, len(g.Paths()), b)
		}
	}
	if slices.Contains(inside, k.cmd.Process.Pid) {
		t.Error("the keeper is among the ranks")
	}
	// The keeper ends everything by its own rights.
	if err := k.cmd.Process.Signal(unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	k.await(t, "left", 1)
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		left, err := g.Processes()
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("processes %v are left", left)
		}
	}
}
