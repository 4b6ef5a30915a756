package contest

import (
	"slices"
	"strings"
	"time"
)

// Grounds: where something is measured.
const (
	Host = "host" // two processes on one host
	Veth = "veth" // two hosts and a cable between them
	Loss = "loss" // the same with a program that loses packets, each way

	Pages  = "pages"  // as Veth: one host keeps pages of memory for the other
	Blocks = "blocks" // as Pages, for a device: one host reads blocks of the other
)

// Grounds lists the grounds in the order of the tables.
func Grounds() []string { return []string{Host, Veth, Loss, Pages, Blocks} }

// Result holds everything that a run has found.
type Result struct {
	Machine   Machine   `json:"machine"`
	Commit    string    `json:"commit"`
	Date      string    `json:"date"` // of the start, RFC 3339
	Seconds   float64   `json:"seconds"`
	Rounds    int       `json:"rounds"`
	Rows      []Row     `json:"rows"`
	Skipped   []Skipped `json:"skipped,omitempty"`
	Failures  []Failure `json:"failures,omitempty"`
	Elsewhere []Row     `json:"elsewhere"` // figures of other runs
	Added     []Added   `json:"added,omitempty"`
}

// Machine describes the machine of a run.
type Machine struct {
	CPU    string  `json:"cpu"`
	Cores  int     `json:"cores"`
	Kernel string  `json:"kernel"`
	OS     string  `json:"os"`
	Go     string  `json:"go"`
	Load   float64 `json:"load"`   // over one minute, before the run
	Others float64 `json:"others"` // about how many cores other programs used during the run
}

// Row is one figure of one contestant: the median of its rounds.
type Row struct {
	Contestant string    `json:"contestant"`
	Ground     string    `json:"ground"`
	Loss       float64   `json:"loss"`    // share of the packets, each way
	Sealed     bool      `json:"sealed"`  // the contestant encrypts what it carries
	Measure    string    `json:"measure"` // also gives the unit of Value: ns, messages/s, bytes/s
	Size       int       `json:"size"`    // bytes of a message
	Value      float64   `json:"value"`
	Rounds     []float64 `json:"rounds,omitempty"` // Value is their median
	P99        float64   `json:"p99_ns,omitempty"` // of the round trips of all rounds together
	Trips      int64     `json:"round_trips,omitempty"`

	// of the round trips of all rounds together
	Percentiles []Percentile `json:"percentiles,omitempty"`
	// how the contestant differs from the others
	Note string `json:"note,omitempty"`
}

// Skipped is a contestant that is not available.
type Skipped struct {
	Contestant string `json:"contestant"`
	Why        string `json:"why"`
}

// Failure is a failed part of a round.
type Failure struct {
	Contestant string  `json:"contestant"`
	Ground     string  `json:"ground"`
	Loss       float64 `json:"loss"`
	Round      int     `json:"round"` // from 1
	Why        string  `json:"why"`
}

// Sample is one figure of one round.
type Sample struct {
	Measure string  `json:"measure"`
	Size    int     `json:"size"`
	Value   float64 `json:"value"`
	Steps   Steps   `json:"steps,omitempty"`
}

// Median returns the median of the values, or 0 if there are none. For an even number, it is the
// mean of the two in the middle.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// rowsOf makes rows from the samples of all rounds of one contestant, in the order in which they
// first came.
func rowsOf(c *Contestant, rounds [][]Sample) (rows []Row) {
	type key struct {
		measure string
		size    int
	}
	at := make(map[key]int)
	var steps []Steps
	for _, samples := range rounds {
		for _, s := range samples {
			k := key{s.Measure, s.Size}
			i, ok := at[k]
			if !ok {
				i = len(rows)
				at[k] = i
				rows = append(rows, Row{Contestant: c.Name, Ground: c.Ground, Loss: c.Loss, Sealed: c.Sealed,
					Measure: s.Measure, Size: s.Size, Note: c.Notes[s.Measure]})
				steps = append(steps, nil)
			}
			rows[i].Rounds = append(rows[i].Rounds, s.Value)
			steps[i] = append(steps[i], s.Steps...)
		}
	}
	for i := range rows {
		r := &rows[i]
		r.Value = Median(r.Rounds)
		if all := Merge(steps[i]); all.Total() > 0 {
			r.Trips, r.P99 = all.Total(), all.At(99)
			if r.Size == SmallSize {
				r.Percentiles = all.Curve()
			}
		}
	}
	return rows
}

// Find returns the row of a figure. The row is from this result or from Elsewhere.
func (r *Result) Find(contestant, ground string, loss float64, measure string, size int) (Row, bool) {
	for _, row := range slices.Concat(r.Rows, r.Elsewhere) {
		if row.Contestant == contestant && row.Ground == ground && row.Loss == loss && row.Measure == measure &&
			row.Size == size {
			return row, true
		}
	}
	return Row{}, false
}

// Contestants lists the contestants that have figures on a ground, in the order in which they
// take part. Those of Elsewhere come last.
func (r *Result) Contestants(ground string) (names []string) {
	for _, row := range slices.Concat(r.Rows, r.Elsewhere) {
		if row.Ground == ground && !slices.Contains(names, row.Contestant) {
			names = append(names, row.Contestant)
		}
	}
	return names
}

// IsElsewhere reports whether a contestant's figures come from another run.
func (r *Result) IsElsewhere(contestant string) bool {
	return slices.ContainsFunc(r.Elsewhere, func(row Row) bool { return row.Contestant == contestant })
}

// Weft reports whether a contestant is Weft.
func Weft(contestant string) bool { return strings.HasPrefix(contestant, "Weft") }

// Losses returns the shares of packets that are lost, each way.
func Losses() []float64 { return []float64{0, 0.001, 0.01, 0.05} }

// begun formats a date as in a result.
func begun(t time.Time) string { return t.UTC().Format(time.RFC3339) }
