package main

import (
	"os"
	"testing"
)

func TestTheRankThatBreaksTheWorldIsTheCause(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	times := 10
	if testing.Short() {
		times = 3
	}
	for range times {
		r := weftRun(t, "-n", "4", "--env", asBroken+"=1", "--", "/proc/self/exe")
		status, _, stderr := r.end(t)
		if want := "weft run: rank 2 on " + host + ": exited with status 3\n"; status != 3 || stderr != want {
			t.Errorf("status %d, %s; expected 3, %s", status, stderr, want)
		}
	}
}
