package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/freeport"
)

// One is told everything by flags, the other the most by its file.
func TestTwoNICsGossipAsTheCommandLineSays(t *testing.T) {
	dir := t.TempDir()
	key, file := filepath.Join(dir, "fabric.key"), filepath.Join(dir, "nic.toml")
	seed := freeport.Loopback(t)
	for path, text := range map[string]string{
		key:  "YSBmYWJyaWMga2V5IHRoYXQgaXMgbG9uZyBlbm91Z2g=\n",
		file: fmt.Sprintf("listen = \"127.0.0.1:0\"\n[gossip]\nlisten = \"127.0.0.1:0\"\nkey_file = %q\nfailure_timeout = \"20s\"\n", key),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, b := filepath.Join(dir, "a.sock"), filepath.Join(dir, "b.sock")
	startNIC(t, "--socket", a, "--listen", "127.0.0.1:0", "--gossip-key", key, "--gossip-listen", seed, "--id", "0:0:0:0:0:0:0:1")
	startNIC(t, "--socket", b, "--config", file, "--seed", seed, "--id", "0:0:0:0:0:0:0:2", "--failure-timeout", "5s")
	for socket, other := range map[string]string{a: "0:0:0:0:0:0:0:2", b: "0:0:0:0:0:0:0:1"} {
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

// The command that the help gives makes a key that the daemon takes, also where the user's files are readable for others.
func TestTheKeyThatTheHelpMakesIsTaken(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip(err)
	}
	_, help, _ := weft("nic", "--help")
	var command string
	for line := range strings.Lines(help) {
		if strings.Contains(line, "openssl rand") {
			command = strings.TrimSpace(line)
		}
	}
	x := exec.CommandContext(t.Context(), "sh", "-ec", "umask 022; "+command)
	x.Dir = t.TempDir()
	if out, err := x.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v %s", command, err, out)
	}
	if status, _, stderr := weft("nic", "--gossip-key", filepath.Join(x.Dir, "fabric.key"), "--listen", "127.0.0.1:0", "--check"); status != 0 {
		t.Errorf("after %s: %d %s", command, status, stderr)
	}
}
