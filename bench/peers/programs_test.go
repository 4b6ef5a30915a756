package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/bench/peers/internal/programs"
)

// The committed charts of programs are made from the committed figures, and not edited by hand.
func TestTheChartsOfProgramsAreThoseOfTheirFigures(t *testing.T) {
	const committed = "../../docs/performance"
	dir := t.TempDir()
	if err := programsAgain(&flags{from: filepath.Join(committed, programsFile), out: dir}, io.Discard); err != nil {
		t.Fatal(err)
	}
	files := asCommitted(t, dir, committed, "--programs --from "+committed+"/"+programsFile)
	if len(files) != 3 {
		t.Errorf("%d files; expected the figures and two charts", len(files))
	}
}

// A chart has a line for each series and each limit, with a dot for each length, and names the
// machine.
func TestAChartOfProgramsShowsAllFigures(t *testing.T) {
	r := programs.Result{Commit: "abc", Date: "2026-01-02T03:04:05Z", Rounds: 5}
	r.Machine.CPU = "Abacus"
	for _, size := range programs.Sizes() {
		for i, series := range []string{"mcp2mcp", "api"} {
			r.Rows = append(r.Rows, programs.Row{Series: series, Deployment: programs.Daemon, Size: size, P50: float64(5000*(i+1) + size), Limit: "bare", LimitP50: 2000})
		}
	}
	dir := t.TempDir()
	if err := reportPrograms(&r, &flags{out: dir}, io.Discard); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(filepath.Join(dir, "programs-daemon.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">mcp2mcp<", ">api<", ">limit: bare<", ">0 B<", ">8 KiB<", "Abacus", "commit abc", "Length of the message", "Round trip, median"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("the chart lacks %q", want)
		}
	}
	if n := bytes.Count(svg, []byte("<circle")); n != 3*len(programs.Sizes()) {
		t.Errorf("the chart has %d dots", n)
	}
}

// fakeWeft stands in for weft bench program: it prints rows for the requested deployment.
func fakeWeft(t *testing.T, script string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weft")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestProgramsAreMeasuredInBothDeployments(t *testing.T) {
	weft := fakeWeft(t, `echo "{\"series\":\"api\",\"deployment\":\"$4\",\"size\":64,\"p50_ns\":7000}"`)
	var out bytes.Buffer
	if err := runPrograms(t.Context(), short(t, "--programs", "--weft", weft), &out); err != nil {
		t.Fatal(err)
	}
	var r programs.Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(r.Rows); len(r.Rows) != 2 || r.Rows[0].Deployment != programs.Daemon || r.Rows[1].Deployment != programs.Embedded || r.Rows[0].P50 != 7000 {
		t.Errorf("the rows are %s", got)
	}
	for _, script := range []string{"echo why >&2; exit 1", "echo nonsense", "echo '{}'"} {
		if err := runPrograms(t.Context(), short(t, "--programs", "--weft", fakeWeft(t, script)), io.Discard); err == nil || !strings.Contains(err.Error(), "bench program") {
			t.Errorf("%s: %v", script, err)
		}
	}
}
