package main

import (
	"encoding/json"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/testenv"
)

// iperf3 --bidir opens a connection for each direction, and tells them apart by their order.
func TestIperf3CarriesBothDirectionsThroughTwoProxies(t *testing.T) {
	iperf3, err := exec.LookPath("iperf3")
	if err != nil {
		t.Skip("iperf3 is not installed (Debian package iperf3)")
	}
	dir, nic, server, from := t.TempDir(), testenv.Loopback(t), testenv.Loopback(t), testenv.Loopback(t)
	_, port, _ := net.SplitHostPort(server)
	var said lockedBuffer
	s := exec.Command(iperf3, "-s", "-B", "127.0.0.1", "-p", port, "--forceflush")
	s.Stdout = &said
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Process.Kill(); s.Wait() })
	for deadline := time.Now().Add(patience); !strings.Contains(said.String(), "Server listening"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("iperf3 does not listen: %s", said.String())
		}
	}
	a, b := filepath.Join(dir, "a.sock"), filepath.Join(dir, "b.sock")
	startNIC(t, "--socket", a, "--listen", nic)
	startNIC(t, "--socket", b, "--listen", "127.0.0.1:0", "--node", nic)
	runWeft(t, " carries connections from web/0:x", "proxy", "--from", "web/0:x", "--to", server, "--socket", a, "--drain", "0s")
	runWeft(t, " carries connections from "+from, "proxy", "--from", from, "--to", "web/0:x", "--socket", b, "--drain", "0s")
	_, port, _ = net.SplitHostPort(from)
	for range 3 {
		out, err := exec.CommandContext(t.Context(), iperf3, "-c", "127.0.0.1", "-p", port, "--bidir", "-t", "1", "-J").Output()
		var said struct {
			Error string
			End   struct {
				There struct{ Bytes int64 } `json:"sum_received"`
				Back  struct{ Bytes int64 } `json:"sum_received_bidir_reverse"`
			}
		}
		if bad := json.Unmarshal(out, &said); bad != nil || err != nil {
			t.Fatalf("iperf3: %v, %v: %s", err, bad, out)
		}
		if said.End.There.Bytes == 0 || said.End.Back.Bytes == 0 {
			t.Errorf("%d bytes there and %d back, %s; expected some in both directions", said.End.There.Bytes, said.End.Back.Bytes, said.Error)
		}
	}
}
