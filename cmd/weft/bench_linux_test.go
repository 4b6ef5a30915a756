package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/testbed"
)

func TestBenchWithDaemonsStartsThemAndLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	for _, kind := range []string{"latency", "rate", "bandwidth", "datagrams", "stream"} {
		for deployment, link := range map[string]string{"daemon": "udp", "shared": "none"} {
			all := rows(t, kind, "--deployment", deployment, "--size", "64", "--time", "20ms", "--json")
			if len(all) != 1 || all[0]["deployment"] != deployment || all[0]["link"] != link || all[0]["iterations"].(float64) < 1 {
				t.Errorf("%s: %v", kind, all)
			}
		}
	}
	leavesNothing(t, tmp)
}

func TestBenchAgainstTheLimitTellsTheRatio(t *testing.T) {
	lines := []string{"latency --link shm", "rate --link shm --size 0", "bandwidth --link shm", "bandwidth --link udp", "latency --link udp --deployment daemon",
		"latency --deployment shared", "rate --deployment shared", "bandwidth --deployment shared"}
	if err := testbed.Check(); err != nil {
		t.Log(err)
	} else {
		// The limit of 4 MiB does not retransmit its 2,900 frames, and the rings hold 512 of
		// them. It never ends if the two sides seldom run at the same time.
		if load := loadPerProcessor(t); load < 4 {
			lines = append(lines, "latency --testbed veth --link xdp --size 4MiB")
		} else {
			t.Logf("left out: the limit of AF_XDP for 4 MiB, since a processor has %.0f to run", load)
		}
		lines = append(lines, "rate --testbed veth --link udp", "rate --testbed veth --link xdp",
			"bandwidth --testbed veth --link xdp", "latency --testbed veth --link udp", "latency --testbed veth --link udp --size 256KiB --mtu 9000",
			// a frame may be longer than the largest piece that a driver takes
			"latency --testbed veth --link xdp --size 3000 --mtu 9000")
	}
	for i, line := range lines {
		if testing.Short() && i%3 != 0 { // -race makes each line several times as slow
			continue
		}
		args := strings.Fields(line)
		for _, r := range rows(t, append(args, "--against", "limit", "--rounds", "2", "--time", "20ms", "--json")...) {
			field := map[string]string{"latency": "p50_ns", "rate": "messages_per_s", "bandwidth": "bytes_per_s"}[args[0]]
			measured, _ := r[field].(float64)
			limit, _ := r["limit_"+field].(float64)
			ratio, _ := r["ratio"].(float64)
			each, _ := r["round_ratios"].([]any)
			if len(each) != 2 {
				t.Fatalf("%s: the ratios of two rounds are %v", line, each)
			}
			one, other := each[0].(float64), each[1].(float64)
			if ratio <= 0 || math.Abs((one+other)/2/ratio-1) > 1e-9 {
				t.Errorf("%s: %v is not the median of %v", line, ratio, each)
			}
			if measured <= 0 || limit <= 0 {
				t.Errorf("%s: %v, and the limit %v, in %v", line, measured, limit, r)
			}
		}
	}
}

// loadPerProcessor returns the number of runnable threads per processor in the last minute.
func loadPerProcessor(t *testing.T) (load float64) {
	t.Helper()
	b, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, err = fmt.Sscan(string(b), &load)
	}
	if err != nil {
		t.Fatal(err)
	}
	return load / float64(runtime.NumCPU())
}

