package main

import (
	"math"
	"testing"
)

// HSN-40: a page of 4 KiB is received without a copy. Every second one that is sent is copied once. Of a page of 8 KiB the second half is copied
// in either direction. The naive mode copies each received page once more.
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
			// A frame that comes too late has its page sent again, and copied again: more than that would be another design.
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
		for _, figure := range []string{"p50_ns", "p99_ns", "pages_per_s", "call_p50_ns"} {
			if n, _ := r[figure].(float64); n <= 0 {
				t.Errorf("%s: %s is %v", kind, figure, r[figure])
			}
		}
	}
}
