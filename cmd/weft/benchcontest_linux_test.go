package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/testbed"
)

// contestCases returns the cases of the rows, each in the words of the flags.
func contestCases(t *testing.T, line string) (cases []string) {
	t.Helper()
	for _, r := range rows(t, append(strings.Fields(line), "--time", "40ms", "--rounds", "2", "--json")...) {
		cases = append(cases, fmt.Sprintf("%v %v %v %.0f×%.0f", r["against"], r["deployment"], r["over"], r["streams"], r["size"]))
		for _, field := range []string{"p50_ns", "p99_ns", "bytes_per_s", "tcp_p50_ns", "tcp_p99_ns", "tcp_bytes_per_s", "ratio_p50", "ratio_p99", "ratio_bytes"} {
			if x, _ := r[field].(float64); x <= 0 {
				t.Errorf("%s: %s is %v in %v", line, field, r[field], r)
			}
		}
		if r["p50_ns"].(float64) > r["p99_ns"].(float64) || r["sealed"] != (r["against"] == "tls") {
			t.Errorf("%s: %v", line, r)
		}
	}
	return cases
}

func TestBenchContendedHasARowForEachCase(t *testing.T) {
	got := contestCases(t, "contended --testbed loopback --hogs 1 --size 64,64KiB --streams 1,3 --against tcp,tls")
	var want []string
	for _, against := range []string{"tcp", "tls"} {
		for _, over := range []string{"message", "stream"} {
			for _, n := range []string{"1×64", "1×65536", "3×64", "3×65536"} {
				want = append(want, against+" embedded "+over+" "+n)
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows of %q, expected %q", got, want)
	}
}

func TestBenchStreamsMeasuresDaemonsBetweenTwoHosts(t *testing.T) {
	if err := testbed.Check(); err != nil {
		t.Skip(err)
	}
	got := contestCases(t, "streams --count 4 --size 1KiB,1MiB --deployment daemon")
	if want := []string{"tcp daemon stream 4×1024", "tcp daemon stream 4×1048576"}; !slices.Equal(got, want) {
		t.Errorf("rows of %q, expected %q", got, want)
	}
}

func TestContestsSayWhatIsWrong(t *testing.T) {
	for line, want := range map[string]string{
		"contended --hogs 2000":                   "expected a whole number from 0 to 1024",
		"contended --against udp":                 "expected some of tcp, tls",
		"contended --over tcp":                    "expected some of message, stream",
		"contended --streams 0":                   "expected whole numbers from 1 to 1024",
		"contended --streams 65":                  "expected at most 64",
		"contended --size 64,x":                   "expected numbers of bytes from 1 to",
		"contended --size 0":                      "expected numbers of bytes from 1 to",
		"contended --time 10ms":                   "expected at least 100ms",
		"contended --link xdp --testbed loopback": "expected --testbed veth",
		"contended --link xdp --against tcp,tls":  "expected one of each",
		"streams --count 1,":                      "expected whole numbers from 1 to 1024",
		"streams --hogs 2":                        "unknown flag: --hogs",
		"streams localhost":                       `arguments "localhost"`,
	} {
		status, stdout, stderr := weft(append([]string{"bench"}, strings.Fields(line)...)...)
		if status != exitUsage || !strings.Contains(stderr, want) || stdout != "" {
			t.Errorf("%s: status %d, standard error %q; expected %d and %q", line, status, stderr, exitUsage, want)
		}
	}
}
