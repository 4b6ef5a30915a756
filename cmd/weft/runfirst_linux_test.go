package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	fabric "github.com/weftnet/weft"
)

// asBroken makes this test a rank of a job whose rank 2 exits with 3 while all ranks are in a collective.
const asBroken = "WEFT_TEST_BROKEN_RANK"

// breakWorld is the program of such a rank. It returns the exit status.
func breakWorld() int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := fabric.Attach(ctx, fabric.AttachConfig{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 10
	}
	world, err := p.World(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 11
	}
	for round := 0; ; round++ {
		if round == 3 && world.Rank() == 2 {
			fmt.Print(strings.Repeat("the rest of its output\n", 1000))
			return 3
		}
		if err := fabric.AllReduce(ctx, world, fabric.Sum, []int64{1}); err != nil {
			return 1
		}
	}
}

func TestTheRankThatBreaksTheWorldIsTheCause(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		r := weftRun(t, "-n", "4", "--env", asBroken+"=1", "--", "/proc/self/exe")
		status, _, stderr := r.end(t)
		if want := "weft run: rank 2 on " + host + ": exited with status 3\n"; status != 3 || stderr != want {
			t.Errorf("status %d, %s; expected 3, %s", status, stderr, want)
		}
	}
}
