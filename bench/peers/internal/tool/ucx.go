package tool

import (
	"context"
	"encoding/csv"
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
	"github.com/weftnet/weft/internal/testenv"
)

// UCX is ucx_perftest with its tag-matched messages, over shared memory on one host and tcp
// between two.
type UCX struct{ dir string }

// NewUCX returns an error if ucx_perftest is not installed.
func NewUCX(dir string) (*UCX, error) { return &UCX{dir}, need("ucx-utils", "ucx_perftest") }

// Run does all jobs on a site with one pair of programs, which both read a batch file.
func (u *UCX) Run(ctx context.Context, s *ground.Site, jobs contest.Jobs) ([]contest.Sample, error) {
	port, err := testenv.TakePort()
	if err != nil {
		return nil, err
	}
	batch := filepath.Join(u.dir, "ucx.batch")
	if err := os.WriteFile(batch, []byte(ucxBatch(jobs, s.Hosts())), 0o600); err != nil {
		return nil, err
	}
	env := append(os.Environ(), "UCX_LOG_LEVEL=error", "UCX_TLS=posix,sysv,cma,self")
	if s.Hosts() {
		env = append(os.Environ(), "UCX_LOG_LEVEL=error", "UCX_TLS=tcp,self", "UCX_NET_DEVICES=eth0")
	}
	args := []string{"-p", strconv.Itoa(port), "-b", batch, "-f", "-v"}
	server := s.Program(ctx, 1, "ucx_perftest", args...)
	server.Env = env
	if err := server.Start(); err != nil {
		return nil, err
	}
	defer server.End()
	if err := server.AwaitPort(ctx, "tcp", port); err != nil {
		return nil, err
	}
	client := s.Program(ctx, 0, "ucx_perftest", append([]string{s.Addr(1)}, args...)...)
	client.Env = env
	out, err := client.Output()
	samples, bad := parseUCX(out)
	return samples, errors.Join(err, bad, server.Failure())
}

// ucxBatch returns a line for each job: its name, and the number of repetitions. The program
// counts repetitions and has no clock. So their number is guessed from the time.
func ucxBatch(jobs contest.Jobs, hosts bool) string {
	var b strings.Builder
	for _, j := range jobs {
		test, each := "tag_lat", 2*time.Microsecond
		if hosts {
			each = 30 * time.Microsecond
		}
		if j.Measure != contest.Latency {
			test, each = "tag_bw", each/8
		}
		n := repetitions(j, each)
		fmt.Fprintf(&b, "%s:%d -t %s -s %d -n %d -w %d\n", j.Measure, j.Size, test, j.Size, n, n/10+1)
	}
	return b.String()
}

// repetitions returns how often a job runs. A short message takes the time each, and every two
// bytes take a nanosecond more. The number leaves room for a busy machine: programs that spin and
// never yield then take many times as long.
func repetitions(j contest.Job, each time.Duration) int {
	return max(int(j.Time/(10*each+time.Duration(j.Size/2))), 10)
}

// parseUCX parses comma-separated values: the name of the job, repetitions, three times in µs,
// two bandwidths, and two rates. The first time is the median of half a round trip. The second
// rate is over the whole time.
func parseUCX(out string) (samples []contest.Sample, err error) {
	r := csv.NewReader(strings.NewReader(out))
	r.TrimLeadingSpace, r.FieldsPerRecord = true, 9
	for line := 0; ; line++ {
		f, err := r.Read()
		if errors.Is(err, io.EOF) {
			return samples, nil
		}
		if err != nil {
			return samples, fmt.Errorf("ucx_perftest: %w", err)
		}
		if line == 0 && f[1] == "iterations" {
			continue
		}
		measure, size, _ := strings.Cut(f[0], ":")
		bytes, err1 := strconv.Atoi(size)
		half, err2 := strconv.ParseFloat(f[2], 64)
		rate, err3 := strconv.ParseFloat(f[8], 64)
		if err := errors.Join(err1, err2, err3); err != nil || half <= 0 || rate <= 0 {
			return samples, fmt.Errorf("ucx_perftest: line %q: %w", f, err)
		}
		s := contest.Sample{Measure: measure, Size: bytes, Value: rate}
		switch measure {
		case contest.Latency:
			s.Value = 2 * half * float64(time.Microsecond)
		case contest.Bandwidth:
			s.Value *= float64(bytes)
		}
		samples = append(samples, s)
	}
}
