package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ratesRun is a measurement of bench/peers: messages next to TCP, by the rate of the cable.
type ratesRun struct {
	Machine struct {
		CPU          string
		Cores        int
		Kernel       string
		Load, Others float64
	}
	Commit, Date, Command string
	Rows                  []struct {
		What       string
		Sealed     bool
		Rate, Size int64
		Messages   struct {
			MessageP50   int64   `json:"message_p50_ns"`
			TCPP50       int64   `json:"tcp_p50_ns"`
			Wire         int64   `json:"wire_ns"`
			MessageBytes float64 `json:"message_bytes_per_s"`
			TCPBytes     float64 `json:"tcp_bytes_per_s"`
			MessageShare float64 `json:"message_share"`
			TCPShare     float64 `json:"tcp_share"`
		}
	}
}

const (
	ratesBegin = "<!-- rates: written by a test -->\n"
	ratesEnd   = "<!-- /rates -->\n"
)

// table formats the run like the page.
func (r *ratesRun) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "`%s`, on %s with %d cores (virtual, Linux %s), commit %s, %s. Before the run the load of the machine was %.1f, and during it others took %.1f processors.\n\n",
		r.Command, r.Machine.CPU, r.Machine.Cores, r.Machine.Kernel, r.Commit, r.Date[:len(time.DateOnly)], r.Machine.Load, r.Machine.Others)
	b.WriteString("| Mb/s | bytes | round trip, messages | TCP | by the wire | MB/s, messages | TCP | of the rate, messages | TCP |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, row := range r.Rows {
		m := &row.Messages
		fmt.Fprintf(&b, "| %d | %d | %s | %s | %s | %.2f | %.2f | %.0f %% | %.0f %% |\n", row.Rate/1e6, row.Size, timeText(m.MessageP50), timeText(m.TCPP50), timeText(m.Wire),
			m.MessageBytes/1e6, m.TCPBytes/1e6, 100*m.MessageShare, 100*m.TCPShare)
	}
	return b.String()
}

// timeText formats nanoseconds with three digits.
func timeText(ns int64) string {
	us := float64(ns) / 1e3
	switch {
	case us < 10:
		return fmt.Sprintf("%.2f µs", us)
	case us < 100:
		return fmt.Sprintf("%.1f µs", us)
	case us < 1000:
		return fmt.Sprintf("%.0f µs", us)
	case us < 10_000:
		return fmt.Sprintf("%.2f ms", us/1e3)
	case us < 100_000:
		return fmt.Sprintf("%.1f ms", us/1e3)
	}
	return fmt.Sprintf("%.0f ms", us/1e3)
}

// The table of docs/netstar.md must be that of the recorded run, and not be written by hand.
func TestTheTableOfRatesIsThatOfTheRecordedRun(t *testing.T) {
	const page = "docs/netstar.md"
	r := new(ratesRun)
	if err := json.Unmarshal([]byte(read(t, "docs/performance/rates.json")), r); err != nil {
		t.Fatal(err)
	}
	text := read(t, page)
	before, rest, begun := strings.Cut(text, ratesBegin)
	table, after, ended := strings.Cut(rest, ratesEnd)
	if !begun || !ended {
		t.Fatalf("%s has no place for the table, between %q and %q", page, ratesBegin, ratesEnd)
	}
	switch {
	case table == r.table():
	case *rewrite:
		if err := os.WriteFile(filepath.Join(root, page), []byte(before+ratesBegin+r.table()+ratesEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s has another table than the recorded run (go test ./docs -run TheTableOfRates -args -rewrite)", page)
	}
}

// A run shows nothing if it lacks a rate of the paper, or if its cable carries more than it can.
func TestTheRecordedRunHasTheRatesOfThePaper(t *testing.T) { // NETSTAR-7, NETSTAR-30
	r := new(ratesRun)
	if err := json.Unmarshal([]byte(read(t, "docs/performance/rates.json")), r); err != nil {
		t.Fatal(err)
	}
	sizes := map[int64]map[int64]bool{10e6: {}, 100e6: {}, 155e6: {}}
	for _, row := range r.Rows {
		if sizes[row.Rate] == nil {
			t.Errorf("there is a row of %d bits per second", row.Rate)
			continue
		}
		sizes[row.Rate][row.Size] = true
		if m := row.Messages; row.What != "messages" || m.MessageP50 <= 0 || m.TCPP50 <= 0 || m.MessageShare <= 0 || m.MessageShare > 1 || m.TCPShare <= 0 || m.TCPShare > 1 {
			t.Errorf("a cable of %d bits per second, %d bytes: %+v", row.Rate, row.Size, m)
		}
	}
	for rate, have := range sizes {
		for _, size := range []int64{64, 1 << 10, 64 << 10} {
			if !have[size] {
				t.Errorf("there is no row of %d bytes at %d bits per second", size, rate)
			}
		}
	}
}
