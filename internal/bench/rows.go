package bench

import "fmt"

// Row is one measurement. In JSON it is one object: the common fields, and those of the kind.
type Row struct {
	Bench      string `json:"bench"`
	Sealed     bool   `json:"sealed"` // the links between NICs
	Link       string `json:"link"`
	Deployment string `json:"deployment"`
	Size       int    `json:"size"` // bytes of a message
	// messages that count; a message and its echo count once
	Iterations int64 `json:"iterations"`
	// setup of the other side, if --serve on a host chose it
	Far *Setup `json:"far,omitempty"`

	*Latency
	*Rate
	*Bandwidth
	*Lost
	*Streams
	*Against
	*BesidePlain

	inPair bool // there is also a row of the other kind of links
}

// Against compares a row with a limit that was measured in turns with it.
type Against struct {
	Limit             string  `json:"limit"` // its name in weft bench limits
	LimitP50          int64   `json:"limit_p50_ns,omitempty"`
	LimitMessagesPerS float64 `json:"limit_messages_per_s,omitempty"`
	LimitBytesPerS    float64 `json:"limit_bytes_per_s,omitempty"`
	// the measured figure by the limit: the median of RoundRatios
	Ratio float64 `json:"ratio"`

	RoundRatios []float64 `json:"round_ratios"` // one per round, in order

	shown float64 // the limit's figure, in the unit of the column
}

// BesidePlain compares a row of sealed links with plain links, measured in turns with it.
// Figures are medians of the rounds.
type BesidePlain struct {
	// round trip of sealed links less that of plain ones; nil if there are no round trips
	Added      *int64  `json:"added_p50_ns,omitempty"`
	PlainRatio float64 `json:"plain_ratio"` // sealed by plain
}

// Rate is the rate of messages one way.
type Rate struct {
	MessagesPerSecond float64 `json:"messages_per_s"`
}

// Bandwidth is the rate of message bytes one way.
type Bandwidth struct {
	BytesPerSecond float64 `json:"bytes_per_s"`
}

// Lost is the loss of datagrams.
type Lost struct {
	// of those that left: they did not arrive, or found no receive
	Share float64 `json:"lost"`
}

// Head returns the lines above the columns, for people. They say what is measured.
func (o *Options) Head() string {
	k := kindOf(o.Kind)
	turns := ""
	switch {
	case o.Against:
		turns = fmt.Sprintf(", medians of %d rounds in turns with the limit%s", o.Rounds, o.limitLacks())
	case o.BothLinks:
		turns = fmt.Sprintf(", medians of %d rounds in turns", o.Rounds)
	}
	return fmt.Sprintf("# weft bench %s: %s\n# %s, %v for each size%s\n# %s\n",
		o.Kind, k.what, o.setting(), o.Time, turns, k.head(o))
}

// Lines returns a function that formats rows for people, in turn.
func Lines(kind string) func(r Row) string {
	k, rows := kindOf(kind), 0
	return func(r Row) string {
		line := k.line(&r) + "\n"
		if rows++; rows == 1 && r.Far != nil {
			return fmt.Sprintf("# the other side says: link %s, %s\n%s",
				r.Far.Link, deployed(r.Far.Deployment, 1), line)
		}
		return line
	}
}
