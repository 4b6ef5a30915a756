package tool

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

// recorded returns the real output of a program.
func recorded(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestWeftIsRead(t *testing.T) {
	for _, c := range []struct {
		file string
		want contest.Sample
	}{
		{"weft-latency.json", contest.Sample{Measure: contest.Latency, Size: 64, Value: 4319}},
		{"weft-rate.json", contest.Sample{Measure: contest.Rate, Size: 64, Value: 986483.6231021937}},
		{"weft-bandwidth.json", contest.Sample{Measure: contest.Bandwidth, Size: 4, Value: 4637270.653788141}},
	} {
		rows, err := parseWeft(recorded(t, c.file), false)
		if err != nil {
			t.Fatal(err)
		}
		if got := rows[c.want.Size]; got.Measure != c.want.Measure || got.Value != c.want.Value {
			t.Errorf("%s: %+v, want %+v", c.file, got, c.want)
		}
	}
	for _, bad := range []string{"weft: error", `{"bench":"latency","size":64}`, `{"bench":`} {
		if _, err := parseWeft(bad, false); err == nil {
			t.Errorf("%q was taken for rows", bad)
		}
	}
}

// A figure of a plain link never appears in a row that says sealed, and no figure of a sealed
// link in one that says plain.
func TestAFigureOfTheOtherKindOfLinkIsRefused(t *testing.T) {
	const plain, sealed, silent = `{"bench":"rate","size":64,"messages_per_s":1e6,"sealed":false}`, `{"bench":"rate","size":64,"messages_per_s":1e6,"sealed":true}`, `{"bench":"rate","size":64,"messages_per_s":1e6}`
	for _, c := range []struct {
		line    string
		sealed  bool
		refused bool
	}{{plain, false, false}, {silent, false, false}, {sealed, true, false}, {sealed, false, true}, {plain, true, true}, {silent, true, true}} {
		rows, err := parseWeft(c.line, c.sealed)
		if (err != nil) != c.refused || !c.refused && rows[64].Value != 1e6 {
			t.Errorf("asked for sealed=%v and told %s: rows %v, error %v", c.sealed, c.line, rows, err)
		}
	}
}

// scripted writes a program that stands in for weft, and returns its path.
func scripted(t *testing.T, script string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weft")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestSealedWeftIsAskedForSealedLinks(t *testing.T) {
	jobs := contest.Jobs{{Measure: contest.Rate, Size: 64, Time: time.Millisecond}}
	const script = `case "$*" in *"--sealed on"*) s=true;; *) s=false;; esac; echo "{\"bench\":\"rate\",\"size\":64,\"messages_per_s\":5,\"sealed\":$s}"`
	for _, sealed := range []bool{true, false} {
		w := &Weft{Binary: scripted(t, script), Dir: t.TempDir(), Sealed: sealed}
		if samples, err := w.Run(t.Context(), jobs); err != nil || len(samples) != 1 || samples[0].Value != 5 {
			t.Errorf("sealed=%v: samples %+v, error %v", sealed, samples, err)
		}
	}
	old := &Weft{Binary: scripted(t, "echo 'weft: unknown flag: --sealed' >&2; exit 2"), Dir: t.TempDir(), Sealed: true}
	if _, err := old.Run(t.Context(), jobs); !errors.Is(err, contest.ErrRefused) || !strings.Contains(err.Error(), "this weft binary refuses --sealed on") {
		t.Errorf("a binary that does not know --sealed: %v", err)
	}
	broken := &Weft{Binary: scripted(t, "echo 'weft: no link' >&2; exit 1"), Dir: t.TempDir(), Sealed: true}
	if _, err := broken.Run(t.Context(), jobs); err == nil || errors.Is(err, contest.ErrRefused) {
		t.Errorf("a binary that fails for another reason: %v", err)
	}
}

func TestADistributionIsRead(t *testing.T) {
	steps, err := parseHDR(strings.NewReader(recorded(t, "weft.hdr")))
	if err != nil {
		t.Fatal(err)
	}
	if n := steps.Total(); n != 10594 {
		t.Errorf("%d round trips in it, want 10594", n)
	}
	for p, want := range map[float64]float64{50: 4319, 75: 5659, 100: 1366015} {
		if got := steps.At(p); math.Abs(got-want) > 0.01 {
			t.Errorf("percentile %v is %v, want %v", p, got, want)
		}
	}
	for _, bad := range []string{"", "Value Percentile\n", "1.0\n", "x 0.5 1 1\n", "1.0 0.5 y 1\n"} {
		if _, err := parseHDR(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was taken for a distribution", bad)
		}
	}
}

func TestSamplesOfOurOwnProcessesAreRead(t *testing.T) {
	const lines = `{"measure":"latency","size":64,"value":1234.5,"steps":[{"ns":1000,"n":2},{"ns":1234.5,"n":3}]}
{"measure":"rate","size":64,"value":1e6}
`
	samples, err := parseSamples(lines + `{"measure":"bandw`)
	if err != nil || len(samples) != 2 || samples[0].Steps.Total() != 5 || samples[1].Value != 1e6 {
		t.Errorf("samples %+v, error %v", samples, err)
	}
	for _, bad := range []string{"{}\n", "hello\n", `{"measure":"rate","size":64,"value":0}` + "\n"} {
		if _, err := parseSamples(bad); err == nil {
			t.Errorf("%q was taken for a sample", bad)
		}
	}
}
