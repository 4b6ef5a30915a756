package ranks

import (
	"testing"
	"time"
)

func TestEveryDeathHasItsCause(t *testing.T) {
	const last = "the last line\nand half a line"
	for _, c := range []struct {
		name string
		argv []string
		want Exit // PID and usage are not compared
		out  string
	}{
		{"a rank ends", argv("exit", "0"), Exit{}, ""},
		{"a rank exits with 3", argv("exit", "3"), Exit{Status: 3, Cause: "exited with status 3"}, ""},
		{"a rank is killed", argv("signal", "9"), Exit{Signal: 9, Cause: "killed by SIGKILL"}, last},
		{"a rank crashes", argv("signal", "11"), Exit{Signal: 11, Cause: "killed by SIGSEGV"}, last},
		{"a rank aborts", argv("signal", "6"), Exit{Signal: 6, Cause: "killed by SIGABRT"}, last},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRecorder(t)
			s := r.start(r.config(2, c.argv...))
			s.Wait()
			for i, pid := range s.PIDs() {
				got := r.exit(i)
				if got.PID != pid {
					t.Errorf("rank %d ended as process %d, and started as %d", i, got.PID, pid)
				}
				if got.MaxRSSBytes <= 0 || got.User+got.System <= 0 {
					t.Errorf("rank %d used %v, %v and %d bytes; expected some", i, got.User, got.System, got.MaxRSSBytes)
				}
				want := c.want
				want.Rank, want.PID = i, pid
				got.User, got.System, got.MaxRSSBytes, got.Died = 0, 0, 0, time.Time{}
				if got != want {
					t.Errorf("rank %d ended with %+v; expected %+v", i, got, want)
				}
				if got := r.writtenAtExit(i); got != c.out {
					t.Errorf("rank %d had written %q when its end was reported; expected %q", i, got, c.out)
				}
			}
		})
	}
}
