package contest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEveryRowOfTheJSONSaysWhetherItIsSealed(t *testing.T) {
	var turns []string
	open, closed := fake("open", &turns, never), fake("closed", &turns, never)
	closed.Sealed = true
	r := Result{Elsewhere: Elsewhere()}
	r.Run(t.Context(), []*Contestant{open, closed}, Options{Rounds: 1, Patience: time.Minute, After: func() {}, Progress: func(string) {}})
	text, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var back struct{ Rows, Elsewhere []map[string]any }
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Rows) != 4 {
		t.Fatalf("%d rows, expected 4", len(back.Rows))
	}
	for _, row := range slices.Concat(back.Rows, back.Elsewhere) {
		if got := row["sealed"]; got != (row["contestant"] == "closed") {
			t.Errorf("sealed of %v is %v", row["contestant"], got)
		}
	}
	if r.Sealed("open") || !r.Sealed("closed") || !slices.Equal(r.SealedContestants(Host), []string{"closed"}) || slices.Contains(r.PlainContestants(Host), "closed") {
		t.Errorf("sealed are %v, plain are %v", r.SealedContestants(Host), r.PlainContestants(Host))
	}
	var table strings.Builder
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(table.String(), "closed †") || strings.Contains(table.String(), "open †") || !strings.Contains(table.String(), "† encrypts") {
		t.Errorf("the table marks the wrong contestants:\n%s", &table)
	}
}

func TestTheTwinOfASealedContestantDoesTheSameInPlain(t *testing.T) {
	for name, want := range map[string]string{SealedName("Weft, udp"): "Weft, udp", "Go TLS over TCP": "Go net TCP", "wireguard-go, UDP": "Go net UDP", "quic-go": "", "Weft, udp": "", "other, sealed": ""} {
		if got := Twin(name); got != want {
			t.Errorf("the twin of %q is %q, expected %q", name, got, want)
		}
	}
}

func TestARefusedContestantHasRowsThatSayWhy(t *testing.T) {
	var turns []string
	c := fake("refused", &turns, func(int) error { return fmt.Errorf("%w: it knows no such flag", ErrRefused) })
	c.Sealed = true
	var r Result
	var said []string
	r.Run(t.Context(), []*Contestant{c, fake("other", &turns, never)}, Options{Rounds: 3, Patience: time.Minute, After: func() {}, Progress: func(line string) { said = append(said, line) }})
	if got := strings.Join(turns, " "); got != "refused other other other" {
		t.Errorf("the turns are %q", got)
	}
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(row Row) bool { return row.Contestant != "refused" })
	if len(rows) != len(c.Jobs) {
		t.Errorf("%d rows for %d jobs", len(rows), len(c.Jobs))
	}
	for _, row := range rows {
		if row.Value != 0 || !row.Sealed || row.Note != "not measured: it knows no such flag" {
			t.Errorf("row %+v", row)
		}
	}
	if len(r.Failures) > 0 || !strings.Contains(said[0], "it knows no such flag") {
		t.Errorf("failures %v, progress %v", r.Failures, said)
	}
	var table strings.Builder
	if err := r.WriteTable(&table); err != nil || !strings.Contains(table.String(), "\nrefused: not measured: it knows no such flag\n") {
		t.Errorf("error %v, the table is\n%s", err, &table)
	}
}

func TestRowsOfALaterRunReplaceThoseOfTheSameContestants(t *testing.T) {
	row := func(name string, value float64) Row {
		return Row{Contestant: name, Ground: Host, Measure: Rate, Size: 64, Value: value}
	}
	r := &Result{Commit: "first", Rows: []Row{row("a", 1), row("b", 1)}, Failures: []Failure{{Contestant: "b", Why: "fell"}, {Contestant: "a", Why: "fell"}}, Skipped: []Skipped{{"c", "gone"}}}
	r.Add(&Result{Commit: "second", Rounds: 3, Rows: []Row{row("b", 2), row("c", 2)}, Failures: []Failure{{Contestant: "c", Why: "slept"}}})
	for name, want := range map[string]struct {
		value float64
		run   int
	}{"a": {1, -1}, "b": {2, 0}, "c": {2, 0}} {
		if got, _ := r.Find(name, Host, 0, Rate, 64); got.Value != want.value || r.RunOf(name) != want.run {
			t.Errorf("%s has %v of run %d, expected %+v", name, got.Value, r.RunOf(name), want)
		}
	}
	if len(r.Rows) != 3 || len(r.Skipped) != 0 || len(r.Failures) != 2 || r.Failures[0].Contestant != "a" || r.Failures[1].Contestant != "c" {
		t.Errorf("the result became %+v", r)
	}
	r.Add(&Result{Commit: "third", Rows: []Row{row("b", 3), row("c", 3)}})
	if len(r.Added) != 1 || r.Added[0].Commit != "third" {
		t.Errorf("a run all of whose rows were replaced is still named: %+v", r.Added)
	}
	r.Add(&Result{Commit: "empty"})
	if len(r.Added) != 1 {
		t.Errorf("a run without rows was added: %+v", r.Added)
	}
}
