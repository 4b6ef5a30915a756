package ranks

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSignalsReachEveryRank(t *testing.T) {
	r := newRecorder(t)
	s := r.start(r.config(2, argv("catch")...))
	for i := range 2 {
		r.awaitText(i, "ready\n")
	}
	want := "ready\n"
	for _, sig := range []syscall.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGTERM,
	} {
		s.Signal(sig)
		want += "got " + unix.SignalName(sig) + "\n"
		for i := range 2 {
			r.awaitText(i, want)
		}
	}
	s.Wait()
	s.Signal(unix.SIGTERM) // after the end: nothing happens
}

func TestSignalsReachTheChildrenOfARankOnce(t *testing.T) {
	r := newRecorder(t)
	shell := []string{"/bin/sh", "-c", `trap "" TERM; "$@"; echo child is gone`, "sh"}
	s := r.start(r.config(1, append(shell, argv("catch")...)...))
	r.awaitText(0, "ready\n")
	s.Signal(unix.SIGTERM)
	s.Wait()
	if got := r.text(0, Stdout); got != "ready\ngot SIGTERM\nchild is gone\n" {
		t.Errorf("the rank wrote %q", got)
	}
}

func TestTSTPStopsAndCONTContinues(t *testing.T) {
	// "deaf" ignores SIGTSTP, so SIGSTOP has to follow.
	for _, program := range []string{"sleep", "deaf"} {
		t.Run(program, func(t *testing.T) {
			r := newRecorder(t)
			s := r.start(r.config(2, argv(program)...))
			for i := range 2 {
				r.awaitText(i, "ready\n")
			}
			for range 2 {
				s.Signal(unix.SIGTSTP)
				r.await("stop of both ranks", func() bool { return r.stopped[0] && r.stopped[1] })
				for _, i := range s.Inspect() {
					if i.State != "stopped" {
						t.Errorf("rank %d is %s; expected stopped", i.Rank, i.State)
					}
				}
				s.Signal(unix.SIGCONT)
				r.await("continuation of both ranks", func() bool { return !r.stopped[0] && !r.stopped[1] })
			}
		})
	}
}

func TestACONTSoonAfterATSTPLeavesNoRankStopped(t *testing.T) {
	r := newRecorder(t)
	s := r.start(r.config(1, argv("deaf")...))
	r.awaitText(0, "ready\n")
	s.Signal(unix.SIGTSTP)
	s.Signal(unix.SIGCONT)
	s.mu.Lock()
	turn := s.stops
	s.mu.Unlock()
	s.stopRest(turn - 1) // as the timer of the SIGTSTP does
	s.Signal(unix.SIGSTOP)
	r.await("stop", func() bool { return r.stopped[0] })
	s.Signal(unix.SIGCONT)
	r.await("continuation", func() bool { return !r.stopped[0] })
}
