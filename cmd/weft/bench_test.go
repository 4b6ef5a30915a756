package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/testbed"
)

// patience bounds waits that end soon unless something is broken.
const patience = time.Minute

// rows runs a bench and reads the objects that it prints.
func rows(t *testing.T, args ...string) []map[string]any {
	t.Helper()
	t.Setenv(asWeft, "1") // for the processes that it starts
	// each child would sleep a second at its end if it looked for races
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	status, stdout, stderr := weft(append([]string{"bench"}, args...)...)
	if status != 0 {
		t.Fatalf("weft bench %s: status %d: %s", strings.Join(args, " "), status, stderr)
	}
	var all []map[string]any
	for line := range strings.Lines(stdout) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, r)
	}
	return all
}

func TestBenchPrintsOneObjectForEachSize(t *testing.T) {
	fields := map[string][]string{
		"latency":   {"bench", "deployment", "iterations", "link", "p50_ns", "p90_ns", "p999_ns", "p99_ns", "sealed", "size"},
		"rate":      {"bench", "deployment", "iterations", "link", "messages_per_s", "sealed", "size"},
		"bandwidth": {"bench", "bytes_per_s", "deployment", "iterations", "link", "sealed", "size"},
		"datagrams": {"bench", "deployment", "iterations", "link", "lost", "messages_per_s", "sealed", "size"},
		"stream": {"bench", "bytes_to_message", "bytes_to_tcp", "deployment", "echo_to_message", "echo_to_tcp", "iterations", "link", "message_bytes_per_s", "message_p50_ns", "sealed", "size",
			"stream_bytes_per_s", "stream_p50_ns", "tcp_bytes_per_s", "tcp_p50_ns"},
	}
	for _, kind := range []string{"latency", "rate", "bandwidth", "datagrams", "stream"} {
		links := []string{"mem", "shm", "udp"}
		if testing.Short() { // the race detector makes each several times as slow
			links = links[2:]
		}
		for _, link := range links {
			for _, r := range rows(t, kind, "--link", link, "--size", "64", "--time", "20ms", "--json") {
				if got := slices.Sorted(maps.Keys(r)); !slices.Equal(got, fields[kind]) {
					t.Errorf("%s has the fields %q, want %q", kind, got, fields[kind])
				}
				if r["bench"] != kind || r["link"] != link || r["deployment"] != "embedded" || r["size"] != 64.0 {
					t.Errorf("%s over %s is called %v", kind, link, r)
				}
				for _, f := range fields[kind] {
					if n, ok := r[f].(float64); ok && n <= 0 && f != "lost" {
						t.Errorf("%s over %s: %s is %v", kind, link, f, n)
					}
				}
			}
		}
	}
}

func TestBenchOfAllSizesHasARowForEach(t *testing.T) {
	all := rows(t, "latency", "--link", "mem", "--size", "all", "--time", "1ms", "--json")
	var sizes []int
	for _, r := range all {
		sizes = append(sizes, int(r["size"].(float64)))
	}
	if want := []int{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20}; !slices.Equal(sizes, want) {
		t.Errorf("sizes %v, want %v", sizes, want)
	}
}

func TestBenchPrintsColumns(t *testing.T) {
	status, stdout, stderr := weft("bench", "latency", "--link", "mem", "--size", "1KiB", "--time", "1ms")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if status != 0 || len(lines) != 4 || len(strings.Fields(lines[3])) != 7 || strings.Fields(lines[3])[0] != "1024" {
		t.Errorf("status %d, output:\n%s%s", status, stdout, stderr)
	}
}

func TestAPollOfIdleProcessesHasItsTime(t *testing.T) {
	all := rows(t, "poll", "--processes", "1,40", "--time", "5ms", "--json")
	if len(all) != 2 || all[0]["processes"] != 1.0 || all[1]["processes"] != 40.0 {
		t.Fatalf("%v; expected a row for 1 and one for 40", all)
	}
	for _, r := range all {
		if n := r["poll_ns"].(float64); n <= 0 || r["iterations"].(float64) <= 0 {
			t.Errorf("%v", r)
		}
	}
}

