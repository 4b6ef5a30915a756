package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/weftnet/weft/bench/peers/internal/contest"
	"github.com/weftnet/weft/bench/peers/internal/ground"
	"github.com/weftnet/weft/internal/testenv"
)

// Sockperf uses UDP sockets, from C. It rests for two seconds before it measures, and then
// measures for whole seconds, so it is only used for round trips. Its rate counts sent messages,
// which is not comparable to the others' rates.
type Sockperf struct{}

// NewSockperf returns an error if sockperf is not installed.
func NewSockperf() (*Sockperf, error) { return &Sockperf{}, need("sockperf", "sockperf") }

// Run does jobs on a site: round trips.
func (*Sockperf) Run(ctx context.Context, s *ground.Site, jobs contest.Jobs) (samples []contest.Sample, err error) {
	for _, j := range jobs {
		sample, err := sockperf(ctx, s, j)
		if err != nil {
			return samples, err
		}
		samples = append(samples, sample)
	}
	return samples, nil
}

func sockperf(ctx context.Context, s *ground.Site, j contest.Job) (contest.Sample, error) {
	port, err := testenv.TakePort()
	if err != nil {
		return contest.Sample{}, err
	}
	where := []string{"-i", s.Addr(1), "-p", strconv.Itoa(port)}
	server := s.Program(ctx, 1, "sockperf", append([]string{"server"}, where...)...)
	if err := server.Start(); err != nil {
		return contest.Sample{}, err
	}
	defer server.End()
	if err := server.AwaitPort(ctx, "udp", port); err != nil {
		return contest.Sample{}, err
	}
	args := slices.Concat([]string{"ping-pong"}, where, []string{"--full-rtt", "-m", strconv.Itoa(j.Size), "-t", "1"})
	out, err := s.Program(ctx, 0, "sockperf", args...).Output()
	if err != nil {
		return contest.Sample{}, err
	}
	sample, err := parseSockperf(out)
	sample.Size = j.Size
	return sample, err
}

var (
	sockperfTotal      = regexp.MustCompile(`Total (\d+) observations`)
	sockperfPercentile = regexp.MustCompile(`percentile ([\d.]+) = +([\d.]+)`)
	sockperfMax        = regexp.MustCompile(`<MAX> observation = +([\d.]+)`)
)

// parseSockperf parses the client's output. Percentiles, in µs, make the steps of a
// distribution.
func parseSockperf(out string) (contest.Sample, error) {
	total, most := sockperfTotal.FindStringSubmatch(out), sockperfMax.FindStringSubmatch(out)
	if total == nil || most == nil {
		return contest.Sample{}, errors.New("sockperf printed no percentiles")
	}
	n, err := strconv.ParseFloat(total[1], 64)
	points := [][2]float64{}
	for _, m := range append(sockperfPercentile.FindAllStringSubmatch(out, -1), []string{"", "100", most[1]}) {
		p, err1 := strconv.ParseFloat(m[1], 64)
		us, err2 := strconv.ParseFloat(m[2], 64)
		err = errors.Join(err, err1, err2)
		points = append(points, [2]float64{p, us})
	}
	if err != nil {
		return contest.Sample{}, fmt.Errorf("sockperf: %w", err)
	}
	slices.SortFunc(points, func(a, b [2]float64) int { return cmp.Compare(a[0], b[0]) })
	s := contest.Sample{Measure: contest.Latency}
	seen := int64(0)
	for _, p := range points {
		upto := int64(math.Ceil(n * p[0] / 100))
		s.Steps = append(s.Steps, contest.Step{Nanoseconds: 1000 * p[1], Count: upto - seen})
		seen = upto
	}
	s.Value = s.Steps.At(50)
	return s, nil
}
