package contest

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// JSON returns the whole result as JSON.
func (r *Result) JSON() ([]byte, error) {
	b, err := json.MarshalIndent(r, "", "\t")
	return append(b, '\n'), err
}

// Column is a column of figures in the tables.
type Column struct {
	Head    string
	Ground  string
	Loss    float64
	Measure string
	Size    int
	P99     bool // the 99th percentile instead of the median
}

// Columns returns the columns of a ground's table.
func Columns(ground string) []Column {
	switch ground {
	case Pages:
		return []Column{
			{Head: "a page, one at a time", Ground: ground, Measure: Latency, Size: PageSize},
			{Head: "99 %", Ground: ground, Measure: Latency, Size: PageSize, P99: true},
			{Head: fmt.Sprintf("pages/s, %d under way", ReadDepth), Ground: ground, Measure: Reads, Size: PageSize},
			{Head: "in order", Ground: ground, Measure: Bandwidth, Size: PageSize},
		}
	case Blocks:
		return []Column{
			{Head: "a block, depth 1", Ground: ground, Measure: Latency, Size: PageSize},
			{Head: "99 %", Ground: ground, Measure: Latency, Size: PageSize, P99: true},
			{Head: fmt.Sprintf("blocks/s, depth %d", ReadDepth), Ground: ground, Measure: Reads, Size: PageSize},
		}
	case Host, Veth:
		return []Column{
			{Head: "64 B there and back", Ground: ground, Measure: Latency, Size: SmallSize},
			{Head: "99 %", Ground: ground, Measure: Latency, Size: SmallSize, P99: true},
			{Head: "64 B messages/s", Ground: ground, Measure: Rate, Size: SmallSize},
			{Head: "1 MiB", Ground: ground, Measure: Bandwidth, Size: LargeSize},
		}
	}
	var cs []Column
	for _, loss := range Losses() {
		cs = append(cs, Column{Head: fmt.Sprintf("%v %% lost", 100*loss), Ground: ground, Loss: loss,
			Measure: Bandwidth, Size: LargeSize})
	}
	for _, loss := range Losses() {
		cs = append(cs, Column{Head: fmt.Sprintf("99 %%, %v %% lost", 100*loss), Ground: ground, Loss: loss,
			Measure: Latency, Size: SmallSize, P99: true})
	}
	return cs
}

// Title returns the title of a ground's table.
func Title(ground string) string {
	return map[string]string{
		Host: "Two processes on one host",
		Veth: "Two hosts, a cable between them, MTU 1500",
		Loss: "The same, where each way loses packets: 1 MiB messages by loss, " +
			"and the 99th percentile of 64 B there and back",

		Pages:  "Two hosts: pages of 4 KiB that the other host keeps",
		Blocks: "Two hosts: random blocks of 4 KiB of a device whose memory the other host has, read by fio",
	}[ground]
}

// Cell returns a figure with its unit; a dash if there is none.
func (r *Result) Cell(contestant string, c Column) string {
	row, ok := r.Find(contestant, c.Ground, c.Loss, c.Measure, c.Size)
	switch {
	case c.P99 && row.P99 > 0:
		return Figure(Latency, row.P99)
	case !ok || c.P99 || row.Value <= 0:
		return "—"
	}
	return Figure(c.Measure, row.Value)
}

// Figure formats a value of a measure with its unit, to three digits.
func Figure(measure string, value float64) string {
	type unit struct {
		of   float64
		name string
	}
	units := map[string][]unit{
		Latency:   {{1e3, "µs"}, {1e6, "ms"}, {1e9, "s"}},
		Rate:      {{1e6, "M/s"}},
		Bandwidth: {{1e9, "GB/s"}},
		Reads:     {{1e3, "k/s"}, {1e6, "M/s"}},
	}[measure]
	u := units[0]
	for _, larger := range units[1:] {
		if value >= 0.9995*larger.of {
			u = larger
		}
	}
	v := value / u.of
	digits := 0
	for limit := 99.95; limit > 0.05 && v < limit && digits < 3; limit /= 10 {
		digits++
	}
	return fmt.Sprintf("%.*f %s", digits, v, u.name)
}

// Marks returns the marks after a contestant's name: a star for figures of another run, a dagger
// for one that encrypts.
func (r *Result) Marks(contestant string) (marks string) {
	if r.IsElsewhere(contestant) {
		marks += " *"
	}
	if r.Sealed(contestant) {
		marks += " †"
	}
	return marks
}

// WriteTable prints all tables, for a terminal.
func (r *Result) WriteTable(out io.Writer) error {
	m := r.Machine
	fmt.Fprintf(out, "# %s, %d cores, Linux %s, load %.1f before, others took %.1f cores; commit %s; "+
		"medians of %d rounds, %.0f s\n",
		m.CPU, m.Cores, m.Kernel, m.Load, m.Others, r.Commit, r.Rounds, r.Seconds)
	for _, ground := range Grounds() {
		who := r.Contestants(ground)
		if len(who) == 0 {
			continue
		}
		fmt.Fprintf(out, "\n%s\n", Title(ground))
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
		var heads []string
		for _, c := range Columns(ground) {
			heads = append(heads, c.Head)
		}
		fmt.Fprintf(w, "\t%s\t\n", strings.Join(heads, "\t"))
		for _, name := range who {
			cells := []string{name}
			cells[0] += r.Marks(name)
			for _, c := range Columns(ground) {
				cells = append(cells, r.Cell(name, c))
			}
			fmt.Fprintf(w, "%s\t\n", strings.Join(cells, "\t"))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "\n* measured elsewhere on a like machine, not in this run\n† encrypts what it carries; "+
		"all others, and their figures, are of plain links\n")
	for _, s := range r.Refusals() {
		fmt.Fprintf(out, "%s: %s\n", s.Contestant, s.Why)
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(out, "skipped: %s: %s\n", s.Contestant, s.Why)
	}
	for _, f := range r.Failures {
		fmt.Fprintf(out, "failed: %s, %s, round %d: %s\n", f.Contestant, f.Ground, f.Round, f.Why)
	}
	return nil
}
