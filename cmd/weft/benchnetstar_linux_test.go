package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/bench"
	"github.com/weftnet/weft/internal/testbed"
)

// netstarRows decodes the rows that a run prints.
func netstarRows(t *testing.T, out []byte) (all []bench.NetstarRow) {
	t.Helper()
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var r bench.NetstarRow
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

func TestBenchNetstarHasAFigureForEachClaim(t *testing.T) {
	t.Setenv(asWeft, "1") // for the processes that it starts
	status, stdout, stderr := weft("bench", "netstar", "--size", "64", "--time", "20ms", "--loss", "20%", "--json")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	var parts, recovered []string
	for _, r := range netstarRows(t, []byte(stdout)) {
		if !slices.Contains(parts, r.What) {
			parts = append(parts, r.What)
		}
		switch r.What {
		case bench.NetstarMessages:
			if b := r.Beside; b.MessageP50 <= 0 || b.TCPP50 <= 0 || b.MessageBytes <= 0 || b.TCPBytes <= 0 {
				t.Errorf("link %s: %+v", r.Link, *b)
			}
		case bench.NetstarCalls:
			checkCalls(t, r.How, r.Calls)
		case bench.NetstarLink:
			if r.OfLink.LinkMessages < 1 || r.Link == bench.LinkUDP && r.OfLink.Sender <= 0 {
				t.Errorf("%s over %s: %+v", r.How, r.Link, *r.OfLink)
			}
		case bench.NetstarCopies:
			checkCopies(t, &r)
		case bench.NetstarRecovery:
			checkRecovery(t, &r)
			recovered = append(recovered, r.How)
		case bench.NetstarTimer:
			if r.Timer.Each <= 0 || r.Timer.ToHotel <= 0 {
				t.Errorf("%s: %+v", r.How, *r.Timer)
			}
		case bench.NetstarTick:
			if r.Tick.TickP50 <= 0 || r.Tick.CallP50 <= 0 {
				t.Errorf("%+v", *r.Tick)
			}
		}
	}
	if want := []string{"messages, loopback", "messages", "TCP"}; lossyHosts() && !slices.Equal(recovered, want) {
		t.Errorf("recovery of %q; expected %q", recovered, want)
	}
	if !slices.Equal(parts, bench.NetstarParts()) {
		t.Errorf("there are figures of %v; expected %v", parts, bench.NetstarParts())
	}
}

// checkCopies checks counts of copies. A receiver's count may be larger, for a message that
// comes before its receive. A sender's may be larger, since a frame may be retransmitted.
func checkCopies(t *testing.T, r *bench.NetstarRow) {
	t.Helper()
	c, own := r.Copies, 1.0
	if r.Deployment == bench.DeployedEmbedded || r.How == "long, between regions" {
		own = 0
	}
	sender, receiver := own+1, own+1
	if r.Deployment == bench.DeployedShared {
		sender = own // the NIC copies once for both
	}
	// an embedded process also copies a message that cannot leave at once
	exact := r.Deployment != bench.DeployedEmbedded
	if c.CopiedMessages < 1 || c.SenderOwn < own || exact && c.SenderOwn != own || c.ReceiverOwn != own || c.Sender < sender || c.Receiver < receiver {
		t.Errorf("%s over %s, %s: %+v; expected %v copies of each process, and at least %v by the sender's side and %v by the receiver's", r.Deployment, r.Link, r.How, *c, own, sender, receiver)
	}
	if r.Link == bench.LinkNone && c.Sender != sender {
		t.Errorf("%s, %s: the sender's side copies %v times; expected %v", r.Deployment, r.How, c.Sender, sender)
	}
}

// lossyHosts reports whether hosts can be made here whose cable loses frames.
func lossyHosts() bool {
	tb, err := testbed.New(testbed.Config{Hosts: 2, Lossy: true})
	if err == nil {
		tb.Close()
	}
	return err == nil
}

// checkRecovery checks a row for which a fifth of the frames is lost. TCP's kernel does not tell
// why it has retransmitted a segment.
func checkRecovery(t *testing.T, r *bench.NetstarRow) {
	t.Helper()
	c := r.Recovery
	if c == nil {
		if r.Missing == "" || lossyHosts() {
			t.Errorf("no figure, since %q", r.Missing)
		}
		return
	}
	causes := c.ByTimer + c.ByTail + c.ByAck
	if r.How == "TCP" {
		causes = c.ByTCP
	}
	if c.Sent == 0 || c.Sent != causes || c.P999 < c.P50 || c.Delay < c.P50-c.CleanP50 {
		t.Errorf("%s, a fifth of the frames is lost: %+v", r.How, *c)
	}
}

// checkCalls checks the counts of one way. They must hold on a busy machine, too.
func checkCalls(t *testing.T, how string, c *bench.CallCounts) {
	t.Helper()
	switch {
	case c.Messages < int64(3*c.Burst):
		t.Errorf("%s: %d messages in bursts of %d", how, c.Messages, c.Burst)
	case how == "single, receiver sleeps" && c.Input <= 0:
		t.Errorf("%s: it was never woken", how)
	case how != "single, receiver sleeps" && c.Input != 0:
		t.Errorf("%s: %v system calls a message to receive; expected none (NETSTAR-20)", how, c.Input)
	case c.Output > 1 && c.Input == 0:
		t.Errorf("%s: %v system calls a message to send; expected one at most (NETSTAR-21)", how, c.Output)
	}
}

// The counts of a process equal those of the kernel.
func TestStraceSeesTheKicksThatAProcessCounts(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "calls")
	var stdout, stderr bytes.Buffer
	c := exec.Command(strace, "-f", "-y", "-e", "trace=write", "-e", "signal=none", "-o", file, self, "bench", "netstar", "--only", "calls", "--time", "20ms", "--json")
	c.Env = append(os.Environ(), asWeft+"=1")
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		if regexp.MustCompile(`(?i)ptrace|not permitted`).Match(stderr.Bytes()) {
			t.Skipf("tracing is not permitted: %s", stderr.String())
		}
		t.Fatalf("%v: %s", err, stderr.String())
	}
	all := netstarRows(t, stdout.Bytes())
	traced, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	writes := make(map[string]uint64) // by process and file descriptor
	for _, m := range regexp.MustCompile(`write\((\d+)<[^>]*eventfd[^>]*>`).FindAllSubmatch(traced, -1) {
		writes[string(m[1])]++
	}
	want := all[len(all)-1].Calls.Kicks
	// writes of the daemon, which is traced as well, into a file descriptor of that number
	const others = 8
	seen := false
	for _, n := range writes {
		seen = seen || n >= want && n <= want+others
	}
	if !seen || want == 0 {
		t.Errorf("the sender counts %d kicks; strace saw so many writes into eventfds, by descriptor: %v", want, writes)
	}
}

