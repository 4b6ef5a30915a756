package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/bench"
	"github.com/weftnet/weft/internal/hostile"
)

var long = flag.Bool("long", false, "run the long forms of the tests: a minute of hostile processes, and what they cost the others is held to its bound")

// Decision 10: hostile processes harm no other process. The test prints how long round trips
// took. Only the long form has enough time for meaningful medians, so only it fails if they were
// too long.
func TestHostileProcessesHarmOnlyThemselves(t *testing.T) {
	t.Setenv(asWeft, "1")
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	o := bench.HostileOptions{Self: os.Args[0], Time: 4 * time.Second, Each: 1, Seed: 1}
	switch {
	case *long:
		o.Time, o.Each = time.Minute, 2
	case testing.Short():
		o.Time, o.Kinds = time.Second, []string{"scribble", "garble", "rings", "stop"}
	}
	came := map[string]bench.HostileRow{}
	row := func(r bench.HostileRow) error {
		t.Logf("%-12s %6d exchanges, median %7.1f µs, beside busy processes %7.1f: ratio %.2f; attached %d times, thrown out %d times, refused %d times; %s",
			r.Kind, r.Exchanges, float64(r.P50)/1e3, float64(r.BesideP50)/1e3, r.Ratio, r.Attached, r.ThrownOut, r.Refused, r.Named)
		was := came[r.Kind]
		r.Exchanges, r.Attached, r.ThrownOut = r.Exchanges+was.Exchanges, r.Attached+was.Attached, r.ThrownOut+was.ThrownOut
		came[r.Kind] = r
		return nil
	}
	kinds := o.Kinds
	if len(kinds) == 0 {
		kinds = hostile.Kinds()
	}
	benchHostile(t, o, row)
	for _, kind := range kinds {
		o.Kinds = []string{kind} // again, if it did little in its time
		for end := time.Now().Add(2 * time.Minute); !t.Failed(); o.Seed++ {
			r := came[kind]
			if r.Exchanges > 0 && r.Attached > 0 && (r.ThrownOut > 0 || kind != "scribble" && kind != "garble" && kind != "rings") {
				break
			}
			if time.Now().After(end) {
				t.Errorf("no process that does %q was thrown out: %+v", hostile.What(kind), r)
			}
			benchHostile(t, o, row)
		}
	}
}

// benchHostile makes one run.
func benchHostile(t *testing.T, o bench.HostileOptions, row func(bench.HostileRow) error) {
	t.Helper()
	err := bench.RunHostile(t.Context(), o, row)
	var slow *bench.SlowError
	switch {
	case errors.As(err, &slow) && !*long:
		t.Log(err)
	case err != nil:
		t.Error(err)
	}
}

func TestBenchHostilePrintsOneObjectAKind(t *testing.T) {
	t.Setenv(asWeft, "1")
	var out, stderr bytes.Buffer
	run(t.Context(), strings.Fields("bench hostile --kinds scribble,stop --time 400ms --each 1 --json"), &out, &stderr)
	var rows []bench.HostileRow
	for d := json.NewDecoder(&out); d.More(); {
		var r bench.HostileRow
		if err := d.Decode(&r); err != nil {
			t.Fatal(err, stderr.String())
		}
		rows = append(rows, r)
	}
	if len(rows) != 2 || rows[0].Kind != "scribble" || rows[1].Kind != "stop" {
		t.Errorf("%+v %s", rows, stderr.String())
	}
	status, _, said := weft("bench", "hostile", "--kinds", "rude")
	if status != exitUsage || !strings.Contains(said, `invalid argument "rude" for "--kinds" flag: expected some of scribble, garble`) {
		t.Errorf("an unknown kind: status %d, %q", status, said)
	}
}
