package tool

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

// recorded is what a program has really printed.
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
		rows, err := parseWeft(recorded(t, c.file))
		if err != nil {
			t.Fatal(err)
		}
		if got := rows[c.want.Size]; got.Measure != c.want.Measure || got.Value != c.want.Value {
			t.Errorf("%s: %+v, want %+v", c.file, got, c.want)
		}
	}
	for _, bad := range []string{"weft: error", `{"bench":"latency","size":64}`, `{"bench":`} {
		if _, err := parseWeft(bad); err == nil {
			t.Errorf("%q was taken for rows", bad)
		}
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
