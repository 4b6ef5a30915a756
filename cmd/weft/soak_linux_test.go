package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// soakMessages is how many messages go each way between the hosts of a testbed.
func soakMessages() string {
	if testing.Short() {
		return "500"
	}
	return "5000"
}

func TestSoakOverALossyNetworkComesThrough(t *testing.T) {
	for _, loss := range []string{"5%", "20%"} {
		r := testbedExec(t, "--hosts", "2", "--loss", loss, "--", "testdata/soak-host.sh", "--messages", soakMessages(), "--json")
		r.Env = append(r.Env, "WEFT="+os.Args[0])
		if status := r.status(t); status != 0 {
			t.Fatalf("%s: status %d: %s%s", loss, status, &r.stdout, &r.stderr)
		}
		lines := sorted(&r.stdout)
		if len(lines) != 2 {
			t.Fatalf("%s: output of %d lines, want one of each host: %q", loss, len(lines), lines)
		}
		for host, line := range lines {
			var report struct {
				Name     string
				Messages int
				Resent   int `json:"segments_sent_again"`
			}
			text, ok := strings.CutPrefix(line, fmt.Sprintf("[%d] ", host))
			if err := json.Unmarshal([]byte(text), &report); err != nil || !ok {
				t.Fatalf("%s: host %d prints %q: %v", loss, host, line, err)
			}
			if report.Name != fmt.Sprintf("soak/%d", host) || fmt.Sprint(report.Messages) != soakMessages() {
				t.Errorf("%s: host %d reports %+v", loss, host, report)
			}
			if report.Resent == 0 {
				t.Errorf("%s: nothing was sent again: there was no loss", loss)
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
