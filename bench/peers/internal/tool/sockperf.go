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
)

// Sockperf is sockets, from C: round trips over UDP, messages over TCP. It measures for whole seconds, so it has two figures only.
type Sockperf struct{}

// NewSockperf finds it.
func NewSockperf() (*Sockperf, error) { return &Sockperf{}, need("sockperf", "sockperf") }

// SockperfMeasures is what it can be asked for, SmallSize bytes each.
func SockperfMeasures() []string { return []string{contest.Latency, contest.Rate} }

// SockperfNotes say what it does differently.
func SockperfNotes() map[string]string {
	return map[string]string{contest.Latency: "UDP", contest.Rate: "TCP, which gathers (Nagle); what was sent"}
}

// Run does the jobs on a site.
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
	mode, network, flags := "ping-pong", "udp", []string{"--full-rtt"}
	if j.Measure == contest.Rate {
		mode, network, flags = "throughput", "tcp", []string{"--tcp"}
	}
	port, err := ground.FreePort()
	if err != nil {
		return contest.Sample{}, err
	}
	where := []string{"-i", s.Addr(1), "-p", strconv.Itoa(port)}
	serve := append([]string{"server"}, where...)
	if network == "tcp" {
		serve = append(serve, "--tcp")
	}
	server := s.Program(ctx, 1, "sockperf", serve...)
	if err := server.Start(); err != nil {
		return contest.Sample{}, err
	}
	defer server.End()
	if err := server.AwaitPort(ctx, network, port); err != nil {
		return contest.Sample{}, err
	}
	args := slices.Concat([]string{mode}, where, flags, []string{"-m", strconv.Itoa(j.Size), "-t", "1", "--dontwarmup"})
	out, err := s.Program(ctx, 0, "sockperf", args...).Output()
	if err != nil {
		return contest.Sample{}, err
	}
	sample, err := parseSockperf(out)
	sample.Size = j.Size
	if err == nil && sample.Measure != j.Measure {
		err = fmt.Errorf("sockperf measured %s, asked for %s", sample.Measure, j.Measure)
	}
	return sample, err
}

var (
	sockperfRate       = regexp.MustCompile(`Summary: Message Rate is (\d+) \[msg/sec\]`)
	sockperfTotal      = regexp.MustCompile(`Total (\d+) observations`)
	sockperfPercentile = regexp.MustCompile(`percentile ([\d.]+) = +([\d.]+)`)
	sockperfMax        = regexp.MustCompile(`<MAX> observation = +([\d.]+)`)
)

// parseSockperf reads what the client prints. Percentiles, in µs, make the steps of a distribution.
func parseSockperf(out string) (contest.Sample, error) {
	if m := sockperfRate.FindStringSubmatch(out); m != nil {
		rate, err := strconv.ParseFloat(m[1], 64)
		if err == nil && rate <= 0 {
			err = errors.New("sockperf sent nothing")
		}
		return contest.Sample{Measure: contest.Rate, Value: rate}, err
	}
	total, most := sockperfTotal.FindStringSubmatch(out), sockperfMax.FindStringSubmatch(out)
	if total == nil || most == nil {
		return contest.Sample{}, errors.New("sockperf printed neither a rate nor percentiles")
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
