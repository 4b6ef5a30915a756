package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	weftlib "github.com/weftnet/weft"
)

// One daemon has the links fast0 and slow0. Each tool asks the link whose name follows the
// socket (NETSTAR-8).
func TestToolsAskTheLinkBehindTheSocket(t *testing.T) {
	dir := t.TempDir()
	socket, file := filepath.Join(dir, "a.sock"), filepath.Join(dir, "nic.toml")
	if err := os.WriteFile(file, []byte("link = \"fast0\"\n[links.fast0]\nlisten = \"127.0.0.1:0\"\n[links.slow0]\nlisten = \"127.0.0.1:0\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	nic, log := startNIC(t, "--config", file, "--link", "fast0,slow0", "--socket", socket)
	p, err := weftlib.Attach(t.Context(), weftlib.AttachConfig{Socket: socket, Link: "slow0", Name: weftlib.Name{App: "p"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	status, out, stderr := weft("nic", "links", "--socket", socket)
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if status != 0 || len(lines) != 3 {
		t.Fatalf("weft nic links: %d %q %q", status, out, stderr)
	}
	for i, want := range []string{"LINK KIND NIC ADDRESS PROCESSES", "fast0 udp " + nicIDAt(t, socket), "slow0 udp " + p.Address().NIC.String()} {
		if got := strings.Join(strings.Fields(lines[i]), " "); !strings.HasPrefix(got, want) {
			t.Errorf("line %d of weft nic links is %q; expected %q", i, got, want)
		}
	}
	if status, out, stderr := weft("nic", "links", "--json", "--socket", socket); status != 0 || strings.Count(out, "\n") != 2 || !strings.Contains(out, `{"name":"slow0","kind":"udp","nic":"`) {
		t.Errorf("weft nic links --json: %d %q %q", status, out, stderr)
	}
	for _, c := range []struct {
		line []string
		want string
	}{
		{[]string{"stat", "--socket", socket}, " over fast0 (udp)"},
		{[]string{"stat", "--socket", socket + "#slow0"}, " over slow0 (udp)"},
		{[]string{"stat", "--json", "--socket", socket + "#slow0"}, `"network":"slow0","link":"udp"`},
		{[]string{"ps", "--socket", socket + "#slow0"}, "\np/0 "},
		{[]string{"nodes", "--socket", socket + "#slow0"}, "NIC"},
		{[]string{"program", "list", "--socket", socket + "#slow0"}, ""},
	} {
		if status, out, stderr := weft(c.line...); status != 0 || !strings.Contains(out, c.want) {
			t.Errorf("weft %s: %d %q %q; expected %q", strings.Join(c.line, " "), status, out, stderr, c.want)
		}
	}
	if _, out, _ := weft("ps", "--socket", socket); strings.Contains(out, "p/0") {
		t.Errorf("fast0 lists the process of slow0: %q", out)
	}
	if status, _, stderr := weft("ps", "--socket", socket+"#fast7"); status != exitFailed || !strings.Contains(stderr, `"fast7"; this daemon has fast0, slow0`) {
		t.Errorf("a link that is not there: %d %q", status, stderr)
	}
	if status, _, stderr := weft("nic", "stop", "--socket", socket+"#slow0"); status != 0 {
		t.Errorf("weft nic stop: %d %q", status, stderr)
	}
	if err := nic.Wait(); err != nil || strings.Count(log.String(), "going down") != 2 {
		t.Errorf("the NIC ended with %v: %s", err, log.String())
	}
}

// A job runs on the link of its machine, or of --link: its ranks attach there (NETSTAR-8).
func TestAJobRunsOnTheLinkOfItsMachine(t *testing.T) {
	dir := t.TempDir()
	socket, file := filepath.Join(dir, "a.sock"), filepath.Join(dir, "nic.toml")
	if err := os.WriteFile(file, []byte("[links.fast0]\nlisten = \"127.0.0.1:0\"\n[links.slow0]\nlisten = \"127.0.0.1:0\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	startNIC(t, "--config", file, "--link", "fast0,slow0", "--socket", socket)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := weft("machine", "create", "slow", "--nodes", host, "--link", "slow0", "--socket", socket); status != 0 {
		t.Fatalf("weft machine create: %d %q", status, stderr)
	}
	if status, out, stderr := weft("machine", "show", "slow", "--socket", socket); status != 0 || strings.Contains(out, "no such NIC") {
		t.Errorf("weft machine show: %d %q %q", status, out, stderr)
	}
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"-m", "slow"}, socket + "#slow0 slow0\n"},
		{[]string{"--link", "slow0"}, socket + "#slow0 slow0\n"},
		{[]string{"--link", "fast0"}, socket + " fast0\n"},
		{nil, socket + " \n"},
	} {
		args := append(append([]string{"--socket", socket, "-n", "1"}, c.flags...), "--", "/bin/sh", "-c", `echo "$WEFT_SOCKET $WEFT_LINK"`)
		if status, out, stderr := weftRun(t, args...).end(t); status != 0 || out != c.want {
			t.Errorf("weft run %q: %d %q %q; expected %q", c.flags, status, out, stderr, c.want)
		}
	}
	status, _, stderr := weftRun(t, "--socket", socket, "-n", "1", "--link", "fast7", "--", "/bin/true").end(t)
	if status == 0 || !strings.Contains(stderr, `"fast7"; this daemon has fast0, slow0`) {
		t.Errorf("weft run --link fast7: %d %q", status, stderr)
	}
}
