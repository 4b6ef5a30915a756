package cgroup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds every wait for something that must happen, however busy the machine is.
const patience = time.Minute

// makeGroup makes a group that is removed at the end of the test, or skips the test.
func makeGroup(t *testing.T) *Group {
	t.Helper()
	g, err := Make(fmt.Sprintf("weft-test-cg-%d", os.Getpid()), os.Getuid(), os.Getgid())
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

// run starts a shell inside the group. The shell is reaped at the end of the test.
func run(t *testing.T, enter func(*syscall.SysProcAttr) (func(), error), script string) *exec.Cmd {
	t.Helper()
	c := exec.Command("/bin/sh", "-c", script)
	c.SysProcAttr = new(syscall.SysProcAttr)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	done, err := enter(c.SysProcAttr)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return c
}

// awaitProcesses waits until the ranks have at least n processes.
func awaitProcesses(t *testing.T, g *Group, n int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		pids, err := g.Processes()
		if err != nil {
			t.Fatal(err)
		}
		if len(pids) >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the group has the processes %v; expected %d", pids, n)
		}
	}
}

// bomb is a shell with ten stopped children. Each of them has a child in another session.
const bomb = `trap "" TERM
for i in 1 2 3 4 5 6 7 8 9 10; do
	sh -c 'trap "" TERM; setsid sleep 1000 & kill -STOP $$' &
done
wait`

func TestKillEndsEveryProcessOfTheRanksAndSparesTheKeeper(t *testing.T) {
	for _, c := range []struct {
		name string
		part func(*Group) Group
	}{
		{"all hierarchies", func(g *Group) Group { return *g }},
		{"version 2", func(g *Group) Group { return Group{Unified: g.Unified} }},
		{"version 1", func(g *Group) Group { return Group{Memory: g.Memory, Pids: g.Pids, Freezer: g.Freezer} }},
		{"version 1 without the freezer", func(g *Group) Group { return Group{Memory: g.Memory, Pids: g.Pids} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := c.part(makeGroup(t))
			if len(g.Paths()) == 0 {
				t.Skip("this host has no such hierarchy")
			}
			keeper := run(t, g.EnterKeeper, "sleep 1000")
			rank := run(t, g.Enter, bomb)
			awaitProcesses(t, &g, 21)
			if left, err := g.Kill(patience); err != nil || len(left) > 0 {
				t.Fatalf("processes %v are left: %v", left, err)
			}
			if err := rank.Wait(); err == nil {
				t.Error("the rank ended with status 0; expected SIGKILL")
			}
			if err := keeper.Process.Signal(syscall.Signal(0)); err != nil {
				t.Errorf("the keeper is gone: %v", err)
			}
			if left, err := g.Kill(0); err != nil || len(left) > 0 {
				t.Errorf("an empty group has the processes %v: %v", left, err)
			}
		})
	}
}

func TestRemoveEndsTheKeeperToo(t *testing.T) {
	g := makeGroup(t)
	keeper := run(t, g.EnterKeeper, "sleep 1000")
	run(t, g.Enter, bomb)
	awaitProcesses(t, g, 21)
	if left, err := g.Remove(patience); err != nil || len(left) > 0 {
		t.Fatalf("the group is left with processes %v: %v", left, err)
	}
	if err := keeper.Wait(); err == nil {
		t.Error("the keeper ended with status 0; expected SIGKILL")
	}
	if left, err := g.Remove(0); err != nil || len(left) > 0 {
		t.Errorf("a second Remove fails with %v, %v; expected nothing to do", left, err)
	}
}

// A frozen process ignores SIGKILL until it is thawed, like a process in an endless system call.
func TestKillNamesAProcessThatDoesNotEndAndReturns(t *testing.T) {
	g := makeGroup(t)
	if g.Freezer == "" {
		t.Skip("no freezer of version 1")
	}
	run(t, g.Enter, "sleep 1000")
	awaitProcesses(t, g, 1)
	// This is the state of the whole job. Kill thaws only the ranks.
	state := filepath.Join(g.Freezer, "freezer.state")
	if err := write(state, "FROZEN"); err != nil {
		t.Fatal(err)
	}
	left, err := g.Kill(50 * time.Millisecond)
	if terr := write(state, "THAWED"); terr != nil {
		t.Fatal(terr)
	}
	if len(left) == 0 {
		t.Errorf("no process is named (%v); expected the frozen one", err)
	}
}

