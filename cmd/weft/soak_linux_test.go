package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// soakMessages returns how many messages go each way between the hosts of a testbed.
func soakMessages() string {
	if testing.Short() {
		return "500"
	}
	return "5000"
}

func TestSoakOverALossyNetworkComesThrough(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"udp 5%", "udp 20%", "xdp 5%", "xdp 20%"} {
		link, loss, _ := strings.Cut(line, " ")
		r := testbedExec(t, "--hosts", "2", "--loss", loss, "--", "testdata/soak-host.sh", "--messages", soakMessages(), "--json")
		r.Env = append(r.Env, "WEFT="+os.Args[0], "WEFT_LINK="+link)
		status := r.status(t)
		if strings.Contains(r.stderr.String(), "AF_XDP unavailable") {
			t.Log("passed over:", &r.stderr)
			continue
		}
		if status != 0 {
			t.Fatalf("%s: status %d: %s%s", line, status, &r.stdout, &r.stderr)
		}
		lines := sorted(&r.stdout)
		if len(lines) != 2 {
			t.Fatalf("%s: output of %d lines, want one of each host: %q", line, len(lines), lines)
		}
		for host, out := range lines {
			var report struct {
				Name     string
				Messages int
				Resent   int `json:"segments_sent_again"`
			}
			text, ok := strings.CutPrefix(out, fmt.Sprintf("[%d] ", host))
			if err := json.Unmarshal([]byte(text), &report); err != nil || !ok {
				t.Fatalf("%s: host %d prints %q: %v", line, host, out, err)
			}
			if report.Name != fmt.Sprintf("soak/%d", host) || fmt.Sprint(report.Messages) != soakMessages() {
				t.Errorf("%s: host %d reports %+v", line, host, report)
			}
			if report.Resent == 0 {
				t.Errorf("%s: nothing was sent again: there was no loss", line)
			}
		}
	}
}

func TestGoodputUnderLossIsPrintedBesideThatWithout(t *testing.T) {
	e := testbedExec(t, "--") // for its checks and its environment
	e.Path, e.Args = "testdata/goodput.sh", []string{"goodput.sh", "0.0001%", "1%"}
	e.Env = append(e.Env, "WEFT="+os.Args[0], "MESSAGES="+soakMessages())
	if status := e.status(t); status != 0 {
		t.Fatalf("status %d: %s%s", status, &e.stdout, &e.stderr)
	}
	t.Logf("\n%s", &e.stdout)
	row := `\n +%s%% +[\d.]+ +[\d.]+ MB/s +\d+ %% +[\d.]+ %%`
	want := regexp.MustCompile(`^    loss ` + `.*` + fmt.Sprintf(row, `0\.0001`) + fmt.Sprintf(row, `1`) + `\n$`)
	if !want.Match(e.stdout.Bytes()) {
		t.Errorf("output:\n%s", &e.stdout)
	}
}

func TestSoakJoinsNICsInSharedMemory(t *testing.T) {
	name := fmt.Sprintf("shm:%s-%d", t.Name(), os.Getpid())
	for _, o := range soakBetween(t, name, name+"-peer", name, "--messages", "20") {
		if !strings.Contains(o, "20 messages each way arrived once, in order and intact\n") {
			t.Errorf("output:\n%s", o)
		}
	}
	for line, want := range map[string]string{
		"--listen shm:a --node 127.0.0.1:1": "--node 127.0.0.1:1 with --listen shm:a: expected shm:NAME in both or in neither, ",
		"--listen 127.0.0.1:0 --node shm:a": "--node shm:a with --listen 127.0.0.1:0: expected shm:NAME in both or in neither, ",
		"--listen shm:a --node shm:":        `--node: "shm:": not an address of shared memory; expected "shm:" and a name`,
	} {
		status, _, stderr := weft(append([]string{"soak", "--name", "soak/0", "--peer", "soak/1"}, strings.Fields(line)...)...)
		if status != exitUsage || !strings.HasPrefix(stderr, "weft: "+want) {
			t.Errorf("weft soak %s: status %d, %s; want %d and %q", line, status, stderr, exitUsage, want)
		}
	}
}