func TestTheDistributionOfRoundTripsIsWritten(t *testing.T) {
	for _, link := range []string{"mem", "shm"} {
		file := filepath.Join(t.TempDir(), "x.hgrm")
		// longer than the new contents
		if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		r := rows(t, "latency", "--link", link, "--time", "20ms", "--hdr", file, "--json")[0]
		b, err := os.ReadFile(file)
		count := fmt.Sprintf("Total count    = %12.0f]", r["iterations"])
		if text := string(b); err != nil || !strings.Contains(text, "Percentile") || !strings.Contains(text, count) || strings.Contains(text, "\x00") {
			t.Errorf("%s: %v; expected percentiles, and %s:\n%s", link, err, count, text)
		}
	}
}

func TestABenchThatFailsWritesNoDistribution(t *testing.T) {
	dir := t.TempDir()
	old, none := filepath.Join(dir, "old.hgrm"), filepath.Join(dir, "none.hgrm")
	if err := os.WriteFile(old, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{old, none} {
		if status, _, stderr := weft("bench", "latency", "--link", "xdp", "--hdr", file, "127.0.0.1:9"); status != exitFailed {
			t.Errorf("status %d: %s; expected %d, since loopback has no AF_XDP", status, stderr, exitFailed)
		}
	}
	if b, err := os.ReadFile(old); err != nil || string(b) != "old" {
		t.Errorf("what was there before is %q now, %v", b, err)
	}
	if _, err := os.Stat(none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v; expected no such file", none, err)
	}
}

// serve runs `weft bench latency --serve` as main does, and returns the port at which it waits.
func serve(t *testing.T, args ...string) (port string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	in, out := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"bench", "latency", "--serve", "--listen", "127.0.0.1:0"}, args...), out, os.Stderr)
		out.Close()
	}()
	t.Cleanup(func() {
		stop()
		select {
		case status := <-ended:
			if status != 0 {
				t.Errorf("the server ended with status %d", status)
			}
		case <-time.After(patience):
			t.Error("the server does not end")
		}
	})
	line, err := bufio.NewReader(in).ReadString('\n')
	go func() { _, _ = io.Copy(io.Discard, in) }()
	_, port, ok := strings.Cut(strings.TrimSpace(line), "THIS-HOST:")
	if err != nil || !ok {
		t.Fatalf("the server says %q: %v", line, err)
	}
	return port
}

func TestAServerServesOneClientAfterTheOther(t *testing.T) {
	port := serve(t)
	for _, kind := range []string{"latency", "rate", "bandwidth"} {
		if got := rows(t, kind, "--time", "5ms", "--json", "127.0.0.1:"+port); len(got) != 1 {
			t.Errorf("%s: %d rows", kind, len(got))
		}
	}
}

// The two sides may differ: the figures depend on both, and each side knows only its own link.
func TestTheOtherSidesLinkIsAskedAndPrinted(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there are no daemons on ", runtime.GOOS)
	}
	host := "127.0.0.1:" + serve(t)
	r := rows(t, "latency", "--deployment", "daemon", "--time", "5ms", "--json", host)[0]
	if far, _ := r["far"].(map[string]any); r["deployment"] != "daemon" || far["deployment"] != "embedded" || far["link"] != "udp" {
		t.Errorf("%v; expected a daemon here and an embedded NIC there", r)
	}
	status, stdout, stderr := weft("bench", "latency", "--deployment", "daemon", "--time", "5ms", host)
	for _, want := range []string{"# here link udp, NIC in a daemon; the other side is " + host + ", ", "\n# the other side says: link udp, NIC embedded\n"} {
		if status != 0 || !strings.Contains(stdout, want) {
			t.Errorf("status %d, %s\n%s; want %q", status, stdout, stderr, want)
		}
	}
}

func TestBenchMakesTheHostsThatItMeasuresOn(t *testing.T) {
	if err := testbed.Check(); err != nil {
		t.Skip(err)
	}
	for _, line := range []string{"--link udp", "--link udp --loss 5%", "--link udp --deployment daemon", "--link xdp", "--link xdp --deployment daemon --mtu 9000"} {
		got := rows(t, append([]string{"latency", "--testbed", "veth", "--time", "20ms", "--json"}, strings.Fields(line)...)...)
		if len(got) != 1 || got[0]["iterations"].(float64) < 1 || got[0]["link"] != strings.Fields(line)[1] {
			t.Errorf("%s: rows %v; expected one with iterations", line, got)
		}
	}
}