// The warnings about a machine that spoils a run come first, on standard error. There they do
// not disturb programs that read the figures.
func TestEveryBenchWarnsOfWhatSpoilsIt(t *testing.T) {
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil || all.Count() < 2 {
		t.Skip("one processor, or ", err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	lines := []string{"latency --link mem", "rate --link mem", "bandwidth --link mem", "poll --processes 1", "idle --processes 1 --programs 1", "limits --only seal --rounds 1"}
	if testbed.Check() == nil {
		lines = append(lines, "loss --rounds 1")
	}
	t.Setenv(asWeft, "1")
	runtime.LockOSThread() // only this goroutine is pinned
	defer runtime.UnlockOSThread()
	defer unix.SchedSetaffinity(0, &all)
	for _, line := range lines {
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Fatal(err)
		}
		status, stdout, stderr := weft(append([]string{"bench"}, strings.Fields(line+" --time 10ms --json")...)...)
		if status != 0 || !strings.Contains(stderr, "weft: warning: pinned to 1 of ") || strings.Contains(stdout, "warning") {
			t.Errorf("%s: status %d; it says %q", line, status, stderr)
		}
	}
}

// The reason why a user may not use AF_XDP is printed once, even if another process has tried.
func TestBenchSaysWhyALinkCannotBeHad(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, deployment := range []string{"embedded", "daemon"} {
		c := exec.Command(self, "bench", "latency", "--testbed", "veth", "--link", "xdp", "--deployment", deployment, "--time", "1ms")
		c.Env = append(os.Environ(), asWeft+"=1")
		// the user may make hosts in its own namespaces, but may load no programs into the
		// kernel
		id := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: id}
		var stderr strings.Builder
		c.Stderr = &stderr
		if err := c.Start(); err != nil {
			t.Skip("no user namespace:", err)
		}
		err := c.Wait()
		said := stderr.String()
		if strings.Contains(said, testbed.ErrUnavailable.Error()) {
			t.Skip(said)
		}
		if n := strings.Count(said, "AF_XDP unavailable"); err == nil || n != 1 || !strings.Contains(said, "interface eth0: ") || !strings.Contains(said, "needs CAP_NET_ADMIN") {
			t.Errorf("%s: %v; it is said %d times that there is no AF_XDP: %s", deployment, err, n, said)
		}
		if deployment == "embedded" && (strings.Contains(said, "exit status") || strings.Count(said, "weft: ") != 1+strings.Count(said, "weft: warning: ")) {
			t.Errorf("it is said that a process of ours has ended: %s", said)
		}
	}
}

func TestBenchOfLossTellsWhatItCosts(t *testing.T) {
	if err := testbed.Check(); err != nil {
		t.Skip(err)
	}
	for _, line := range []string{"--loss 5%", "--link xdp --loss 0.01", "--deployment daemon"} {
		var r map[string]any
		file := filepath.Join(t.TempDir(), "x.hgrm")
		// a slow machine sends little in a short time, and may then lose nothing
		for d := 60 * time.Millisecond; ; d *= 4 {
			args := append([]string{"loss", "--hdr", file, "--testbed", "veth", "--size", "64KiB", "--rounds", "2", "--time", d.String(), "--json"}, strings.Fields(line)...)
			if r = rows(t, args...)[0]; r["lost"].(float64) > 0 || d > patience {
				break
			}
		}
		goodput, clean, ratio := r["bytes_per_s"].(float64), r["clean_bytes_per_s"].(float64), r["goodput_ratio"].(float64)
		each, _ := r["round_ratios"].([]any)
		if len(each) != 2 || goodput <= 0 || clean <= 0 || math.Abs(ratio/(each[0].(float64)+each[1].(float64))-0.5) > 1e-9 {
			t.Errorf("%s: %v is not the median of %v; %v, %v without loss", line, ratio, each, goodput, clean)
		}
		if r["p50_ns"].(float64) <= 0 || r["p99_ns"].(float64) < r["p50_ns"].(float64) || r["round_trips"].(float64) < 1 {
			t.Errorf("%s: round trips: %v", line, r)
		}
		count := fmt.Sprintf("Total count    = %12.0f]", r["round_trips"])
		if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), count) {
			t.Errorf("%s: %v; the distribution has not %s:\n%s", line, err, count, b)
		}
		if l := r["lost"].(float64); l <= 0 || l > 0.2 {
			t.Errorf("%s: a share of %v was lost", line, l)
		}
	}
}

func TestBenchOfIdleLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	for want, line := range map[float64]string{6: "--processes 6 --programs 2", 1: "--processes 1"} {
		r := rows(t, append([]string{"idle", "--time", "100ms", "--json"}, strings.Fields(line)...)...)[0]
		all, daemon, attached := r["core_fraction"].(float64), r["daemon_core_fraction"].(float64), r["attached_core_fraction"].(float64)
		if r["processes"] != want || daemon < 0 || attached < 0 || math.Abs(all-daemon-attached) > 1e-9 || r["seconds"].(float64) < 0.1 {
			t.Errorf("%s: %v", line, r)
		}
	}
	leavesNothing(t, tmp)
}

func TestBenchOfFairnessServesAllProcessesAndLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	all := rows(t, "fairness", "--processes", "6", "--programs", "2", "--size", "64KiB", "--time", "300ms", "--json")
	if len(all) != 1 || all[0]["bench"] != "fairness" || all[0]["processes"] != 6.0 || all[0]["size"] != 65536.0 {
		t.Fatalf("%v", all)
	}
	rate := func(f string) float64 { return all[0][f].(float64) }
	if j := rate("jain"); j <= 0 || j > 1 {
		t.Errorf("Jain's index is %v", j)
	}
	if least, most := rate("min_bytes_per_s"), rate("max_bytes_per_s"); least > rate("median_bytes_per_s") || rate("median_bytes_per_s") > most || 6*most < rate("bytes_per_s") {
		t.Errorf("the rates do not fit together: %v", all[0])
	}
	leavesNothing(t, tmp)
}

func TestBenchOfIncastStarvesNobody(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	all := rows(t, "incast", "--senders", "5", "--size", "256KiB", "--time", "500ms", "--json")
	if len(all) != 1 || all[0]["bench"] != "incast" || all[0]["senders"] != 5.0 || all[0]["size"] != 262144.0 {
		t.Fatalf("%v", all)
	}
	for _, f := range []string{"jain", "small_p50_ns", "small_p99_ns", "alone_p50_ns", "alone_p99_ns", "bytes_per_s"} {
		if n := all[0][f].(float64); n <= 0 || f == "jain" && n > 1 {
			t.Errorf("%s is %v", f, n)
		}
	}
	if _, ok := all[0]["drops"].(float64); !ok {
		t.Errorf("drops is %v", all[0]["drops"])
	}
	leavesNothing(t, tmp)
}

func TestNoProcessOutlivesABenchThatIsKilled(t *testing.T) {
	tmp := t.TempDir()
	c := exec.Command(os.Args[0], "bench", "latency", "--deployment", "daemon", "--time", "1m")
	c.Env = append(os.Environ(), asWeft+"=1", "TMPDIR="+tmp, "GORACE=atexit_sleep_ms=0")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	// The server and its daemon, the client's daemon, and the client.
	running := func() int { return len(processesWith(t, "TMPDIR="+tmp)) }
	await(t, "four processes", func() bool { return running() == 4 })
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	await(t, "no process", func() bool { return running() == 0 })
}

// The client in another process was in the middle of its work, and went on to the end of it.
func TestABenchEndsWhenItIsInterruptedThoughItsClientIsInAnotherProcess(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv(asWeft, "1")
	ctx, interrupt := context.WithCancel(t.Context())
	var stderr strings.Builder
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, strings.Fields("bench latency --apart --time 10m"), io.Discard, &stderr)
	}()
	await(t, "a server and a client", func() bool { return len(processesWith(t, "TMPDIR="+tmp)) == 2 })
	time.Sleep(500 * time.Millisecond) // until the measurement has begun
	interrupt()
	select {
	case status := <-ended:
		if status != exitFailed {
			t.Errorf("status %d: %s", status, &stderr)
		}
	case <-time.After(patience):
		t.Error("it goes on")
	}
}

// await waits for a condition that becomes true soon unless something is broken.
func await(t *testing.T, what string, come func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !come(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("there is still not: %s", what)
		}
	}
}
