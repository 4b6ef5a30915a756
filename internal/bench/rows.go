package bench

import "fmt"

// Row is one measurement. In JSON it is one object, with the fields of what was measured beside the common ones.
type Row struct {
	Bench      string `json:"bench"`
	Sealed     bool   `json:"sealed"` // the links between NICs
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
	*BesidePlain

	inPair bool // there is a row of plain links and one of sealed links
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

// BesidePlain compares a row of sealed links with plain links, measured in turns with it. Figures
// are medians of the rounds.
type BesidePlain struct {
	Added      *int64  `json:"added_p50_ns,omitempty"` // round trip of sealed links less that of plain ones; none if there are no round trips
	PlainRatio float64 `json:"plain_ratio"`            // sealed by plain
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

// Head says what is measured, above the columns, for people.
func (o *Options) Head() string {
	k := kindOf(o.Kind)
	turns := ""
	switch {
	case o.Against:
		turns = fmt.Sprintf(", medians of %d rounds in turns with the limit%s", o.Rounds, o.limitLacks())
	case o.BothLinks:
		turns = fmt.Sprintf(", medians of %d rounds in turns", o.Rounds)
	}
	return fmt.Sprintf("# weft bench %s: %s\n# %s, %v for each size%s\n# %s\n", o.Kind, k.what, o.setting(), o.Time, turns, k.head(o))
}

// Lines returns what makes the lines of rows, one after the other, for people.
func Lines(kind string) func(r Row) string {
	k, rows := kindOf(kind), 0
	return func(r Row) string {
		line := k.line(&r) + "\n"
		if rows++; rows == 1 && r.Far != nil {
			return fmt.Sprintf("# the other side says: link %s, %s\n%s", r.Far.Link, deployed(r.Far.Deployment, 1), line)
		}
		return line
	}
}
