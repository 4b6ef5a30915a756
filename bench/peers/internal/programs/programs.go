// Package programs measures exchanges between programs in NICs by the length of the message, in
// comparison with processes and with the limits of the machine: the experiments of the PANIC
// paper. It runs `weft bench program`, and keeps its output.
//
//	weft bench program --json, per deployment ─► Result ─► programs.json ─► package page: charts
package programs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

// Places of the NICs.
const (
	Daemon   = "daemon"
	Embedded = "embedded"
)

// Deployments lists the places of the NICs.
func Deployments() []string { return []string{Daemon, Embedded} }

// Sizes returns the lengths of the messages, in bytes.
func Sizes() []int { return []int{0, 64, 256, 1024, 4096, 8192} }

// Row holds the fields of a row of `weft bench program --json` that are used here.
type Row struct {
	Series     string  `json:"series"`
	Link       string  `json:"link"`
	Deployment string  `json:"deployment"`
	Sealed     bool    `json:"sealed"` // the link between the NICs is sealed
	Size       int     `json:"size"`
	Iterations int64   `json:"iterations"`
	Lost       int64   `json:"lost"`
	P50        float64 `json:"p50_ns"`
	P99        float64 `json:"p99_ns"`
	Limit      string  `json:"limit"`
	LimitP50   float64 `json:"limit_p50_ns"`
	Ratio      float64 `json:"ratio"`
}

// Result holds everything that a run has found.
type Result struct {
	Machine contest.Machine `json:"machine"`
	Commit  string          `json:"commit"`
	Date    string          `json:"date"` // of the start, RFC 3339
	Rounds  int             `json:"rounds"`
	Rows    []Row           `json:"rows"`
}

// Run measures all series and sizes in each deployment with a weft binary. Each takes the time
// each in all, spread over the rounds, in turns with its limit.
func (r *Result) Run(ctx context.Context, weft string, each time.Duration) error {
	r.Date = time.Now().UTC().Format(time.RFC3339)
	sizes := strings.Trim(strings.ReplaceAll(fmt.Sprint(Sizes()), " ", ","), "[]")
	for _, deployment := range Deployments() {
		c := exec.CommandContext(ctx, weft, "bench", "program", "--deployment", deployment, "--size", sizes,
			"--against", "limit", "--json",
			"--time", each.String(), "--rounds", strconv.Itoa(r.Rounds))
		var said bytes.Buffer
		c.Stderr = &said
		out, err := c.Output()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(c.Args, " "), err, said.Bytes())
		}
		if err := r.add(bytes.NewReader(out)); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(c.Args, " "), err)
		}
	}
	return nil
}

// add reads rows.
func (r *Result) add(in io.Reader) error {
	d := json.NewDecoder(in)
	for {
		var row Row
		if err := d.Decode(&row); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if row.Series == "" || row.P50 <= 0 {
			return fmt.Errorf("a row without a series or figure: %+v", row)
		}
		r.Rows = append(r.Rows, row)
	}
}

// JSON returns the result as it is stored.
func (r *Result) JSON() ([]byte, error) {
	b, err := json.MarshalIndent(r, "", " ")
	return append(b, '\n'), err
}

// Lines returns the figures by length for each series and each limit of a deployment, and their
// names in the order in which they come.
func (r *Result) Lines(deployment string) (names []string, by map[string]map[int]float64) {
	by = make(map[string]map[int]float64)
	sums := make(map[string]map[int]int)
	note := func(name string, size int, v float64) {
		if by[name] == nil {
			names = append(names, name)
			by[name], sums[name] = make(map[int]float64), make(map[int]int)
		}
		n := sums[name][size]
		by[name][size] = (by[name][size]*float64(n) + v) / float64(n+1)
		sums[name][size]++
	}
	for _, limits := range []bool{false, true} {
		for _, row := range r.Rows {
			switch {
			case row.Deployment != deployment:
			case !limits:
				note(row.Series, row.Size, row.P50)
			// several series are measured in turns with it: the mean
			case row.Limit != "":
				note(LimitName(row.Limit), row.Size, row.LimitP50)
			}
		}
	}
	return names, by
}

// LimitName returns the name of a limit in a list of series.
func LimitName(limit string) string { return "limit: " + limit }
