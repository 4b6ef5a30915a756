package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/bench"
)

// The command compares each result with that of a serial computation. So a row is also a test.
func TestBenchParallelHasARowForEachCase(t *testing.T) {
	all := rows(t, "parallel", "--small", "--time", "60ms", "--rounds", "3", "--json")
	var names []string
	for _, r := range all {
		names = append(names, r["case"].(string))
		if r["missing"] != nil {
			if base := r["baseline"].(string); !strings.HasPrefix(base, "MPICH") || r["took_ns"].(float64) != 0 {
				t.Errorf("%v", r)
			}
			continue
		}
		if r["took_ns"].(float64) <= 0 || r["baseline_ns"].(float64) <= 0 || r["iterations"].(float64) < 1 ||
			len(r["round_ratios"].([]any)) != 3 || r["bound"].(float64) <= 0 {
			t.Errorf("%v", r)
		}
		ratio, bound, least := r["ratio"].(float64), r["bound"].(float64), r["at_least"].(bool)
		if met := ratio == bound || ratio > bound == least; met != r["met"].(bool) {
			t.Errorf("%v", r)
		}
	}
	if !slices.Equal(names, bench.ParallelCases()) {
		t.Errorf("the rows are of %v; expected %v", names, bench.ParallelCases())
	}
}

func TestBenchParallelWithoutMPICHSaysWhy(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, r := range rows(t, "parallel", "--only", "stencil,transpose", "--small", "--time", "60ms", "--rounds", "3", "--json") {
		if why, _ := r["missing"].(string); !strings.Contains(why, "is not installed (package mpich)") {
			t.Errorf("%v", r)
		}
	}
}

func TestBenchParallelSaysWhatIsWrong(t *testing.T) {
	for line, want := range map[string]string{
		"--only jacobi,tick":    "expected some of jacobi, jacobi-2, halo",
		"--time 1ms --rounds 5": "expected at least 25ms",
		"--rounds 0":            "expected",
		"jacobi":                `arguments "jacobi": expected weft bench parallel`,
	} {
		status, stdout, stderr := weft(append([]string{"bench", "parallel"}, strings.Fields(line)...)...)
		if status != exitUsage || !strings.Contains(stderr, want) || stdout != "" {
			t.Errorf("%s: status %d, standard error %q; expected %d and %q", line, status, stderr, exitUsage, want)
		}
	}
}
