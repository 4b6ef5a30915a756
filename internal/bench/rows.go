package bench

import (
	"encoding/json"
	"fmt"
	"io"
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
	*Lost
	*Streams
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

	shown float64 // the limit's figure, as the column has it
}

// Rate is how many messages have gone one way.
type Rate struct {
	MessagesPerSecond float64 `json:"messages_per_s"`
}

// Bandwidth is how many bytes of messages have gone one way.
type Bandwidth struct {
	BytesPerSecond float64 `json:"bytes_per_s"`
}

// Lost is what became of datagrams.
type Lost struct {
	Share float64 `json:"lost"` // of those that left: it did not arrive, or found no receive
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
	k := kindOf(o.Kind)
	turns := ""
	if o.Against {
		turns = fmt.Sprintf(", medians of %d rounds in turns with the limit%s", o.Rounds, o.limitLacks())
	}
	_, err := fmt.Fprintf(out, "# weft bench %s: %s\n# %s, %v for each size%s\n# %s\n", o.Kind, k.what, o.setting(), o.Time, turns, k.head(o.Against))
	return &table{out: out, kind: k}, err
}

type table struct {
	out  io.Writer
	kind *Kind
	rows int
}

func (t *table) Row(r Row) error {
	if t.rows++; t.rows == 1 && r.Far != nil {
		fmt.Fprintf(t.out, "# the other side says: link %s, %s\n", r.Far.Link, deployed(r.Far.Deployment, 1))
	}
	_, err := fmt.Fprintln(t.out, t.kind.line(&r))
	return err
}
