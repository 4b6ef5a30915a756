package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Row is one measurement. In JSON it is one object, with the fields of what was measured beside the common ones.
type Row struct {
	Bench      string `json:"bench"`
	Link       string `json:"link"`
	Deployment string `json:"deployment"`
	Size       int    `json:"size"`          // bytes of a message
	Iterations int64  `json:"iterations"`    // messages that count, each way if they came back
	Far        *Setup `json:"far,omitempty"` // of the other side, where a --serve on a host chose it

	*Latency
	*Rate
	*Bandwidth
	*Against
}

// Against compares a row with what the ground allows, measured in turns with it.
type Against struct {
	Limit             string  `json:"limit"` // its name, of those of weft bench limits
	LimitP50          int64   `json:"limit_p50_ns,omitempty"`
	LimitMessagesPerS float64 `json:"limit_messages_per_s,omitempty"`
	LimitBytesPerS    float64 `json:"limit_bytes_per_s,omitempty"`
	Ratio             float64 `json:"ratio"` // what was measured, by the limit: the median of RoundRatios

	RoundRatios []float64 `json:"round_ratios"` // of each round by itself, in order
}

// Rate is how many messages have gone one way.
type Rate struct {
	MessagesPerSecond float64 `json:"messages_per_s"`
}

// Bandwidth is how many bytes of messages have gone one way.
type Bandwidth struct {
	BytesPerSecond float64 `json:"bytes_per_s"`
}

// Printer writes rows as they come.
type Printer interface {
	Row(Row) error
}

// NewJSON prints one JSON object a line.
func NewJSON(out io.Writer) Printer { return jsonPrinter{json.NewEncoder(out)} }

type jsonPrinter struct{ e *json.Encoder }

func (p jsonPrinter) Row(r Row) error { return p.e.Encode(r) }

// NewTable prints columns, as OSU's benchmarks do, below a few lines that say what is measured.
func NewTable(out io.Writer, o Options) (Printer, error) {
	what := map[string]string{
		KindLatency:   "round trip of a message and its echo",
		KindRate:      "messages a second, one way",
		KindBandwidth: "bytes of messages a second, one way",
	}[o.Kind]
	head := fmt.Sprintf("%8s %12s", "bytes", "iterations")
	switch o.Kind {
	case KindLatency:
		head += fmt.Sprintf(" %11s %11s %11s %11s", "p50 µs", "p90 µs", "p99 µs", "p99.9 µs")
	case KindRate:
		head += fmt.Sprintf(" %14s", "messages/s")
	case KindBandwidth:
		head += fmt.Sprintf(" %14s", "MB/s")
	}
	turns := ""
	if o.Against {
		head += fmt.Sprintf(" %14s %7s", "limit", "ratio")
		turns = fmt.Sprintf(", medians of %d rounds in turns with the limit%s", o.Rounds, o.limitLacks())
	}
	_, err := fmt.Fprintf(out, "# weft bench %s: %s\n# %s, %v for each size%s\n# %s\n", o.Kind, what, o.setting(), o.Time, turns, head)
	return &table{out: out}, err
}

type table struct {
	out  io.Writer
	rows int
}

func (t *table) Row(r Row) error {
	var b strings.Builder
	if t.rows++; t.rows == 1 && r.Far != nil {
		fmt.Fprintf(&b, "# the other side says: link %s, %s\n", r.Far.Link, deployed(r.Far.Deployment, 1))
	}
	fmt.Fprintf(&b, "%10d %12d", r.Size, r.Iterations)
	switch {
	case r.Latency != nil:
		for _, ns := range []int64{r.P50, r.P90, r.P99, r.P999} {
			fmt.Fprintf(&b, " %11.2f", float64(ns)/float64(time.Microsecond))
		}
	case r.Rate != nil:
		fmt.Fprintf(&b, " %14.0f", r.MessagesPerSecond)
	case r.Bandwidth != nil:
		fmt.Fprintf(&b, " %14.2f", r.BytesPerSecond/1e6)
	}
	if a := r.Against; a != nil {
		switch {
		case r.Latency != nil:
			fmt.Fprintf(&b, " %14.2f", float64(a.LimitP50)/float64(time.Microsecond))
		case r.Rate != nil:
			fmt.Fprintf(&b, " %14.0f", a.LimitMessagesPerS)
		default:
			fmt.Fprintf(&b, " %14.2f", a.LimitBytesPerS/1e6)
		}
		fmt.Fprintf(&b, " %7.2f  %s", a.Ratio, a.Limit)
	}
	_, err := fmt.Fprintln(t.out, b.String())
	return err
}
