package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/testenv"
)

// One NIC gets all settings from flags, the other most of them from its file.
func TestTwoNICsGossipAsTheCommandLineSays(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "nic.toml")
	seed := testenv.Loopback(t)
	if err := os.WriteFile(file, []byte("listen = \"127.0.0.1:0\"\n[gossip]\nlisten = \"127.0.0.1:0\"\nfailure_timeout = \"20s\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, b := filepath.Join(dir, "a.sock"), filepath.Join(dir, "b.sock")
	idA, idB := nicIDAt(t, a), nicIDAt(t, b)
	startNIC(t, "--socket", a, "--listen", "127.0.0.1:0", "--gossip", "--gossip-listen", seed)
	startNIC(t, "--socket", b, "--config", file, "--seed", seed, "--failure-timeout", "5s")
	for socket, other := range map[string]string{a: idB, b: idA} {
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			status, out, stderr := weft("nodes", "--socket", socket)
			if status == 0 && strings.Contains(out, other) && strings.Contains(out, "up") {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("weft nodes --socket %s: %d %q %q; want %s to be up", socket, status, out, stderr, other)
			}
		}
	}
}

// The command that the help gives takes the fabric key to the other host. Here ssh runs the rest of
// its line with another file for the key, as on another host.
func TestTheLineOfTheHelpGivesTheOtherHostTheFabricKey(t *testing.T) {
	_, help, _ := weft("nic", "--help")
	_, command, found := strings.Cut(help, "host A (10.0.0.1):  ")
	command, _, _ = strings.Cut(command, "\n")
	if !found {
		t.Fatalf("the help has no line for host A:\n%s", help)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, here, there := t.TempDir(), filepath.Join(t.TempDir(), "fabric.key"), filepath.Join(t.TempDir(), "fabric.key")
	for name, script := range map[string]string{
		"weft": "#!/bin/sh\nexport " + asWeft + "=1\nexec " + self + " \"$@\"\n",
		"ssh":  "#!/bin/sh\nshift\nexport " + fabric.FileVariable + "=" + there + "\nexec \"$@\"\n",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	must(t, "fabric", "init", "--file", here)
	x := exec.CommandContext(t.Context(), "sh", "-ec", command)
	x.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), fabric.FileVariable+"="+here)
	if out, err := x.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v %s", command, err, out)
	}
	if a, b := must(t, "fabric", "show", "--file", here), must(t, "fabric", "show", "--file", there); a != b {
		t.Errorf("after %s the hosts have the keys %q and %q", command, a, b)
	}
	if status, _, stderr := weft("nic", "--key-file", there, "--listen", "127.0.0.1:0", "--socket", filepath.Join(bin, "nic.sock"), "--check"); status != 0 {
		t.Errorf("after %s: %d %s", command, status, stderr)
	}
}

// NICs with different fabric keys find no peer by gossip. The check once printed an empty table,
// and succeeded.
func TestTheCheckOfNodesTellsThatTheGossipHasAnotherKey(t *testing.T) {
	dir := t.TempDir()
	seed := testenv.Loopback(t)
	a, b := filepath.Join(dir, "a.sock"), filepath.Join(dir, "b.sock")
	keyA, keyB := filepath.Join(dir, "a.key"), filepath.Join(dir, "b.key")
	must(t, "fabric", "init", "--file", keyA)
	must(t, "fabric", "init", "--file", keyB)
	startNIC(t, "--socket", a, "--key-file", keyA, "--listen", "127.0.0.1:0", "--gossip", "--gossip-listen", seed)
	if status, out, stderr := weft("nodes", "--check", "--socket", a); status != 0 {
		t.Errorf("a NIC that no other calls fails the check: %d %q %q", status, out, stderr)
	}
	startNIC(t, "--socket", b, "--key-file", keyB, "--listen", "127.0.0.1:0", "--gossip-listen", "127.0.0.1:0", "--seed", seed)
	for socket, want := range map[string]string{
		a: "the gossip of others does not open with the fabric key of this NIC, ",
		b: seed + "  the seed has not let this NIC join the gossip: ",
	} {
		eventually(t, "the check tells of the key", func() bool {
			status, out, stderr := weft("nodes", "--check", "--socket", socket)
			return status == exitFailed && strings.Contains(out, want) && strings.Contains(out, "weft fabric show --fingerprint") &&
				stderr == "weft: 1 of 1 NICs failed the check\n"
		})
	}
	status, out, _ := weft("nodes", "--check", "--json", "--socket", b)
	if status != exitFailed || !strings.Contains(out, `"ok":false`) {
		t.Errorf("weft nodes --check --json: %d %q", status, out)
	}
}

// The check also names a seed that does not run.
func TestTheCheckOfNodesNamesASeedThatDoesNotAnswer(t *testing.T) {
	dir := t.TempDir()
	seed, socket := testenv.Loopback(t), filepath.Join(dir, "nic.sock")
	startNIC(t, "--socket", socket, "--listen", "127.0.0.1:0", "--gossip-listen", "127.0.0.1:0", "--seed", seed)
	eventually(t, "the check tells of the seed", func() bool {
		status, out, _ := weft("nodes", "--check", "--socket", socket)
		return status == exitFailed && strings.Contains(out, seed+"  the seed has not let this NIC join the gossip: ") && strings.Contains(out, "connection refused")
	})
}
