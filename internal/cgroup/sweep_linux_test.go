package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestSweepEndsGroupsWithoutAKeeperAndNoOthers(t *testing.T) {
	g := makeGroup(t)
	if g.Unified == "" {
		t.Skip("this host has no control groups of version 2")
	}
	prefix := fmt.Sprintf("weft-test-cg-%d", os.Getpid()) // other tests may run
	keeper := run(t, g.EnterKeeper, "exec sleep 1000")
	rank := run(t, g.Enter, bomb)
	awaitProcesses(t, g, 21)
	swept := func(age time.Duration) {
		t.Helper()
		if _, err := Sweep(prefix, age); err != nil {
			t.Fatal(err)
		}
	}
	swept(0)
	if pids, err := g.Processes(); err != nil || len(pids) < 21 {
		t.Fatalf("the ranks of a living keeper are %v, %v", pids, err)
	}
	if err := keeper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = keeper.Wait()
	swept(time.Hour)
	if pids, err := g.Processes(); err != nil || len(pids) < 21 {
		t.Fatalf("the ranks of a young group are %v, %v", pids, err)
	}
	swept(0)
	if err := rank.Wait(); err == nil {
		t.Error("the rank ended with status 0; expected SIGKILL")
	}
	if _, err := os.Stat(g.Unified); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left (%v)", g.Unified, err)
	}
}

func TestSweepSparesGroupsOfOtherSoftware(t *testing.T) {
	h, err := own()
	if err != nil || h[""] == "" {
		t.Skipf("this host has no control groups of version 2 (%v)", err)
	}
	prefix := fmt.Sprintf("weft-test-other-%d", os.Getpid())
	dir := filepath.Join(aboveLeaf(h[""]), prefix)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("this user makes no control groups: %v", err)
	}
	defer os.Remove(dir)
	at, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	c := exec.Command("/bin/sleep", "600")
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(at.Fd())}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	removed, err := Sweep(prefix, 0)
	if err != nil || len(removed) > 0 {
		t.Errorf("removed %v, %v", removed, err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Errorf("the process of the other group: %v", err)
	}
	var end *exec.ExitError
	if err := c.Wait(); !errors.As(err, &end) {
		t.Errorf("the end of the process: %v", err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the other group: %v", err)
	}
}