func TestAProcessLimitStopsForks(t *testing.T) {
	g := makeGroup(t)
	if err := g.LimitProcesses(5); errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	c := run(t, g.Enter, `for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1000 & done; exit 0`)
	if err := c.Wait(); err == nil {
		t.Error("ten processes were started; expected a failed fork")
	}
	pids, err := g.Processes()
	if err != nil || len(pids) > 5 {
		t.Errorf("the group has %d processes (%v); expected at most 5", len(pids), err)
	}
}

func TestALimitBelowOnePageAndANegativeOneAreRefused(t *testing.T) {
	g := &Group{}
	for _, bytes := range []int64{0, -1} {
		if err := g.LimitMemory(bytes); err == nil || !strings.Contains(err.Error(), "expected a positive number") {
			t.Errorf("a limit of %d bytes: %v", bytes, err)
		}
	}
	for _, err := range []error{g.LimitMemory(1 << 20), g.LimitProcesses(1)} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a group without controllers: %v; expected %v", err, errors.ErrUnsupported)
		}
	}
}

func TestAGroupIsTheSameAfterTheWayToTheKeeper(t *testing.T) {
	g := makeGroup(t)
	b, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	var decoded Group
	if err := json.Unmarshal(b, &decoded); err != nil || decoded != *g {
		t.Errorf("%s is decoded as %+v (%v)", b, decoded, err)
	}
	opened, err := Open(g.Paths()...)
	if err != nil || !reflect.DeepEqual(opened, g) {
		t.Errorf("%v are opened as %+v (%v); expected %+v", g.Paths(), opened, err, g)
	}
}

func TestWhatIsNoGroupIsRefused(t *testing.T) {
	for _, name := range []string{
		"", ".", "..", "a/b", "../x", "cgroup.procs", "memory.max", "a b", "-x", "job-1.", "é",
	} {
		if g, err := Make(name, 0, 0); err == nil {
			_, _ = g.Remove(patience)
			t.Errorf("a group named %q was made; expected an error", name)
		}
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "expected the cgroup of a job") {
		t.Errorf("an ordinary directory: %v", err)
	}
	if _, err := Open(); err == nil {
		t.Error("no directory at all is a group")
	}
	g := makeGroup(t)
	if _, err := Make(filepath.Base(g.Paths()[0]), 0, 0); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second group of one name: %v; expected %v", err, fs.ErrExist)
	}
}

func TestTheThreadIsHomeAfterEnter(t *testing.T) {
	g := makeGroup(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	file := fmt.Sprintf("/proc/self/task/%d/cgroup", unix.Gettid())
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	attr := new(syscall.SysProcAttr)
	done, err := g.Enter(attr)
	if err != nil {
		t.Fatal(err)
	}
	done()
	after, err := os.ReadFile(file)
	if err != nil || string(after) != string(before) {
		t.Errorf("the thread is in\n%s; expected\n%s (%v)", after, before, err)
	}
	if attr.UseCgroupFD || attr.CgroupFD != 0 {
		t.Errorf("attr still names the group: %+v", attr)
	}
}

// A process of the list may end before the kill, and a process outside may get its pid.
func TestAPidThatHasLeftTheGroupIsNotKilled(t *testing.T) {
	g := makeGroup(t)
	rank := run(t, g.Enter, "exec sleep 600")
	awaitProcesses(t, g, 1)
	outside := exec.Command("/bin/sleep", "600")
	if err := outside.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.killAll(ranksDir, []int{outside.Process.Pid, rank.Process.Pid}); err != nil {
		t.Error(err)
	}
	if err := rank.Wait(); err == nil {
		t.Error("the rank ended with status 0; expected SIGKILL")
	}
	if err := outside.Process.Signal(unix.SIGTERM); err != nil {
		t.Errorf("the process outside: %v", err)
	}
	var end *exec.ExitError
	if err := outside.Wait(); !errors.As(err, &end) || end.Sys().(syscall.WaitStatus).Signal() != unix.SIGTERM {
		t.Errorf("the process outside: %v; expected an end by SIGTERM", err)
	}
}
