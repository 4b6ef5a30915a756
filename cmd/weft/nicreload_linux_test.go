package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/testenv"
)

// reloadableNIC is a NIC with a configuration file that a test changes.
type reloadableNIC struct {
	t            *testing.T
	file, socket string
}

func startReloadable(t *testing.T, as func(*exec.Cmd), text string) (*reloadableNIC, *exec.Cmd) {
	t.Helper()
	dir := t.TempDir()
	n := &reloadableNIC{t, filepath.Join(dir, "nic.toml"), filepath.Join(dir, "nic.sock")}
	n.write(text)
	c, _ := startNICAs(t, as, "--config", n.file, "--socket", n.socket, "--listen", "127.0.0.1:0")
	return n, c
}

func (n *reloadableNIC) write(text string) {
	n.t.Helper()
	if err := os.WriteFile(n.file, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// says runs a command for the NIC, and checks its status and its whole output.
func (n *reloadableNIC) says(status int, want string, args ...string) {
	n.t.Helper()
	got, out, stderr := weft(append(args, "--socket", n.socket)...)
	if text := out + stderr; got != status || text != want {
		n.t.Errorf("weft %v: %d\n%s\nexpected %d\n%s", args, got, text, status, want)
	}
}

func TestWeftNICReloadTellsWhatHasChangedAndRefusesABrokenFile(t *testing.T) {
	n, _ := startReloadable(t, func(*exec.Cmd) {}, "mtu = 1400\n")
	n.says(0, "nothing has changed\n", "nic", "reload")
	n.write("mtu = 9000\nallow_gids = [77]\nlisten = \"127.0.0.9\"\n[[node]]\naddress = \"127.0.0.8:1\"\n")
	tail := "allow_gids: not set → [77]\n%snode: not set → 127.0.0.8:1\nneeds a restart: mtu: 1400 → 9000\n"
	n.says(0, "would apply: "+fmt.Sprintf(tail, "would apply: "), "nic", "reload", "--check")
	n.says(0, "applied: "+fmt.Sprintf(tail, "applied: "), "nic", "reload") // the flag overrides listen
	n.write("mtu = 9000\nlog = \"loud\"\n")
	n.says(exitFailed, fmt.Sprintf("weft: configuration %s, with the flags: line 2: log: \"loud\"; expected debug, info, warn, or error; "+
		"the NIC goes on with its configuration\n", n.file), "nic", "reload")
	n.write("mtu 9000\n")
	if status, _, stderr := weft("nic", "reload", "--socket", n.socket); status != exitFailed || !strings.Contains(stderr, "line 1: ") {
		t.Errorf("a file that is no TOML: %d %s", status, stderr)
	}
	if out := must(t, "nodes", "--socket", n.socket); !strings.Contains(out, "127.0.0.8:1") {
		t.Errorf("a refused reload has changed the nodes: %s", out)
	}
	if status, _, stderr := weft("nic", "--config", n.file, "--check-config"); status != exitUsage || !strings.Contains(stderr, "line 1: ") {
		t.Errorf("weft nic --check-config: %d %s", status, stderr)
	}
}

func TestWeftNodesAddAndRemoveChangeTheListOfTheRunningNIC(t *testing.T) {
	n, _ := startReloadable(t, func(*exec.Cmd) {}, "")
	peer := testenv.Loopback(t)
	startNIC(t, "--listen", peer, "--socket", filepath.Join(t.TempDir(), "peer.sock"))
	n.says(0, "", "nodes", "add", peer, "127.0.0.8:1")
	eventually(t, "the NIC has a session with the added one", func() bool {
		out := must(t, "nodes", "--socket", n.socket)
		return strings.Contains(out, " up ") && strings.Contains(out, "127.0.0.8:1")
	})
	n.says(exitFailed, "weft: in use: node 127.0.0.8:1 is in the list already\n", "nodes", "add", "127.0.0.8:1")
	n.says(0, "", "nodes", "remove", "127.0.0.8:1")
	n.says(exitFailed, "weft: no such NIC: the list of nodes has no 127.0.0.8:1; NICs that this one knows by gossip, "+
		"or from other NICs, are not in the list\n", "nodes", "remove", "127.0.0.8:1")
	eventually(t, "the NIC does not list the removed one", func() bool {
		return !strings.Contains(must(t, "nodes", "--socket", n.socket), "127.0.0.8:1")
	})
	if status, _, stderr := weft("nodes", "add", "--socket", n.socket); status != exitUsage || !strings.Contains(stderr, "[ID@]HOST[:PORT]") {
		t.Errorf("weft nodes add without a node: %d %s", status, stderr)
	}
}

// The daemon sends the messages of a service of Type=notify, also to an abstract socket.
func TestASupervisorHearsOfTheWholeLifeOfANIC(t *testing.T) {
	name := fmt.Sprintf("@weft-nic-test-%d", os.Getpid())
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// The queue of the socket is short. If it is full, the NIC drops its message after a second.
	heard := make(chan string, 1000)
	go func() {
		for b := make([]byte, 256); ; {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			heard <- string(b[:n])
		}
	}()
	// hears waits for a message. Others come before it only if they are of the watchdog.
	hears := func(want string) {
		t.Helper()
		for late := time.After(patience); ; {
			select {
			case got := <-heard:
				if strings.HasPrefix(got, want) {
					return
				}
				if got != "WATCHDOG=1" {
					t.Errorf("heard %q; expected %q", got, want)
				}
			case <-late:
				t.Fatalf("the NIC does not say %s", want)
			}
		}
	}
	n, nic := startReloadable(t, func(c *exec.Cmd) {
		c.Env = append(c.Env, "NOTIFY_SOCKET="+name, "WATCHDOG_USEC=300000")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}, "")
	hears("READY=1")
	hears("WATCHDOG=1")
	n.says(0, "nothing has changed\n", "nic", "reload")
	hears("RELOADING=1\nMONOTONIC_USEC=")
	hears("READY=1")
	hears("WATCHDOG=1")
	if err := nic.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	hears("STOPPING=1")
	if err := nic.Wait(); err != nil {
		t.Error(err)
	}
}
