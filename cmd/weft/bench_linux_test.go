package main

import (
	"path/filepath"
	"testing"
)

func TestBenchWithDaemonsStartsThemAndLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	for _, kind := range []string{"latency", "rate", "bandwidth"} {
		all := rows(t, kind, "--deployment", "daemon", "--size", "64", "--time", "20ms", "--json")
		if len(all) != 1 || all[0]["deployment"] != "daemon" || all[0]["link"] != "udp" {
			t.Errorf("%s: %v", kind, all)
		}
	}
	left, err := filepath.Glob(tmp + "/*")
	if left = append(left, processesWith(t, "TMPDIR="+tmp)...); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}
