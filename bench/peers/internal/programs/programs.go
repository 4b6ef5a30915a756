// Package programs measures what programs in the NIC take for an exchange, beside processes, and what the ground allows: the experiments of the
// PANIC paper, by the length of the message. It runs `weft bench program`, and keeps what that prints.
//
//	weft bench program --json, for each deployment ──► Result ──► programs.json ──► package page: a chart each
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

// Where the NICs are.
const (
	Daemon   = "daemon"
	Embedded = "embedded"
)

// Deployments lists them.
func Deployments() []string { return []string{Daemon, Embedded} }

// Sizes are the lengths of the messages, in bytes.
func Sizes() []int { return []int{0, 64, 256, 1024, 4096, 8192} }

// Row is what `weft bench program --json` prints of a series and size, as far as it is wanted here.
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

// Result is all that a run has found out.
type Result struct {
	Machine contest.Machine `json:"machine"`
	Commit  string          `json:"commit"`
	Date    string          `json:"date"` // of the beginning, RFC 3339
	Rounds  int             `json:"rounds"`
	Rows    []Row           `json:"rows"`
}

// Run measures all series and sizes in each deployment with a weft binary: each in each round, for so long altogether, in turns with its limit.
func (r *Result) Run(ctx context.Context, weft string, each time.Duration) error {
	r.Date = time.Now().UTC().Format(time.RFC3339)
	sizes := strings.Trim(strings.ReplaceAll(fmt.Sprint(Sizes()), " ", ","), "[]")
	for _, deployment := range Deployments() {
		c := exec.CommandContext(ctx, weft, "bench", "program", "--deployment", deployment, "--size", sizes, "--against", "limit", "--json",
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

// JSON is the result as it is kept.
func (r *Result) JSON() ([]byte, error) {
	b, err := json.MarshalIndent(r, "", " ")
	return append(b, '\n'), err
}

// Lines is one line of figures by length for each series, and for each limit, of a deployment, in the order in which they come.
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
			case row.Limit != "": // of several series, which are measured beside it in turn: the mean
				note(LimitName(row.Limit), row.Size, row.LimitP50)
			}
		}
	}
	return names, by
}

// LimitName is what a limit is called beside series.
func LimitName(limit string) string { return "limit: " + limit }
