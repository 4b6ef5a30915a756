package main

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/load"
	"github.com/weftnet/weft/internal/testenv"
)

// A proxy that a signal has stopped is alive, and its daemon says so. When it goes on, its
// connections carry all their bytes, as TCP's do. A proxy without patience gives the connections
// up.
func TestAStoppedProxyLosesNoConnection(t *testing.T) {
	server := echoServer(t).Addr().String()
	dir, nic := t.TempDir(), testenv.Loopback(t)
	a, b := filepath.Join(dir, "a.sock"), filepath.Join(dir, "b.sock")
	startNIC(t, "--socket", a, "--listen", nic)
	startNIC(t, "--socket", b, "--listen", "127.0.0.1:0", "--node", nic)
	stopped := startProxy(t, "--from", "web/0:x", "--to", server, "--socket", a, "--keepalive", "1s")
	dial := func(patience ...string) net.Conn {
		from := testenv.Loopback(t)
		runWeft(t, " carries connections from "+from, append([]string{"proxy", "--from", from, "--to", "web/0:x", "--name", "from/" + from[strings.LastIndex(from, ":")+1:],
			"--socket", b, "--drain", "0s", "--keepalive", "1s"}, patience...)...)
		c, err := net.Dial("tcp", from)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		echoed(t, c, "question")
		_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
		return c
	}
	idle, busy, impatient := dial(), dial(), dial("--patience", "0")

	sent := load.Written(24 << 20)
	wrote := make(chan error, 1)
	go func() {
		_, err := busy.Write(sent)
		wrote <- err
	}()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(busy, got[:1<<20]); err != nil {
		t.Fatal(err)
	}
	if err := stopped.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, stopped.Pid, nil, unix.WSTOPPED, nil); err != nil {
		t.Fatal(err)
	}
	_ = impatient.SetDeadline(time.Now().Add(patience))
	if _, err := impatient.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("a connection without patience: %v; expected a reset", err)
	}
	time.Sleep(3 * time.Second) // three more keepalive times
	if err := stopped.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(busy, got[1<<20:]); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("the busy connection: %v, all bytes as they were sent: %v", err, bytes.Equal(got, sent))
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	echoed(t, idle, "another")
}

// startProxy starts a proxy as a separate process.
func startProxy(t *testing.T, args ...string) *os.Process {
	t.Helper()
	var out, errs lockedBuffer
	c := exec.Command("/proc/self/exe", append([]string{"proxy"}, args...)...)
	c.Env, c.Stdout, c.Stderr = append(os.Environ(), asWeft+"=1"), &out, &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	for deadline := time.Now().Add(patience); !strings.Contains(out.String(), " carries connections from "); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no proxy: %s%s", out.String(), errs.String())
		}
	}
	return c.Process
}
