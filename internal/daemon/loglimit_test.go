package daemon

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/limits"
)

func TestNobodyFloodsTheLogAndOthersAreStillHeard(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(newLimited(slog.NewTextHandler(&out, nil)))
	for range 10_000 {
		log.Warn("process thrown out", "process", "evil/0", "pid", 7)
	}
	if n := strings.Count(out.String(), "pid=7"); n < limits.LogLines || n > 2*limits.LogLines {
		t.Errorf("%d lines about one process; at most about %d are meant", n, limits.LogLines)
	}
	for range 1000 {
		log.Warn("process thrown out", "process", "evil/2", "pid", 0) // of another PID namespace
	}
	if n := strings.Count(out.String(), "pid=0"); n < limits.LogLines || n > 2*limits.LogLines {
		t.Errorf("%d lines about processes whose PID is not known; at most about %d are meant", n, limits.LogLines)
	}
	log.Warn("process thrown out", "process", "evil/1", "pid", 8)
	log.Info("process attached", "process", "good/0", "pid", 7)
	for range 100 {
		log.Info("peer is up")
	}
	for text, want := range map[string]int{"pid=8": 1, "good/0": 1, "peer is up": 100} {
		if n := strings.Count(out.String(), text); n != want {
			t.Errorf("%d lines with %q; want %d", n, text, want)
		}
	}
}

// A host sees many processes in its life, and the log counts each process that a line is about.
func TestTheCountsOfTheLogAreBounded(t *testing.T) {
	h := newLimited(slog.NewTextHandler(io.Discard, nil)).(*limited)
	log := slog.New(h)
	for pid := range 2*mostCounts + 10 {
		if log.Warn("process attached", "pid", pid); len(h.counts) > mostCounts {
			t.Fatalf("%d processes are counted; expected %d at most", len(h.counts), mostCounts)
		}
	}
}
