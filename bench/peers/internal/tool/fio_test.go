package tool

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

func TestFioIsRead(t *testing.T) {
	jobs := contest.PageJobs(5*time.Millisecond).Upto(contest.PageSize, contest.Latency, contest.Reads)
	samples, err := parseFio(recorded(t, "fio.json"), jobs)
	if err != nil || len(samples) != 2 {
		t.Fatalf("%d samples, error %v", len(samples), err)
	}
	one, many := samples[0], samples[1]
	if one.Measure != contest.Latency || one.Size != contest.PageSize || one.Value != 58624 || one.Steps.Total() != 77 {
		t.Errorf("one at a time: %s of %d bytes, %v ns, the median of %d", one.Measure, one.Size, one.Value, one.Steps.Total())
	}
	if got := one.Steps.At(99); !near(got, 127488) {
		t.Errorf("percentile 99 is %v ns, want what fio says, 127488", got)
	}
	if many.Measure != contest.Reads || !near(many.Value, 32500) || many.Steps != nil {
		t.Errorf("many at a time: %+v", many)
	}
}

func TestWhatFioCouldNotDoIsNoFigure(t *testing.T) {
	jobs := contest.Jobs{{Measure: contest.Reads, Size: 4096, Time: time.Millisecond}}
	for _, bad := range []string{
		"", "fio: engine nbd not loadable", "{", `{"jobs":[]}`,
		`{"jobs":[{"jobname":"reads:4096","error":5,"read":{"iops":9}}]}`,
		`{"jobs":[{"jobname":"reads:4096","error":0,"read":{"iops":0}}]}`,
		`{"jobs":[{"jobname":"fill","error":5},{"jobname":"reads:4096","error":0,"read":{"iops":9}}]}`,
	} {
		if _, err := parseFio(bad, jobs); err == nil {
			t.Errorf("%q was taken for figures", bad)
		}
	}
	latency := contest.Jobs{{Measure: contest.Latency, Size: 4096, Time: time.Millisecond}}
	for _, bins := range []string{`{}`, `{"soon":3}`} {
		if _, err := parseFio(`{"jobs":[{"jobname":"latency:4096","read":{"iops":9,"lat_ns":{"bins":`+bins+`}}}]}`, latency); err == nil {
			t.Errorf("bins %s were taken for a distribution", bins)
		}
	}
}

func TestFioFillsTheDeviceAndThenReadsAsDeepAsItIsTold(t *testing.T) {
	args := fioArgs("nbd://host:1", contest.PageJobs(50*time.Millisecond).Upto(contest.PageSize, contest.Latency, contest.Reads))
	line := strings.Join(args, " ")
	for _, want := range []string{"--uri=nbd://host:1 --size=8388608 --name=fill --rw=write", "--name=latency:4096 --stonewall --rw=randread --bs=4096 --iodepth=1 --time_based --runtime=50ms --ramp_time=5ms",
		"--name=reads:4096 --stonewall --rw=randread --bs=4096 --iodepth=32 "} {
		if !strings.Contains(line, want) {
			t.Errorf("fio is not told %q: %s", want, line)
		}
	}
	if i := slices.Index(args, "--name=fill"); i < 0 || i > slices.Index(args, "--name=latency:4096") {
		t.Errorf("the device is not filled first: %s", line)
	}
}
