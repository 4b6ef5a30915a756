package metrics

import (
	"slices"
	"strings"

	"github.com/weftnet/weft/internal/vni"
)

// families lists the families of counters. The counters whose names begin with prefix are one
// metric, and the rest of the name is the value of the label cause. Each event counts under one
// cause, so the sum of a family has a meaning.
var families = []struct{ prefix, name, help string }{
	{"drop_", "weft_frames_dropped_total", "Frames received that were dropped, by cause"},
	{"rel_resends_", "weft_segments_retransmitted_total", "Segments retransmitted, by cause"},
	{"rel_down_", "weft_sessions_ended_total", "Sessions with peers that ended, by cause"},
}

// causeLabel is the label that tells the counters of a family apart.
const causeLabel = "cause"

// Metric is a counter as Prometheus sees it.
type Metric struct {
	Name  string
	Cause string // the value of the label cause; empty for a counter without a family
	Help  string
	Level bool
	Scale float64 // of a value: metrics are in base units, bytes and seconds
}

// String returns the metric in the notation of Prometheus.
func (m Metric) String() string {
	if m.Cause == "" {
		return m.Name
	}
	return m.Name + "{" + causeLabel + "=\"" + m.Cause + "\"}"
}

// MetricOf returns the metric of a counter. Its name is the name of the counter with the prefix
// weft_, and with the unit and _total at its end, as Prometheus expects:
//
//	rel_sends             weft_rel_sends_total
//	rel_bytes_sent        weft_rel_sent_bytes_total
//	nic_staged_bytes_now  weft_nic_staged_bytes
//	drop_mac              weft_frames_dropped_total{cause="mac"}
func MetricOf(d vni.Description) Metric {
	for _, f := range families {
		if cause, ok := strings.CutPrefix(d.Name, f.prefix); ok {
			return Metric{Name: f.name, Cause: cause, Help: f.help, Scale: 1}
		}
	}
	m := Metric{Help: d.Help, Level: d.Level(), Scale: 1}
	without, unit := "", ""
	switch d.Unit {
	case vni.Bytes:
		without, unit = "bytes", "bytes"
	case vni.Nanoseconds:
		without, unit, m.Scale = "ns", "seconds", 1e-9
	}
	words := slices.DeleteFunc(strings.Split(strings.TrimSuffix(d.Name, "_now"), "_"),
		func(w string) bool { return w == without })
	if unit != "" {
		words = append(words, unit)
	}
	if !m.Level {
		words = append(words, "total")
	}
	m.Name = "weft_" + strings.Join(words, "_")
	return m
}
