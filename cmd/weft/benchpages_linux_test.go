package main

import (
	"math"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/testbed"
)

// HSN-40: a received page of 4 KiB is not copied. Every second page of 4 KiB that is sent is
// copied once. The second half of a page of 8 KiB is copied in either direction. The naive mode
// copies each received page once more.
func TestPagesAreCopiedAsOftenAsTheirDesignSays(t *testing.T) {
	if testing.Short() {
		t.Skip("where everything is slow, as under the race detector, pages are sent again and copied again; the tests of netmem count without a clock")
	}
	want := map[string]float64{"4K out": 0.5, "4K in": 0, "4K in, naive": 1, "8K out": 0.5, "8K in": 0.5, "8K in, naive": 1.5}
	for _, link := range []string{"udp", "shm"} {
		all := rows(t, "pages", "--link", link, "--json")
		if len(all) != len(want) {
			t.Errorf("%s: %d scenarios, want %d", link, len(all), len(want))
		}
		for _, r := range all {
			scenario, _ := r["scenario"].(string)
			copies, _ := r["copies_per_page"].(float64)
			// If a frame comes too late, its page is sent and copied again. A larger excess
			// would mean another design.
			if n, ok := want[scenario]; !ok || math.Abs(copies-n) > 0.05 || r["p50_ns"].(float64) <= 0 || r["link"] != link {
				t.Errorf("%v, want %v copies", r, n)
			}
		}
	}
}

func TestPagesInAndOutAreMeasuredBesideCalls(t *testing.T) {
	for _, kind := range []string{"pagein", "pageout"} {
		all := rows(t, kind, "--depth", "4", "--page", "8KiB", "--time", "200ms", "--json")
		if len(all) != 1 {
			t.Fatalf("%s: %d rows", kind, len(all))
		}
		r := all[0]
		if r["bench"] != kind || r["page_bytes"] != 8192.0 || r["depth"] != 4.0 || r["link"] != "udp" {
			t.Errorf("%v", r)
		}
		wantPageFigures(t, r)
	}
}

// Each column of the table has a name, and a time its unit.
func TestTheTableOfPagesNamesEachColumn(t *testing.T) {
	t.Setenv(asWeft, "1") // for the page server that it starts
	status, out, stderr := weft("bench", "pagein", "--time", "20ms")
	lines := strings.Split(out, "\n")
	if status != 0 || len(lines) < 3 {
		t.Fatalf("status %d: %s%s", status, out, stderr)
	}
	if got, want := strings.Join(strings.Fields(lines[1]), " "), "# p50 µs p99 µs pages/s call p50 µs ratio"; got != want {
		t.Errorf("the columns are %q; want %q", got, want)
	}
}

// wantPageFigures checks the figures of page-ins or page-outs.
func wantPageFigures(t *testing.T, r map[string]any) {
	t.Helper()
	for _, figure := range []string{"p50_ns", "p99_ns", "pages_per_s", "call_p50_ns", "ratio"} {
		if n, _ := r[figure].(float64); n <= 0 {
			t.Errorf("%v: %s is %v", r["bench"], figure, r[figure])
		}
	}
	if page, call, ratio := r["p50_ns"].(float64), r["call_p50_ns"].(float64), r["ratio"].(float64); math.Abs(ratio-page/call) > 1e-9 {
		t.Errorf("%v: a page takes %v, a call %v, and their ratio is %v", r["bench"], page, call, ratio)
	}
}

func TestPagesAreMeasuredBetweenTwoHosts(t *testing.T) {
	if err := testbed.Check(); err != nil {
		t.Skip(err)
	}
	for _, kind := range []string{"pagein", "pageout"} {
		all := rows(t, kind, "--testbed", "veth", "--time", "200ms", "--json")
		if len(all) != 1 || all[0]["bench"] != kind || all[0]["link"] != "udp" || all[0]["page_bytes"] != 4096.0 || all[0]["depth"] != 1.0 {
			t.Fatalf("%s: %v", kind, all)
		}
		wantPageFigures(t, all[0])
	}
}
