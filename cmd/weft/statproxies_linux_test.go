package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/proxy"
	"github.com/weftnet/weft/internal/testenv"
)

// foundProxies returns the proxies in dir that weft stat finds. Other proxies
// of this user may run on the machine.
func foundProxies(t *testing.T, dir string) (all []proxy.Found) {
	t.Helper()
	code, stdout, stderr := weft("stat", "--proxies", "--json")
	if code != 0 {
		t.Fatalf("status %d: %s", code, stderr)
	}
	for d := json.NewDecoder(strings.NewReader(stdout)); d.More(); {
		var f proxy.Found
		if err := d.Decode(&f); err != nil {
			t.Fatal(err)
		}
		if filepath.Dir(f.Socket) == dir {
			all = append(all, f)
		}
	}
	return all
}

// Proxies are found without a path. The list shows a running proxy's connections. A killed proxy
// is found by its socket, which is then removed.
func TestStatFindsProxiesAndTellsDeadOnesApart(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nic.sock")
	t.Setenv("WEFT_SOCKET", socket)
	dir := filepath.Join(filepath.Dir(socket), "proxies")
	startNIC(t, "--socket", socket, "--listen", "127.0.0.1:0")
	server := echoServer(t)
	runWeft(t, "echo/0 carries connections", "proxy", "--from", "echo/0:x", "--to", server.Addr().String(), "--drain", "1s")
	clients := testenv.Loopback(t)
	var out lockedBuffer
	c := exec.Command("/proc/self/exe", "proxy", "--from", clients, "--to", "echo/0:x")
	c.Env, c.Stdout, c.Stderr = append(os.Environ(), asWeft+"=1"), &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	for deadline := time.Now().Add(patience); !strings.Contains(out.String(), "carries connections"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no proxy: %s", out.String())
		}
	}
	all := foundProxies(t, dir)
	if len(all) != 2 || !all[0].Running || !all[1].Running || all[0].PID == all[1].PID {
		t.Fatalf("found %+v; want two that run", all)
	}
	if _, stdout, _ := weft("stat"); !strings.Contains(stdout, fmt.Sprintf("proxy %d at %s: 0 connections", c.Process.Pid, clients)) {
		t.Errorf("weft stat prints %q", stdout)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	dead := 0
	for _, f := range foundProxies(t, dir) {
		if f.Dead() && f.PID == c.Process.Pid {
			dead++
		}
	}
	if all := foundProxies(t, dir); dead != 1 || len(all) != 1 || !all[0].Running || all[0].PID == c.Process.Pid {
		t.Errorf("%d were told dead, and then found %+v; want one of each", dead, all)
	}
	// Any user could have put files into a directory that is not the user's alone.
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := weft("stat", "--proxies"); code != exitFailed || !strings.Contains(stderr, dir+" has mode 0755; expected 0700") {
		t.Errorf("status %d, %q", code, stderr)
	}
}
