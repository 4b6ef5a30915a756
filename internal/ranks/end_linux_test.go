package ranks

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// long is a grace that no test waits for.
const long = 10 * time.Minute

func TestEndAsksBeforeItKills(t *testing.T) {
	r := newRecorder(t)
	s := r.start(r.config(3, argv("catch")...))
	for i := range 3 {
		r.awaitText(i, "ready\n")
	}
	if left := s.End(long); len(left) > 0 {
		t.Fatalf("processes are left: %+v", left)
	}
	for i := range 3 {
		if e := r.exit(i); e.Cause != "" {
			t.Errorf("rank %d ended with %+v; expected status 0", i, e)
		}
		if got := r.writtenAtExit(i); got != "ready\ngot SIGTERM\n" {
			t.Errorf("rank %d wrote %q; expected one SIGTERM", i, got)
		}
	}
}

func TestEndKillsARankThatIgnoresTERM(t *testing.T) {
	r := newRecorder(t)
	s := r.start(r.config(2, argv("deaf")...))
	r.awaitText(0, "ready")
	r.awaitText(1, "ready")
	if left := s.End(50 * time.Millisecond); len(left) > 0 {
		t.Fatalf("processes are left: %+v", left)
	}
	for i := range 2 {
		if e := r.exit(i); e.Cause != "killed by SIGKILL" || e.OOM != "" {
			t.Errorf("rank %d ended with %+v; expected SIGKILL", i, e)
		}
	}
}

func TestEndWakesAStoppedRankToEndByItself(t *testing.T) {
	r := newRecorder(t)
	s := r.start(r.config(1, argv("catch")...))
	r.awaitText(0, "ready")
	s.Signal(unix.SIGSTOP)
	r.await("stop of the rank", func() bool { return r.stopped[0] })
	if got := s.Inspect()[0].State; got != "stopped" {
		t.Errorf("the state of a stopped rank is %q; expected stopped", got)
	}
	if left := s.End(long); len(left) > 0 {
		t.Fatalf("processes are left: %+v", left)
	}
	if e := r.exit(0); e.Cause != "" {
		t.Errorf("the rank ended with %+v; expected status 0", e)
	}
}

func TestEndKillsAStoppedRankThatIgnoresTERM(t *testing.T) {
	r := newRecorder(t)
	s := r.start(r.config(1, argv("deaf")...))
	r.awaitText(0, "ready")
	s.Signal(unix.SIGSTOP)
	r.await("stop of the rank", func() bool { return r.stopped[0] })
	if left := s.End(50 * time.Millisecond); len(left) > 0 {
		t.Fatalf("processes are left: %+v", left)
	}
	if e := r.exit(0); e.Signal != 9 {
		t.Errorf("the rank ended with %+v; expected SIGKILL", e)
	}
}

func TestEndFindsAProcessThatForkedTwiceWithANewSessionAndNoEnvironment(t *testing.T) {
	r := newRecorder(t)
	s := r.start(r.config(2, argv("escape")...))
	var escaped []int
	for i := range 2 {
		r.awaitText(i, "escaped ")
		r.await("its pid", func() bool { return strings.Contains(after(r.text(i, Stdout), "escaped "), "\n") })
		var pid, group, variables int
		r.mu.Lock()
		text := after(r.text(i, Stdout), "escaped ")
		r.mu.Unlock()
		if _, err := fmt.Sscan(text, &pid, &group, &variables); err != nil {
			t.Fatal(err)
		}
		if group == s.PIDs()[i] || variables > 0 {
			t.Fatalf("process %d is in group %d and has %d variables; it has not escaped", pid, group, variables)
		}
		escaped = append(escaped, pid)
	}
	// Its parent ends, so it becomes a child of this process.
	for _, pid := range escaped {
		for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			p, ok := readProcess(pid)
			if ok && p.Parent == os.Getpid() {
				break
			}
			if !ok || time.Now().After(deadline) {
				t.Fatalf("process %d is a child of %d; expected %d", pid, p.Parent, os.Getpid())
			}
		}
	}
	if left := s.End(0); len(left) > 0 {
		t.Fatalf("processes are left: %+v", left)
	}
	for _, pid := range escaped {
		if _, ok := readProcess(pid); ok {
			t.Errorf("process %d is left, or nobody reaped it", pid)
		}
	}
}

func after(s, mark string) string {
	_, rest, _ := strings.Cut(s, mark)
	return rest
}