// Messages share cables of each rate with TCP, and use no more than the rate (NETSTAR-30).
func TestBenchNetstarMeasuresEachRate(t *testing.T) {
	if err := testbed.Check(); err != nil {
		t.Skip(err)
	}
	t.Setenv(asWeft, "1") // for the processes that it starts
	status, stdout, stderr := weft("bench", "netstar", "--rate", "100,300Mbit", "--size", "1024", "--time", "150ms", "--json")
	if strings.Contains(stderr, testbed.ErrUnavailable.Error()) {
		t.Skip(stderr)
	}
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	all := netstarRows(t, []byte(stdout))
	if len(all) != 2 || all[0].Rate != 100e6 || all[1].Rate != 300e6 {
		t.Fatalf("the rows are %+v; expected one for each rate", all)
	}
	for _, r := range all {
		b := r.Beside
		if b == nil || b.OfRate == nil {
			t.Fatalf("%+v has no figures", r)
		}
		const most = 1.2 // for the token bucket, and for last bytes that are counted early
		if r.What != bench.NetstarMessages || b.MessageShare <= 0 || b.MessageShare > most || b.TCPShare <= 0 || b.TCPShare > most {
			t.Errorf("%d bits per second: %+v, %+v", r.Rate, *b, *b.OfRate)
		}
		if want := int64(2 * 1024 * 8 * 1e9 / float64(r.Rate)); b.Wire != want {
			t.Errorf("%d bits per second: the bytes take %d ns both ways; expected %d", r.Rate, b.Wire, want)
		}
	}
}

func TestWrongRatesAreRefused(t *testing.T) {
	for line, want := range map[string]string{
		"bench netstar --rate 10":                             `invalid argument "10" for "--rate" flag: expected rates from 1Mbit to 10Gbit such as 100Mbit`,
		"bench netstar --rate 10Mbit --only tick":             "--rate with --only tick: expected messages alone",
		"bench netstar --rate 10Mbit --testbed loopback":      "--rate with --testbed loopback: expected --testbed veth or none",
		"testbed exec --rate 10,100,155Mbit -- true":          "--rate has 3 rates: expected one, or one for each of the 2 hosts",
		"testbed exec --rate 11Gbit --hosts 2 -- true":        `invalid argument "11Gbit" for "--rate" flag`,
		"testbed supervise --rate 10,100,155Mbit --on 0 true": "--rate has 3 rates",
	} {
		if status, _, stderr := weft(strings.Fields(line)...); status != exitUsage || !strings.HasPrefix(stderr, "weft: "+want) {
			t.Errorf("weft %s: status %d, %q; expected %d and %q", line, status, stderr, exitUsage, want)
		}
	}
}
