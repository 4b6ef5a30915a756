package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/vni"
)

func TestEachCounterIsExplainedByItsNameOrByThatOfItsMetric(t *testing.T) {
	for _, c := range []struct {
		asked string
		want  []string
	}{
		{"nic_relays", []string{"nic_relays"}}, // and not nic_relays_missed
		{"weft_nic_staged_bytes", []string{"nic_staged_bytes_now"}},
		{`weft_frames_dropped_total{cause="mac"}`, []string{"drop_mac"}},
		{"weft_segments_retransmitted_total", []string{"rel_resends_timeout", "rel_resends_fast", "rel_resends_tail"}},
		{"rel_resends_t", []string{"rel_resends_timeout", "rel_resends_tail"}},
	} {
		var out bytes.Buffer
		if err := explainCounters(&out, []string{c.asked}, true); err != nil {
			t.Fatal(err)
		}
		var got []string
		for d := json.NewDecoder(&out); d.More(); {
			var one struct{ Name, Kind, Unit, Metric, Help string }
			if err := d.Decode(&one); err != nil {
				t.Fatal(err)
			}
			if one.Kind == "" || one.Unit == "" || one.Metric == "" || one.Help == "" {
				t.Errorf("%s: %+v lacks something", c.asked, one)
			}
			got = append(got, one.Name)
		}
		if strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%s explains %v; want %v", c.asked, got, c.want)
		}
	}
}

func TestAllCountersAreExplainedInTheirOrder(t *testing.T) {
	var out bytes.Buffer
	if err := explainCounters(&out, nil, false); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, d := range vni.Descriptions() {
		_, after, ok := strings.Cut(text, d.Name+"\n    "+d.Help+".\n")
		if !ok {
			t.Fatalf("%s is missing, or comes too early", d.Name)
		}
		text = after
	}
}

func TestAnUnknownCounterIsRefusedWithSimilarOnes(t *testing.T) {
	err := explainCounters(new(bytes.Buffer), []string{"rel_sends", "frames_dropped"}, false)
	if err == nil || !strings.Contains(err.Error(), `"frames_dropped": expected the name of a counter`) ||
		!strings.Contains(err.Error(), "similar ones: rel_frames_received") {
		t.Errorf("%v; want what was expected, and similar counters", err)
	}
	if err := explainCounters(new(bytes.Buffer), []string{""}, false); err == nil {
		t.Error("an empty name is accepted")
	}
}

func TestTheNameOfACounterNeedsExplain(t *testing.T) {
	if status, out, _ := weft("stat", "--explain", "nic_polls"); status != 0 || !strings.Contains(out, "weft_nic_polls_total") {
		t.Errorf("weft stat --explain nic_polls: status %d, %s", status, out)
	}
	if status, _, said := weft("stat", "nic_polls"); status != 2 {
		t.Errorf("weft stat nic_polls: status %d, %s; want 2", status, said)
	}
	if status, _, said := weft("stat", "--explain", "--watch", "1s"); status != 2 || !strings.Contains(said, "--explain and --watch") {
		t.Errorf("weft stat --explain --watch: status %d, %s; want 2", status, said)
	}
}
