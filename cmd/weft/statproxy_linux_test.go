package main

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/proxy"
	"github.com/weftnet/weft/internal/testenv"
)

// echoServer sends received bytes back, and ends each connection when its client does.
func echoServer(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go func() { io.Copy(c, c); c.Close() }()
		}
	}()
	return l
}

// echoed sends a word through a connection and expects it back.
func echoed(t *testing.T, c net.Conn, word string) {
	t.Helper()
	c.SetDeadline(time.Now().Add(patience))
	got := make([]byte, len(word))
	if _, err := io.WriteString(c, word); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, got); err != nil || string(got) != word {
		t.Fatalf("%q, %v; want %q", got, err, word)
	}
}

// A proxy lists its connections. On SIGTERM it accepts no more, and waits for the open ones.
func TestAProxyTellsItsConnectionsAndDrainsOnATermSignal(t *testing.T) {
	server, nic, clients := echoServer(t), testenv.Loopback(t), testenv.Loopback(t)
	status := filepath.Join(t.TempDir(), "proxy.sock")
	runWeft(t, "echo/0 carries connections from echo/0:x", "proxy", "--from", "echo/0:x", "--to", server.Addr().String(), "--listen", nic, "--drain", "1s")
	var out, errs lockedBuffer
	c := exec.Command("/proc/self/exe", "proxy", "--from", clients, "--to", "echo/0:x", "--listen", "127.0.0.1:0", "--node", nic, "--status", status, "--drain", "5m")
	c.Env, c.Stdout, c.Stderr = append(os.Environ(), asWeft+"=1"), &out, &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() { c.Process.Kill() })
	for deadline := time.Now().Add(patience); !strings.Contains(out.String(), "carries connections"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) || len(ended) > 0 {
			t.Fatalf("no proxy: %s%s", out.String(), errs.String())
		}
	}
	dial := func() (net.Conn, error) { return net.DialTimeout("tcp", clients, patience) }
	first, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	echoed(t, first, "hello")
	second, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	echoed(t, second, "good morning")

	said := func() (s proxy.Status) {
		t.Helper()
		code, stdout, stderr := weft("stat", "--proxy", status, "--json")
		if err := json.Unmarshal([]byte(stdout), &s); code != 0 || err != nil {
			t.Fatalf("status %d, %q, %q, %v", code, stdout, stderr, err)
		}
		return s
	}
	s := said()
	back := func() (n int64) {
		for _, x := range s.Connections {
			n += x.Back
		}
		return n
	}
	for deadline := time.Now().Add(patience); back() < 17 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		s = said() // an echo is counted after it was written, so the client may have it before
	}
	if s.PID != c.Process.Pid || s.Listener != clients || s.Counts.Accepted != 2 || s.Counts.Open != 2 || s.Counts.There != 17 || len(s.Connections) != 2 {
		t.Fatalf("the proxy tells %+v", s)
	}
	for i, own := range []net.Conn{first, second} {
		want := []int64{5, 12}[i]
		if x := s.Connections[i]; x.From != own.LocalAddr().String() || x.To != "echo/0:x" || x.There != want || x.Back != want || x.Since.IsZero() {
			t.Errorf("connection %d is %+v", i, x)
		}
	}
	if _, stdout, _ := weft("stat", "--proxy", status); !strings.Contains(stdout, "2 connections: 2 open") || !strings.Contains(stdout, first.LocalAddr().String()+" to echo/0:x for ") {
		t.Errorf("weft stat prints %q", stdout)
	}

	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		more, err := dial()
		if err != nil {
			break
		}
		more.Close()
		if time.Now().After(deadline) {
			t.Fatal("a proxy that drains takes connections")
		}
	}
	echoed(t, first, "still here")
	second.Close()
	for deadline := time.Now().Add(patience); len(said().Connections) != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the proxy tells %+v; want one connection", said())
		}
	}
	first.Close()
	select {
	case err := <-ended:
		if err != nil || !strings.Contains(out.String(), "connections: 0 failed to dial, 0 reset") {
			t.Errorf("the proxy ended with %v: %s%s", err, out.String(), errs.String())
		}
	case <-time.After(patience):
		t.Error("the proxy does not end")
	}
	if _, err := os.Stat(status); err == nil {
		t.Error("the proxy has left its socket behind")
	}
	if code, _, stderr := weft("stat", "--proxy", status); code != exitFailed || !strings.Contains(stderr, status) {
		t.Errorf("weft stat of a proxy that has ended: status %d, %q", code, stderr)
	}
}
