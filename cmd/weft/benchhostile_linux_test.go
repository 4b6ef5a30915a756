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

// Decision 10: what hostile processes do harms nobody but them. How long round trips took is printed; only the long form,
// which has time enough for medians that mean something, fails if that was too long.
func TestHostileProcessesHarmOnlyThemselves(t *testing.T) {
	t.Setenv(asWeft, "1")
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	o := bench.HostileOptions{Self: os.Args[0], Time: 4 * time.Second, Each: 1, Seed: 1}
	switch {
	case *long:
		o.Time, o.Each = time.Minute, 2
	case testing.Short():
		o.Time, o.Kinds = time.Second, []string{"scribble", "garble", "stop"}
	}
	thrown := map[string]int64{}
	err := bench.RunHostile(t.Context(), o, func(r bench.HostileRow) error {
		t.Logf("%-12s %6d exchanges, median %7.1f µs, beside busy processes %7.1f: ratio %.2f; attached %d times, thrown out %d times, refused %d times; %s",
			r.Kind, r.Exchanges, float64(r.P50)/1e3, float64(r.BesideP50)/1e3, r.Ratio, r.Attached, r.ThrownOut, r.Refused, r.Named)
		if r.Exchanges == 0 || r.Attached == 0 {
			t.Errorf("%s: nothing happened: %+v", r.Kind, r)
		}
		thrown[r.Kind] = r.ThrownOut
		return nil
	})
	var slow *bench.SlowError
	switch {
	case errors.As(err, &slow) && !*long:
		t.Log(err)
	case err != nil:
		t.Error(err)
	}
	for _, kind := range []string{"scribble", "garble"} {
		if thrown[kind] == 0 {
			t.Errorf("no process that does %q was thrown out", hostile.What(kind))
		}
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
