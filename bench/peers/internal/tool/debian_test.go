package tool

import (
	"errors"
	"flag"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/bench/peers/internal/contest"
	"github.com/weftnet/weft/bench/peers/internal/ground"
)

func near(got, want float64) bool { return math.Abs(got-want) <= 0.001*want }

func TestSockperfIsRead(t *testing.T) {
	s, err := parseSockperf(recorded(t, "sockperf-ping-pong.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if s.Measure != contest.Latency || s.Value != 11767 || s.Steps.Total() != 41853 {
		t.Errorf("round trips: %s of %v ns, %d of them", s.Measure, s.Value, s.Steps.Total())
	}
	for p, want := range map[float64]float64{25: 11026, 90: 15082, 99: 19839, 99.9: 95230, 100: 455954} {
		if got := s.Steps.At(p); !near(got, want) {
			t.Errorf("percentile %v is %v ns, want %v", p, got, want)
		}
	}
	for _, bad := range []string{"", "sockperf: No messages were sent", "Total 10 observations"} {
		if _, err := parseSockperf(bad); err == nil {
			t.Errorf("%q was taken for figures", bad)
		}
	}
}

func TestUCXIsRead(t *testing.T) {
	samples, err := parseUCX(recorded(t, "ucx.csv"))
	if err != nil {
		t.Fatal(err)
	}
	want := []contest.Sample{{Measure: contest.Latency, Size: 64, Value: 370}, {Measure: contest.Latency, Size: 4096, Value: 1474},
		{Measure: contest.Rate, Size: 64, Value: 3340691}, {Measure: contest.Bandwidth, Size: 1 << 20, Value: 11053 * (1 << 20)}}
	if len(samples) != len(want) {
		t.Fatalf("%d samples, want %d", len(samples), len(want))
	}
	for i, w := range want {
		if g := samples[i]; g.Measure != w.Measure || g.Size != w.Size || !near(g.Value, w.Value) {
			t.Errorf("sample %d is %+v, want %+v", i, g, w)
		}
	}
	if _, err := parseUCX("latency:64,1,2\n"); err == nil {
		t.Error("a line that was cut off was taken for figures")
	}
	if samples, err := parseUCX(""); err != nil || len(samples) > 0 {
		t.Errorf("nothing became %v, error %v", samples, err)
	}
}

func TestUCXIsToldEachJobByItsName(t *testing.T) {
	jobs := contest.FullJobs(200*time.Millisecond, 40*time.Millisecond)
	lines := strings.Split(strings.TrimSpace(ucxBatch(jobs, false)), "\n")
	if len(lines) != len(jobs) || !strings.HasPrefix(lines[0], "latency:64 -t tag_lat -s 64 -n ") {
		t.Errorf("%d lines for %d jobs, the first %q", len(lines), len(jobs), lines[0])
	}
	for _, line := range lines {
		if strings.Contains(line, "-n 0") {
			t.Errorf("%q does nothing", line)
		}
	}
}

func TestLibfabricIsRead(t *testing.T) {
	one, err := parsePingpong(recorded(t, "fi_pingpong.txt"))
	if err != nil || one != 105010*time.Nanosecond {
		t.Errorf("%v, error %v", one, err)
	}
	for _, bad := range []string{"", "bytes   #sent\n64 20\n", "bytes usec/xfer\n64 0.00\n"} {
		if _, err := parsePingpong(bad); err == nil {
			t.Errorf("%q was taken for figures", bad)
		}
	}
}

func TestProgramsInCTellTheirSamplesAsThoseInGoDo(t *testing.T) {
	samples, err := parseSamples(recorded(t, "zmq.jsonl"))
	if err != nil || len(samples) != 2 {
		t.Fatalf("%d samples, error %v", len(samples), err)
	}
	if s := samples[0]; s.Measure != contest.Latency || s.Steps.Total() < 100 || !near(s.Steps.At(50), s.Value) {
		t.Errorf("the median of %d round trips is %v, told %v", s.Steps.Total(), s.Steps.At(50), s.Value)
	}
	if s := samples[1]; s.Measure != contest.Rate || s.Size != 64 {
		t.Errorf("sample %+v", s)
	}
}

// If there is a compiler, the sources must compile without warnings. The libraries need not be
// installed.
func TestWhatNeedsNoLibraryCompiles(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip(err)
	}
	source := filepath.Join(t.TempDir(), "try.c")
	const text = "#include \"measure.h\"\nint main(int argc, char **argv) { struct peer p = { 0, 0 }; if (argc > 1) measure(&p, argv[1]); return 0; }\n"
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(gcc, "-Wall", "-Wextra", "-Werror", "-I", "csrc", "-o", source+".out", source).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestWhatIsNotInstalledIsSaidToBeMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir := t.TempDir()
	for name, find := range map[string]func() error{
		"apt-get install sockperf":      func() error { _, err := NewSockperf(); return err },
		"apt-get install ucx-utils":     func() error { _, err := NewUCX(dir); return err },
		"apt-get install libfabric-bin": func() error { _, err := NewLibfabric(); return err },
		"libopenmpi-dev":                func() error { _, err := NewOpenMPI(t.Context(), dir); return err },
		"libzmq3-dev":                   func() error { _, err := NewZeroMQ(t.Context(), dir); return err },
		"apt-get install redis-server":  func() error { _, err := NewRedis(); return err },
		"apt-get install memcached":     func() error { _, err := NewMemcached(); return err },
		"apt-get install nbdkit":        func() error { _, err := NewNbdkit(); return err },
		"apt-get install fio":           func() error { _, err := NewFio(nil); return err },
	} {
		if err := find(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("expected %q, got %v", name, err)
		}
	}
}

