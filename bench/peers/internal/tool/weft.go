// Package tool holds the contestants that are programs: it runs them and parses their output.
package tool

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weftnet/weft/bench/peers/internal/contest"
	"github.com/weftnet/weft/bench/peers/internal/ground"
)

// Weft is `weft bench`, as any user can run it.
type Weft struct {
	Binary string
	Dir    string   // for files with distributions
	Args   []string // link, deployment and site
	Sealed bool     // its links are sealed
}

// Run does the jobs. Jobs of the same kind and time run together, with --size all.
func (w *Weft) Run(ctx context.Context, jobs contest.Jobs) (samples []contest.Sample, err error) {
	for len(jobs) > 0 {
		n := 1
		for n < len(jobs) && jobs[n].Measure == jobs[0].Measure && jobs[n].Time == jobs[0].Time {
			n++
		}
		some, err := w.group(ctx, jobs[:n])
		samples = append(samples, some...)
		if err != nil {
			return samples, err
		}
		jobs = jobs[n:]
	}
	return samples, nil
}

// group does jobs that differ only in size.
func (w *Weft) group(ctx context.Context, jobs contest.Jobs) ([]contest.Sample, error) {
	args := append([]string{"bench", jobs[0].Measure, "--json", "--time", jobs[0].Time.String()}, w.Args...)
	if w.Sealed {
		args = append(args, sealedFlag, "on")
	}
	hdr := ""
	switch {
	case len(jobs) > 1:
		args = append(args, "--size", "all")
	default:
		args = append(args, "--size", strconv.Itoa(jobs[0].Size))
		if jobs[0].Measure == contest.Latency {
			hdr = filepath.Join(w.Dir, "weft.hdr")
			args = append(args, "--hdr", hdr)
		}
	}
	out, err := ground.Here().Program(ctx, 0, w.Binary, args...).Output()
	if err != nil {
		return nil, w.refusal(err)
	}
	rows, err := parseWeft(out, w.Sealed)
	if err != nil {
		return nil, err
	}
	var samples []contest.Sample
	for _, j := range jobs {
		s, ok := rows[j.Size]
		if !ok || s.Measure != j.Measure {
			return samples, fmt.Errorf("weft bench %s told nothing of %d bytes", j.Measure, j.Size)
		}
		if hdr != "" {
			if s.Steps, err = readHDR(hdr); err != nil {
				return samples, err
			}
		}
		samples = append(samples, s)
	}
	return samples, nil
}

// sealedFlag tells `weft bench` whether links are sealed: on or off. Without it they are plain.
const sealedFlag = "--sealed"

// refusal wraps contest.ErrRefused around the error of a binary that does not accept sealedFlag.
func (w *Weft) refusal(err error) error {
	if w.Sealed && strings.Contains(err.Error(), sealedFlag) {
		return fmt.Errorf("%w: this weft binary refuses %s on: %w", contest.ErrRefused, sealedFlag, err)
	}
	return err
}

// parseWeft parses the lines of `weft bench … --json`, by size. It refuses a line whose field
// sealed differs from the argument. A line without that field comes from a binary that supports
// plain links only.
func parseWeft(out string, sealed bool) (map[int]contest.Sample, error) {
	rows := make(map[int]contest.Sample)
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var r struct {
			Bench     string  `json:"bench"`
			Size      int     `json:"size"`
			Sealed    bool    `json:"sealed"`
			P50       float64 `json:"p50_ns"`
			Rate      float64 `json:"messages_per_s"`
			Bandwidth float64 `json:"bytes_per_s"`
		}
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			return rows, nil
		} else if err != nil {
			return nil, fmt.Errorf("weft bench: %w", err)
		}
		// only one of the three is set
		s := contest.Sample{Measure: r.Bench, Size: r.Size, Value: r.P50 + r.Rate + r.Bandwidth}
		if s.Value <= 0 {
			return nil, fmt.Errorf("weft bench told no figure for %d bytes", r.Size)
		}
		if r.Sealed != sealed {
			return nil, fmt.Errorf("weft bench measured %d bytes with sealed=%v, expected %v", r.Size, r.Sealed, sealed)
		}
		rows[r.Size] = s
	}
}

func readHDR(name string) (contest.Steps, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseHDR(f)
}

// parseHDR parses a distribution in HdrHistogram's text format. A line is a step: its value in
// µs, its percentile, and how many round trips were no longer.
func parseHDR(r io.Reader) (steps contest.Steps, err error) {
	seen := int64(0)
	for in := bufio.NewScanner(r); in.Scan(); {
		f := strings.Fields(in.Text())
		if len(f) == 0 || f[0] == "Value" || strings.HasPrefix(f[0], "#") {
			continue
		}
		if len(f) < 3 {
			return nil, fmt.Errorf("distribution: line %q: expected value, percentile and count", in.Text())
		}
		value, err1 := strconv.ParseFloat(f[0], 64)
		upto, err2 := strconv.ParseInt(f[2], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("distribution: line %q: %w", in.Text(), err)
		}
		if upto > seen {
			steps = append(steps, contest.Step{Nanoseconds: value * float64(time.Microsecond), Count: upto - seen})
			seen = upto
		}
	}
	if seen == 0 {
		return nil, errors.New("distribution: no round trip in it")
	}
	return steps, nil
}
