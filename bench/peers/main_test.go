package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/bench/peers/internal/contest"
	"github.com/weftnet/weft/bench/peers/internal/gopeer"
	"github.com/weftnet/weft/bench/peers/internal/ground"
)

// TestMain makes this binary one from which contestants' processes can be started.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childWord {
		exit(beChild(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func short(t *testing.T, more ...string) *flags {
	t.Helper()
	f, err := parseFlags(append([]string{"--rounds", "2", "--time", "5ms", "--point", "2ms", "--weft", "/bin/false"}, more...))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestARunWritesAllOfItsResult(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	if err := run(t.Context(), short(t, "--only", "Go net TCP$", "--out", dir), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "peers.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r contest.Result
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	for _, c := range contest.Columns(contest.Host) {
		row, ok := r.Find("Go net TCP", contest.Host, 0, c.Measure, c.Size)
		if !ok || row.Value <= 0 || len(row.Rounds) != 2 {
			t.Errorf("%s of %d bytes: %+v", c.Measure, c.Size, row)
		}
	}
	if len(r.Failures) > 0 {
		t.Errorf("failures %+v", r.Failures)
	}
	if r.Machine.Cores < 1 || r.Machine.Kernel == "" || r.Commit == "" {
		t.Errorf("the machine is %+v, the commit %q", r.Machine, r.Commit)
	}
	for _, want := range []string{"Go net TCP", "Aeron", "GB/s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

func TestAContestantThatFailsEndsNothing(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), short(t, "--only", "Weft, shm|Go net UDP"), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "failed: Weft, shm, host, round 1: false: exit status 1") || !strings.Contains(out.String(), "Go net UDP") {
		t.Errorf("the table is\n%s", out.String())
	}
}

func TestAnInterruptedRunSaysSo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if err := run(ctx, short(t, "--only", "Go net UDP"), io.Discard, io.Discard); err == nil {
		t.Error("a run that was interrupted reports")
	}
}

// A contestant that is not installed is skipped with a line, and a run without contestants
// fails.
func TestWhoIsMissingIsSaid(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var out, said strings.Builder
	if err := run(t.Context(), short(t, "--only", "sockperf|UCX|Open MPI|libfabric|ZeroMQ|Redis|memcached|nbdkit|mem nbd|Go net UDP"), &out, &said); err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"sockperf", "UCX", "Open MPI", "libfabric", "ZeroMQ", "Redis", "memcached", "nbdkit", "Weft, mem nbd, udp"} {
		if !strings.Contains(said.String(), "peers: "+who+" is skipped: no ") || !strings.Contains(out.String(), "skipped: "+who+": no ") {
			t.Errorf("%s is missing, and that is not said: %s\n%s", who, &said, &out)
		}
	}
	for only, want := range map[string]string{"sockperf": "sockperf is skipped: no sockperf: apt-get install sockperf", "Carrier pigeon": "--only Carrier pigeon: no contestant has such a name"} {
		if err := run(t.Context(), short(t, "--only", only), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--only %s: %v; expected %q", only, err, want)
		}
	}
}

// wireguard-go makes a TUN device in each of two network namespaces. The messages in the tunnel
// arrive.
func TestTunnelsCarryMessagesBetweenTwoHosts(t *testing.T) {
	if s, err := ground.Between(false, 0); err != nil {
		t.Skip(err)
	} else if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, p := range gopeer.All() {
		if err := p.Available(); p.Tunnel && err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	if err := run(t.Context(), short(t, "--only", "^wireguard-go", "--rounds", "1", "--patience", "60s", "--out", dir), io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	var r contest.Result
	if err := readJSON(filepath.Join(dir, "peers.json"), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Failures) > 0 {
		t.Errorf("failures %+v", r.Failures)
	}
	for _, c := range []struct {
		name, measure string
		size          int
	}{{"wireguard-go, TCP", contest.Latency, 64}, {"wireguard-go, TCP", contest.Rate, 64}, {"wireguard-go, TCP", contest.Bandwidth, 1 << 20}, {"wireguard-go, UDP", contest.Latency, 64}, {"wireguard-go, UDP", contest.Latency, 4096}} {
		if row, _ := r.Find(c.name, contest.Veth, 0, c.measure, c.size); row.Value <= 0 || !row.Sealed {
			t.Errorf("%+v: row %+v", c, row)
		}
	}
	if who := r.SealedContestants(contest.Host); len(who) > 0 {
		t.Errorf("on one host, where a tunnel would change the machine's network, there are %v", who)
	}
}

// A binary that does not know --sealed does not end the run, and the rows say so.
func TestSealedWeftIsMeasuredWhenAsked(t *testing.T) {
	if s, err := ground.Between(false, 0); err != nil {
		t.Skip(err)
	} else if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	weft := fakeWeft(t, `case "$*" in *"--sealed on"*) echo "weft: unknown flag: --sealed" >&2; exit 2;; esac; exit 1`)
	for _, sealed := range []bool{false, true} {
		dir := t.TempDir()
		args := []string{"--only", "Weft, udp, sealed|Go net UDP", "--weft", weft, "--out", dir}
		if sealed {
			args = append(args, "--sealed")
		}
		if err := run(t.Context(), short(t, args...), io.Discard, io.Discard); err != nil {
			t.Fatal(err)
		}
		var r contest.Result
		if err := readJSON(filepath.Join(dir, "peers.json"), &r); err != nil {
			t.Fatal(err)
		}
		row, there := r.Find("Weft, udp, sealed", contest.Veth, 0, contest.Latency, contest.SmallSize)
		if there != sealed {
			t.Errorf("with sealed=%v, is there a row: %v", sealed, there)
		}
		if sealed && (!row.Sealed || !strings.Contains(row.Note, "this weft binary refuses --sealed on")) {
			t.Errorf("row %+v", row)
		}
		page, err := os.ReadFile(filepath.Join(dir, "peers.md"))
		if err != nil {
			t.Fatal(err)
		}
		if sealed && !strings.Contains(string(page), "- Weft, udp, sealed: not measured: this weft binary refuses --sealed on") {
			t.Errorf("the page does not say why:\n%s", page)
		}
	}
}

func TestALaterRunIsAddedToAnEarlierOne(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "peers.json")
	for _, args := range [][]string{{"--only", "Go net UDP|Go net TCP$"}, {"--only", "Go TLS|Go net UDP", "--add", file}} {
		if err := run(t.Context(), short(t, append(args, "--out", dir)...), io.Discard, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	var r contest.Result
	if err := readJSON(file, &r); err != nil {
		t.Fatal(err)
	}
	for name, later := range map[string]bool{"Go net TCP": false, "Go net UDP": true, "Go TLS over TCP": true} {
		row, ok := r.Find(name, contest.Host, 0, contest.Latency, contest.SmallSize)
		if !ok || row.Value <= 0 || (r.RunOf(name) >= 0) != later {
			t.Errorf("%s: row %+v of run %d", name, row, r.RunOf(name))
		}
	}
	if len(r.Added) != 1 || r.Added[0].Rounds != 2 || r.Added[0].Machine.Cores < 1 {
		t.Errorf("the later runs are %+v", r.Added)
	}
	if err := run(t.Context(), short(t, "--only", "Go net UDP", "--add", file+".gone"), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "--add: ") {
		t.Errorf("an earlier run that is not there: %v", err)
	}
}

// Every committed row says whether it is sealed, those of programs too.
func TestEveryCommittedRowHasSealed(t *testing.T) {
	for _, name := range []string{"peers.json", programsFile} {
		var r struct{ Rows, Elsewhere []map[string]any }
		if err := readJSON(filepath.Join("../../docs/performance", name), &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Rows) == 0 {
			t.Errorf("%s has no rows", name)
		}
		for _, row := range append(r.Rows, r.Elsewhere...) {
			if _, ok := row["sealed"].(bool); !ok {
				t.Errorf("%s: no sealed in %v", name, row)
			}
		}
	}
}

// All installed contestants that keep pages or blocks for another host do so.
func TestPagesAndBlocksAreReadFromAnotherHost(t *testing.T) {
	if testing.Short() {
		t.Skip("builds weft")
	}
	if s, err := ground.Between(false, 0); err != nil {
		t.Skip(err)
	} else if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	binary, err := weftBinary(t.Context(), "", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	f := short(t, "--only", "page-in|call|Redis|memcached|mem nbd|nbdkit", "--weft", binary, "--out", dir, "--patience", "60s", "--rounds", "1", "--time", "200ms")
	var out strings.Builder
	if err := run(t.Context(), f, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var r contest.Result
	if err := readJSON(filepath.Join(dir, "peers.json"), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Failures) > 0 {
		t.Errorf("failures %+v", r.Failures)
	}
	missing := make(map[string]bool)
	for _, s := range r.Skipped {
		t.Logf("%s is skipped: %s", s.Contestant, s.Why)
		missing[s.Contestant] = true
	}
	for measure, names := range map[string][]string{
		contest.Latency:   {"Weft, page-in, udp", "Weft, page-in, xdp", "Weft, call, udp", "Weft, call, xdp", "Redis", "memcached", "Weft, mem nbd, udp", "Weft, mem nbd, xdp", "nbdkit"},
		contest.Reads:     {"Weft, page-in, udp", "Weft, page-in, xdp", "Redis", "memcached", "Weft, mem nbd, udp", "Weft, mem nbd, xdp", "nbdkit"},
		contest.Bandwidth: {"Weft, page-in, udp", "Weft, page-in, xdp"},
	} {
		for _, name := range names {
			where := contest.Pages
			if strings.Contains(name, "nbd") {
				where = contest.Blocks
			}
			if row, _ := r.Find(name, where, 0, measure, contest.PageSize); row.Value <= 0 && !missing[name] {
				t.Errorf("%s has no %s of pages", name, measure)
			}
		}
	}
	if !strings.Contains(out.String(), "P19  a page of 4 KiB in, by that of a call, xdp") {
		t.Errorf("the goals are not printed:\n%s", out.String())
	}
}

func TestBadFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"more"}, {"--rounds", "0"}, {"--time", "1ns"}, {"--patience", "soon"}, {"--nice", "20"}, {"--add", "a.json", "--from", "b.json"}, {"--add", "a.json", "--programs"}} {
		if _, err := parseFlags(args); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

func TestWeftIsBuiltIfNoneIsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("builds weft")
	}
	binary, err := weftBinary(t.Context(), "", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got := commit(t.Context(), binary, false); got == "unknown" {
		t.Log("it does not say which commit it was built of") // for example without git
	} else if len(strings.TrimSuffix(got, "+")) != 12 {
		t.Errorf("it was built of commit %q", got)
	}
	if out, err := exec.Command(binary, "bench", "--help").CombinedOutput(); err != nil || !strings.Contains(string(out), "latency") {
		t.Errorf("weft bench --help: %v: %s", err, out)
	}
}

// The committed page is made from the committed figures, and not edited by hand.
func TestThePageIsThatOfItsFigures(t *testing.T) {
	const committed = "../../docs/performance"
	dir := t.TempDir()
	if err := again(&flags{from: filepath.Join(committed, "peers.json"), out: dir}, io.Discard); err != nil {
		t.Fatal(err)
	}
	files := asCommitted(t, dir, committed, "--from "+committed+"/peers.json")
	if len(files) < 10 {
		t.Errorf("%d files", len(files))
	}
}

func TestAResultThatCannotBeReadIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "peers.json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{file, file + ".gone"} {
		if err := again(&flags{from: from}, io.Discard); err == nil {
			t.Errorf("%s was read", from)
		}
	}
}

// asCommitted compares the made files with the committed ones, and returns the made files. args
// are the program's arguments that make them.
func asCommitted(t *testing.T, made, committed, args string) []os.DirEntry {
	t.Helper()
	files, err := os.ReadDir(made)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		now, err1 := os.ReadFile(filepath.Join(made, f.Name()))
		there, err2 := os.ReadFile(filepath.Join(committed, f.Name()))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(now, there) {
			t.Errorf("%s is not what is made of the figures: go run . %s --out %s", f.Name(), args, committed)
		}
	}
	return files
}