func TestALibraryWithoutHeadersIsMissing(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip(err)
	}
	source := filepath.Join(t.TempDir(), "x.c")
	if err := os.WriteFile(source, []byte("#include <no-such-header.h>\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := compiles(t.Context(), "libnone-dev", "gcc", "-o", source+".out", source)
	if err == nil || !strings.Contains(err.Error(), "no-such-header.h") || !strings.HasSuffix(err.Error(), "apt-get install libnone-dev") {
		t.Errorf("error %v", err)
	}
}

var installed = flag.Bool("installed", false, "run the programs that are installed")

// If the programs are installed, they print the same format as the recorded output.
func TestInstalledOnesDoASmallJob(t *testing.T) {
	if !*installed {
		t.Skip("needs -args -installed, and a machine that does nothing else: some of them spin and never yield")
	}
	jobs := contest.HeadJobs(5 * time.Millisecond)
	try := func(name string, err error, run func() ([]contest.Sample, error), want int) {
		t.Run(name, func(t *testing.T) {
			if err != nil {
				t.Skip(err)
			}
			samples, err := run()
			if err != nil || len(samples) != want {
				t.Errorf("%d samples, want %d; error %v", len(samples), want, err)
			}
		})
	}
	z, err := NewZeroMQ(t.Context(), t.TempDir())
	try("ZeroMQ", err, func() ([]contest.Sample, error) { return z.Run(t.Context(), ground.Here(), jobs) }, 3)
	m, err := NewOpenMPI(t.Context(), t.TempDir())
	try("Open MPI", err, func() ([]contest.Sample, error) { return m.Run(t.Context(), ground.Here(), jobs) }, 3)
	u, err := NewUCX(t.TempDir())
	try("UCX", err, func() ([]contest.Sample, error) { return u.Run(t.Context(), ground.Here(), jobs) }, 3)
	f, err := NewLibfabric()
	try("libfabric", err, func() ([]contest.Sample, error) {
		return f.Run(t.Context(), ground.Here(), jobs.Upto(1<<20, LibfabricMeasures()...))
	}, 2)
	d, missing := NewNbdkit()
	n, err := NewFio(d)
	try("nbdkit", errors.Join(missing, err), func() ([]contest.Sample, error) {
		return n.Run(t.Context(), ground.Here(), contest.PageJobs(50*time.Millisecond).Upto(contest.PageSize, contest.Latency, contest.Reads))
	}, 2)
	s, err := NewSockperf()
	try("sockperf", err, func() ([]contest.Sample, error) {
		return s.Run(t.Context(), ground.Here(), jobs.Upto(64, contest.Latency))
	}, 1)
}
