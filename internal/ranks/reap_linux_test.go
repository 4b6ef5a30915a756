package ranks

import (
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/procstat"
)

// Linux sends Pdeathsig when the forking thread ends.
func TestRanksOutliveTheThreadThatCalledStart(t *testing.T) {
	r := newRecorder(t)
	c := r.config(2, argv("sleep")...)
	started, failed := make(chan *Set, 1), make(chan error, 1)
	thread := make(chan int, 1)
	go func() {
		runtime.LockOSThread() // without Unlock: the thread ends with the goroutine
		thread <- unix.Gettid()
		s, err := Start(c)
		started <- s
		failed <- err
	}()
	s := <-started
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, s) })
	tid := <-thread
	for deadline := time.Now().Add(patience); tid != os.Getpid(); time.Sleep(time.Millisecond) {
		if _, err := os.Stat("/proc/self/task/" + itoa(tid)); err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("thread %d still runs", tid)
		}
	}
	r.awaitText(0, "ready\n")
	r.awaitText(1, "ready\n")
	for _, i := range s.Inspect() {
		if i.State != "sleeping" && i.State != "running" {
			t.Errorf("rank %d is %s; expected that it runs", i.Rank, i.State)
		}
	}
}

func TestOrphansThatEndAreReaped(t *testing.T) {
	r := newRecorder(t)
	script := `for i in 1 2 3 4 5 6 7 8 9 10; do (sleep 0.01 &); done; echo ready; exec sleep 1000`
	s := r.start(r.config(1, "/bin/sh", "-c", script))
	r.awaitText(0, "ready\n")
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		children := 0
		for _, pid := range procstat.PIDs() {
			if p, ok := readProcess(pid); ok && p.Parent == os.Getpid() {
				children++
			}
		}
		if children == 1 { // the rank
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("this process has %d children; expected the rank alone", children)
		}
	}
	if got := s.Inspect()[0].State; got == "ended" {
		t.Error("the rank has ended; expected that it runs")
	}
}

func TestAnEndedRankTellsHowItEnded(t *testing.T) {
	r := newRecorder(t)
	c := r.config(4, "/bin/sh", "-c", `case $RANK in 1) exit 3;; 2) kill -TERM $$;; 3) exec sleep 1000;; esac`)
	c.EnvOf = func(rank int) []string { return []string{"RANK=" + itoa(rank)} }
	s := r.start(c)
	for rank := range 3 {
		r.exit(rank)
	}
	for i, want := range []string{"exited with status 0", "exited with status 3", "killed by SIGTERM"} {
		if got := s.Inspect()[i]; got.State != "ended" || got.Cause != want {
			t.Errorf("rank %d: %+v; expected that it %s", i, got, want)
		}
	}
	if got := s.Inspect()[3]; got.State == "ended" || got.Cause != "" {
		t.Errorf("rank 3: %+v; expected that it runs", got)
	}
}
