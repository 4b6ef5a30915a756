package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestSimCollectivesPrintsTheRoundsOfEachNumberOfNICs(t *testing.T) {
	status, stdout, stderr := weft("sim", "collectives", "--nics", "16", "--json")
	var runs []map[string]int64
	for line := range strings.Lines(stdout) { // as in all JSON output
		var r map[string]int64
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("the line %q: %v; expected an object", line, err)
		}
		runs = append(runs, r)
	}
	if status != 0 || len(runs) != 4 {
		t.Fatalf("status %d: %s%s", status, stdout, stderr)
	}
	for i, r := range runs {
		if got := slices.Sorted(maps.Keys(r)); !slices.Equal(got, []string{"binomial", "bound", "nics", "rounds", "torus", "torus_bound", "virtual_ns"}) {
			t.Errorf("run %d has the fields %q", i, got)
		}
		if r["nics"] != 2<<i || r["rounds"] != int64(i+1) || r["bound"] != int64(i+1) || r["virtual_ns"] <= 0 {
			t.Errorf("run %d: %v", i, r)
		}
	}
}

func TestBenchMeasuresGroups(t *testing.T) {
	for kind, size := range map[string]float64{"barrier": 0, "broadcast": 4096, "allreduce": 4096} {
		for _, r := range rows(t, kind, "--members", "3", "--link", "mem", "--time", "20ms", "--size", "4KiB", "--json") {
			if r["bench"] != kind || r["size"] != size || r["members"] != 3.0 || r["p50_ns"].(float64) <= 0 || r["iterations"].(float64) <= 0 {
				t.Errorf("%s: %v", kind, r)
			}
		}
	}
	if status, _, _ := weft("bench", "barrier", "--size", "7x"); status != exitUsage {
		t.Errorf("a barrier of 7x bytes: status %d; expected %d", status, exitUsage)
	}
}
