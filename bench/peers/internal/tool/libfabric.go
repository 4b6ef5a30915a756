package tool

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weftnet/weft/bench/peers/internal/contest"
	"github.com/weftnet/weft/bench/peers/internal/ground"
	"github.com/weftnet/weft/internal/testenv"
)

// Libfabric is fi_pingpong with tagged messages, by the provider shm on one host and tcp between
// two. It measures round trips only, so it has no rate, and its bandwidth is that of one message
// at a time.
type Libfabric struct{}

// NewLibfabric returns an error if fi_pingpong is not installed.
func NewLibfabric() (*Libfabric, error) { return &Libfabric{}, need("libfabric-bin", "fi_pingpong") }

// LibfabricMeasures lists its measures.
func LibfabricMeasures() []string { return []string{contest.Latency, contest.Bandwidth} }

// LibfabricNotes says how it differs from the others.
func LibfabricNotes() map[string]string {
	return map[string]string{contest.Latency: "the mean, not the median",
		contest.Bandwidth: "one message at a time, there and back"}
}

// Run does the jobs on a site, with a pair of programs for each size: one run gives both time
// and bandwidth.
func (*Libfabric) Run(ctx context.Context, s *ground.Site, jobs contest.Jobs) (samples []contest.Sample, err error) {
	known := make(map[int]time.Duration) // one-way time of a message
	for _, j := range jobs {
		one, ok := known[j.Size]
		if !ok {
			if one, err = pingpong(ctx, s, j); err != nil {
				return samples, err
			}
			known[j.Size] = one
		}
		v := contest.Sample{Measure: j.Measure, Size: j.Size, Value: float64(2 * one)}
		if j.Measure == contest.Bandwidth {
			v.Value = float64(j.Size) / one.Seconds()
		}
		samples = append(samples, v)
	}
	return samples, nil
}

func pingpong(ctx context.Context, s *ground.Site, j contest.Job) (time.Duration, error) {
	port, err := testenv.TakePort()
	if err != nil {
		return 0, err
	}
	provider, each := "shm", 2*time.Microsecond
	if s.Hosts() {
		provider, each = "tcp", 30*time.Microsecond
	}
	common := []string{"-p", provider, "-e", "rdm", "-m", "tagged", "-S", strconv.Itoa(j.Size), "-I",
		strconv.Itoa(repetitions(j, each))}
	server := s.Program(ctx, 1, "fi_pingpong", append(common, "-B", strconv.Itoa(port))...)
	if err := server.Start(); err != nil {
		return 0, err
	}
	defer server.End()
	if err := server.AwaitPort(ctx, "tcp", port); err != nil {
		return 0, err
	}
	out, err := s.Program(ctx, 0, "fi_pingpong", append(common, "-P", strconv.Itoa(port), s.Addr(1))...).Output()
	if err != nil {
		return 0, errors.Join(err, server.Failure())
	}
	return parsePingpong(out)
}

// parsePingpong parses a line of figures below a line of headings. usec/xfer is the one-way time
// of a message, printed with two decimals.
func parsePingpong(out string) (time.Duration, error) {
	var heads []string
	for line := range strings.SplitSeq(out, "\n") {
		f := strings.Fields(line)
		switch {
		case len(f) > 0 && f[0] == "bytes":
			heads = f
		case len(f) > 0 && len(f) == len(heads):
			for i, h := range heads {
				if h == "usec/xfer" {
					us, err := strconv.ParseFloat(f[i], 64)
					if err == nil && us <= 0 {
						err = errors.New("no time at all")
					}
					return time.Duration(us * float64(time.Microsecond)), err
				}
			}
		}
	}
	return 0, fmt.Errorf("fi_pingpong printed no usec/xfer")
}
