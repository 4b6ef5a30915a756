package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/sweep"
)

func TestSimPrintsItsTotalsAsJSON(t *testing.T) {
	status, out, stderr := weft("sim", "--seed", "9", "--seeds", "2", "--json")
	if status != 0 {
		t.Fatalf("exit %d: %s", status, stderr)
	}
	var r sweep.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Seeds != 2 || r.NICs < 16 || r.Processes < 32 || r.Messages < 4000 || r.Violations != 0 || r.Seconds <= 0 {
		t.Errorf("report: %+v", r)
	}
	if strings.Count(out, "\n") != 1 {
		t.Errorf("the object is not on a line of its own: %s", out)
	}
	for _, key := range []string{"seeds", "nics", "processes", "messages", "bytes", "puts", "gets", "faults", "retransmissions", "violations", "seconds"} {
		if !strings.Contains(out, `"`+key+`":`) {
			t.Errorf("no %q in %s", key, out)
		}
	}
}

// oneRun skips a test of one run under the race detector: a run is in one goroutine, and takes
// seconds then. TestSimPrintsItsTotalsAsJSON has two concurrent runs.
func oneRun(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("one run, in one goroutine, is long")
	}
}

func TestSimTellsOfOneRun(t *testing.T) {
	oneRun(t)
	status, out, stderr := weft("sim", "--seed", "7", "--log")
	if status != 0 || !strings.Contains(out, "app/0 begins on host 0") || !strings.Contains(out, "\n1 seed in") {
		t.Errorf("exit %d, %s, %s", status, out, stderr)
	}
}

func TestSimCatchesADefectAndSaysWhere(t *testing.T) {
	oneRun(t)
	status, out, stderr := weft("sim", "--mutate", "lost-wake-up")
	if status != 0 || !strings.Contains(out, "replay: weft sim --seed") || !strings.Contains(out, "--mutate lost-wake-up") {
		t.Errorf("exit %d, %s, %s", status, out, stderr)
	}
}

func TestSimFailsWhenADefectIsNotCaught(t *testing.T) {
	oneRun(t)
	status, _, stderr := weft("sim", "--mutate", "stale-generation-ok", "--seed", "1", "--seeds", "1")
	if status != 1 || !strings.Contains(stderr, "was not caught in 1 seed\n") {
		t.Errorf("exit %d, %s", status, stderr)
	}
}

func TestSimListsItsMutations(t *testing.T) {
	status, out, _ := weft("sim", "--list-mutations")
	if got := strings.Fields(out); status != 0 || !slices.Equal(got, mutate.Names()) {
		t.Errorf("exit %d, %q", status, got)
	}
}

func TestSimRefusesWrongFlags(t *testing.T) {
	for line, want := range map[string]string{
		"sim --mutate nope":    "expected one of window-off-by-one",
		"sim --mutate none":    "expected one of window-off-by-one",
		"sim --seeds 0":        "expected a whole number from 1",
		"sim --log":            "expected with --seed",
		"sim --seed 1 2":       "",
		"sim --seed x":         "invalid argument",
		"sim --list-mutation":  "unknown flag",
		"sim --seed 1 --bogus": "unknown flag",
	} {
		status, _, stderr := weft(strings.Fields(line)...)
		if status != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %q; want 2 and %q", line, status, stderr, want)
		}
	}
}
