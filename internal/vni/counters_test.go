package vni

import (
	"regexp"
	"testing"
)

func TestEveryCounterHasItsOwnName(t *testing.T) {
	seen := map[string]bool{}
	good := regexp.MustCompile(`^[a-z]+(_[a-z]+)+$`)
	for c := range counters {
		n := c.String()
		if seen[n] || !good.MatchString(n) {
			t.Errorf("counter %d: name %q is missing, twice or odd", int(c), n)
		}
		seen[n] = true
	}
	if len(Names()) != int(counters) {
		t.Errorf("%d names for %d counters", len(Names()), counters)
	}
	for c, n := range map[Counter]string{RelSends: "rel_sends", DropTag: "drop_tag", NICMessagesSent: "nic_messages_sent",
		NICDetaches: "nic_detaches", NICIdlePolls: "nic_idle_polls", LinkDroppedOut: "link_dropped_out", RelInFlightNow: "rel_in_flight_now"} {
		if c.String() != n {
			t.Errorf("%v stands where %s should", c, n)
		}
	}
}

func TestCountersAreReadFromTheSamePage(t *testing.T) {
	b := AlignedBytes(CounterPageBytes)
	if _, err := OpenCounterPage(b); err == nil {
		t.Error("an unformatted page was opened")
	}
	w, err := NewCounterPage(b)
	if err != nil {
		t.Fatal(err)
	}
	r, err := OpenCounterPage(b)
	if err != nil {
		t.Fatal(err)
	}
	w.Store(LinkDroppedOut, 5)
	w.Add(RelSends, 3)
	if r.Load(LinkDroppedOut) != 5 || r.Load(RelSends) != 3 {
		t.Error("counts do not reach the reader")
	}
	b[16]++
	if _, err := OpenCounterPage(b); err == nil {
		t.Error("a page of another list was opened")
	}
	if _, err := NewCounterPage(b[:100]); err == nil {
		t.Error("a short page was formatted")
	}
	var none CounterPage
	none.Store(RelSends, 1)
	none.Add(RelSends, 1)
	if none.Load(RelSends) != 0 {
		t.Error("the zero page keeps counts")
	}
}
