package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
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