func TestEndKillsAFamilyThatKeepsForking(t *testing.T) {
	for _, c := range []struct {
		name, script string
	}{
		// Each process starts two more, up to a depth: parents stay.
		{"tree", `trap "" TERM; n=$1; [ $n -gt 0 ] || exec sleep 1000; "$0" $((n-1)) & "$0" $((n-1)) & wait`},
		// Each process starts the next one and ends.
		{"chain", `trap "" TERM; "$0" 0 &`},
		// The same, each in a session of its own.
		{"chain of sessions", `trap "" TERM; setsid "$0" 0 &`},
		// A parent that starts another child whenever one ends.
		{"supervisor", `trap "" TERM; while :; do sleep 1000; done`},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "family")
			if err := os.WriteFile(file, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			r := newRecorder(t)
			s := r.start(r.config(2, "/bin/sh", "-c", `echo ready; exec "$0" 6`, file))
			r.awaitText(0, "ready")
			r.awaitText(1, "ready")
			end(t, s)
		})
	}
}

func TestEndKillsTwoHundredFamilies(t *testing.T) {
	r := newRecorder(t)
	s := r.start(r.config(1, argv("bomb", "200")...))
	r.awaitText(0, "ready")
	if n := len(descendants(os.Getpid())); n < 200 {
		t.Fatalf("the bomb has %d processes; expected 200 at least", n)
	}
	end(t, s)
}

// Such a process looks like one that waits to be reaped.
func TestEndKillsAProcessWhoseFirstThreadHasEnded(t *testing.T) {
	r := newRecorder(t)
	s := r.start(r.config(1, argv("leaver", "headless")...))
	r.exit(0)
	r.awaitText(0, "ready\n")
	if n := len(descendants(os.Getpid())); n != 1 {
		t.Errorf("%d processes are found; expected one", n)
	}
	end(t, s)

	r = newRecorder(t)
	s = r.start(r.config(1, argv("headless")...))
	r.awaitText(0, "ready\n")
	if got := s.Inspect()[0].State; got != "sleeping" && got != "running" {
		t.Errorf("the rank is %s; expected that it runs", got)
	}
	if left := s.End(10 * time.Millisecond); len(left) > 0 {
		t.Errorf("processes survive: %+v", left)
	}
	if e := r.exit(0); e.Signal != 9 {
		t.Errorf("the rank ended with %+v; expected SIGKILL", e)
	}
}

func TestEndMayRunTwiceAndTheShorterGraceCounts(t *testing.T) {
	r := newRecorder(t)
	s := r.start(r.config(1, argv("deaf")...))
	r.awaitText(0, "ready")
	first := make(chan []Survivor)
	go func() { first <- s.End(long) }()
	if left := s.End(0); len(left) > 0 {
		t.Fatalf("processes are left: %+v", left)
	}
	if left := <-first; len(left) > 0 {
		t.Fatalf("the first End names %+v", left)
	}
	if left := s.End(long); len(left) > 0 {
		t.Fatalf("an End after the end names %+v", left)
	}
}

// A frozen process ignores SIGKILL until it is thawed, as one in an endless call of the kernel
// does.
func TestAProcessThatCannotBeKilledIsNamedAndNotWaitedFor(t *testing.T) {
	dir, err := os.MkdirTemp("/sys/fs/cgroup/freezer", "weft-test-")
	if err != nil {
		t.Skipf("no freezer of cgroup version 1: %v", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	control := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	r := newRecorder(t)
	s := r.start(r.config(2, argv("sleep")...))
	t.Cleanup(func() { control("freezer.state", "THAWED") })
	r.awaitText(0, "ready")
	r.awaitText(1, "ready")
	stuck := s.PIDs()[1]
	control("cgroup.procs", strconv.Itoa(stuck))
	control("freezer.state", "FROZEN")

	left := s.End(10 * time.Millisecond)
	if len(left) != 1 || left[0].PID != stuck || left[0].Rank != 1 || left[0].Name == "" || left[0].Why == "" {
		t.Errorf("End names %+v; expected process %d of rank 1, its program and its state", left, stuck)
	}
	s.Wait()
	if e := r.exit(1); !e.Unkillable || e.Cause != fmt.Sprintf("process %d cannot be killed", stuck) {
		t.Errorf("the rank ended with %+v; expected an unkillable process", e)
	}
	if e := r.exit(0); e.Unkillable || e.Signal == 0 {
		t.Errorf("the other rank ended with %+v; expected a signal", e)
	}
}

func TestTheRanksDieWithTheirKeeper(t *testing.T) {
	k := startKeeper(t, "deaf")
	pids := k.pids(t)
	if err := k.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = k.cmd.Wait()
	for _, pid := range pids {
		awaitGone(t, pid)
	}
}