func TestBenchSaysWhatIsWrong(t *testing.T) {
	for line, want := range map[string]string{
		"bench":                                         "weft bench needs a subcommand: allreduce, bandwidth, barrier, broadcast, contended, datagrams, deaths, fairness, hostile, idle, incast, latency, limits, lines, loss, netstar, pagein, pageout, pages, parallel, poll, program, rate, starts, stream, streams, unread, vm",
		"bench latency --link tcp":                      `invalid argument "tcp" for "--link" flag: expected one of mem, shm, udp, xdp`,
		"bench rate --deployment here":                  `invalid argument "here" for "--deployment" flag: expected one of embedded, daemon, shared`,
		"bench rate --deployment shared --link udp":     "--deployment shared with --link udp: expected no link, since both processes have the same NIC",
		"bench rate --deployment shared --serve":        "--deployment shared with --serve or a host: expected neither",
		"bench rate --deployment shared 10.0.0.1":       "--deployment shared with --serve or a host: expected neither",
		"bench rate --deployment shared --testbed veth": "--deployment shared with --testbed veth: expected one or the other",
		"bench loss --deployment shared":                `invalid argument "shared" for "--deployment" flag: expected one of embedded, daemon`,
		"bench rate --size few":                         `invalid argument "few" for "--size" flag: expected a number of bytes from 0 to 67108864, such as 64, 4KiB or 1MiB, or all`,
		"bench rate --size -1":                          `invalid argument "-1" for "--size" flag: expected a number of bytes`,
		"bench bandwidth --size 0":                      `invalid argument "0" for "--size" flag: expected a number of bytes from 1 to 67108864, such as 64, 4KiB or 1MiB, or all`,
		"bench rate --size 65MiB":                       `invalid argument "65MiB" for "--size" flag: expected a number of bytes`,
		"bench rate --time 5":                           `invalid argument "5" for "--time" flag: expected a length of time`,
		"bench latency --link mem --deployment daemon":  "--deployment daemon with --link mem: expected embedded, since mem joins NICs of one process",
		"bench latency --link shm --deployment daemon":  "--deployment daemon with --link shm: expected embedded, since shm joins NICs embedded in processes of one host",
		"bench latency --link mem 10.0.0.1":             "a host (10.0.0.1:7710) with --link mem: expected --link udp",
		"bench latency --link mem --serve":              "--serve with --link mem: expected --link udp",
		"bench latency --testbed veth --link shm":       "--testbed veth with --link shm: expected udp or xdp, since shm joins NICs embedded in processes of one host",
		"bench latency --link xdp --against limit":      "--link xdp on this host: expected --testbed veth, --serve or a host",
		"bench latency --testbed veth 10.0.0.1":         "--testbed veth with --serve or a host: expected neither",
		"bench latency --loss 5%":                       "--loss or --mtu without --testbed veth: expected --testbed veth, too",
		"bench latency --link mem --against limit":      "--against limit with --link mem: expected shm, udp or xdp",
		"bench latency --against limit 10.0.0.1":        "--against limit with a host (10.0.0.1:7710): expected none",
		"bench rate --against limit --size 5MiB":        "--against limit with --size 5242880: expected at most 4194304",
		"bench datagrams --against limit":               "--against limit: expected none, since bench datagrams has no limit that is measured",
		"bench datagrams --size 32KiB":                  `invalid argument "32KiB" for "--size" flag: expected a number of bytes from 0 to `,
		"bench rate --rounds 3":                         "--rounds without --against or --sealed on,off: expected one of these, too",
		"bench latency --against limit --time 1ms":      "--time 1ms with --rounds 9: expected at least 45ms, or fewer rounds, since one has 5ms at least",
		"bench limits --only line --rounds 1000":        "--time 1s with --rounds 1000: expected at least 5s, or fewer rounds",
		"bench loss --time 249ms":                       "--time 249ms with --rounds 50: expected at least 250ms, or fewer rounds",
		"bench rate --serve --against limit":            "--serve with --against: expected one or the other",
		"bench rate --serve --size 64":                  "--serve with --json, --size or --time: expected none of them, since the client chooses what to measure",
		"bench rate --serve --time 1s":                  "--serve with --json, --size or --time: expected none of them",
		"bench rate --serve --json":                     "--serve with --json, --size or --time: expected none of them",
		"bench poll --processes 1,x":                    `invalid argument "1,x" for "--processes" flag: expected whole numbers from 1 to 4096`,
		"bench idle --processes 3 --programs 4":         "--programs 4 with --processes 3: expected at most as many programs as processes",
		"bench loss --testbed loopback":                 `invalid argument "loopback" for "--testbed" flag: expected one of veth`,
		"bench loss --link shm":                         `invalid argument "shm" for "--link" flag: expected one of udp, xdp`,
		"bench latency --size all --hdr x":              "--hdr with --serve or several sizes: expected a client, and one size",
		"bench latency --hdr /nowhere/x":                "--hdr: open /nowhere/x: no such file or directory",
		"bench latency --hdr=":                          `invalid argument "" for "--hdr" flag: expected the name of a file`,
		"bench latency --hdr /dev":                      "--hdr: open /dev: is a directory",
		"bench loss --hdr /nowhere/x":                   "--hdr: open /nowhere/x: no such file or directory",
		"bench latency --testbed veth --mtu 1279":       `invalid argument "1279" for "--mtu" flag: expected a whole number from 1280 to 65535`,
		"bench loss --mtu -5":                           `invalid argument "-5" for "--mtu" flag: expected a whole number from 1280 to 65535`,
		"bench limits --only line --mtu 65536":          `invalid argument "65536" for "--mtu" flag: expected a whole number from 1280 to 65535`,
		"bench loss --loss 100%":                        "--loss 100%: expected less, since no packet would arrive",
		"bench latency --testbed veth --loss 1":         "--loss 100%: expected less, since no packet would arrive",
		"bench rate --hdr x":                            "unknown flag: --hdr",
		"bench latency --serve 10.0.0.1":                "a host (10.0.0.1) with --serve: expected one or the other",
		"bench latency --listen 10.0.0.1:1":             "--listen 10.0.0.1:1 without --serve: expected both, since only --serve listens",
		"bench latency 10.0.0.1:x":                      `host "10.0.0.1:x": `,
		"bench fairness --processes 1":                  `invalid argument "1" for "--processes" flag: expected a whole number from 2 to 1024`,
		"bench fairness --size all":                     `invalid argument "all" for "--size" flag: expected a number of bytes from 1 to 67108864`,
		"bench limits --only fast":                      `invalid argument "fast" for "--only" flag: expected some of line, copy, `,
		"bench latency a b":                             `arguments "a" "b": expected weft bench latency [flags] [HOST]`,
	} {
		status, stdout, stderr := weft(strings.Fields(line)...)
		if status != exitUsage || !strings.HasPrefix(stderr, "weft: "+want) || stdout != "" {
			t.Errorf("weft %s: status %d, standard error %q; want %d and %q", line, status, stderr, exitUsage, want)
		}
	}
}

func TestAServerThatIsNotThereIsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("waits as long as a client does")
	}
	status, _, stderr := weft("bench", "latency", "--time", "1ms", "127.0.0.1:9")
	if status != exitFailed || !strings.Contains(stderr, "no server answers at 127.0.0.1:9; `weft bench latency --serve` starts one there") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// One side of a testbed cannot be told to start the other: the other was started first.
func TestAFarSideThatIsLostIsSaidToBe(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	var stderr strings.Builder
	status := run(ctx, strings.Fields("bench latency --child 127.0.0.1:9"), io.Discard, &stderr)
	said := stderr.String()
	if status != exitFailed || !strings.Contains(said, "the far side, started at 127.0.0.1:9, was lost: ") || strings.Contains(said, "--serve") {
		t.Errorf("status %d: %s", status, said)
	}
}
