package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A socket that answers belongs to another proxy. A socket that does not answer was left by a
// killed proxy. Anything else must not be removed.
func TestAStatusSocketTakesThePlaceOfADeadOneAlone(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := &Proxy{Listener: l}
	path := filepath.Join(t.TempDir(), "a.sock")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	stop, err := p.Tell(path)
	if err != nil {
		t.Fatalf("where a dead proxy was: %v", err)
	}
	defer stop()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v; want the mode 0600", info, err)
	}
	if _, err := p.Tell(path); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("where a proxy is: %v", err)
	}
	if s, err := Ask(ctx, path); err != nil || s.Listener != l.Addr().String() || s.PID != os.Getpid() || len(s.Connections) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if b, err := json.Marshal(p.Status()); err != nil || !strings.Contains(string(b), `"connections":[]`) {
		t.Errorf("of no connections it tells %s, %v", b, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Tell(file); err == nil {
		t.Error("a file that is no socket gave way")
	}
	if b, err := os.ReadFile(file); string(b) != "mine" {
		t.Errorf("the file has %q, %v", b, err)
	}
}

// For a path that is too long the system reports only "invalid argument", and for a file there
// that it does not exist.
func TestAStatusSocketOfTooLongAPathIsRefusedWithTheNumbers(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("x", 108))
	want := " bytes; expected at most "
	if _, err := (&Proxy{}).Tell(path); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a proxy that is to tell there: %v; want %q", err, want)
	}
	if _, err := Ask(t.Context(), path); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("one that asks there: %v; want %q", err, want)
	}
}

// The process that listens at the socket may not be a proxy, and may wait for a request.
func TestAStatusThatDoesNotComeIsNoProxys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := Ask(ctx, path); !errors.Is(err, context.DeadlineExceeded) || !strings.HasSuffix(err.Error(), "; expected the socket of a proxy's --status") {
		t.Errorf("a socket that does not answer: %v", err)
	}
}

// lacking is a listener whose first Accepts fail for lack of file descriptors.
type lacking struct {
	net.Listener
	times int
}

func (l *lacking) Accept() (net.Conn, error) {
	if l.times > 0 {
		l.times--
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

func TestAProxyTellsItsStatusBehindALackOfDescriptors(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	path := filepath.Join(t.TempDir(), "a.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	p, ended := &Proxy{Listener: tcp}, make(chan bool)
	go func() { defer close(ended); p.tellAll(ctx, &lacking{l, 3}) }()
	if s, err := Ask(ctx, path); err != nil || s.PID != os.Getpid() {
		t.Errorf("%+v, %v", s, err)
	}
	l.Close()
	<-ended
}
