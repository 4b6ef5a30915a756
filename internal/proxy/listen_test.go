package proxy_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/proxy"
)

func TestAProxyListensWhereOneWasKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	l, err := proxy.Listen("unix", path)
	if err != nil {
		t.Fatalf("where a proxy was killed: %v", err)
	}
	defer l.Close()
	if other, err := proxy.Listen("unix", path); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("where one listens: %v, %v", other, err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the one that listens has lost its socket: %v", err)
	}
	c.Close()
}

// The server would dial for a connection that only checks whether the server is running.
func TestASecondServerOfASocketIsRefusedAndTheFirstAcceptsNothing(t *testing.T) {
	for _, network := range []string{"unix", "unixpacket"} {
		if network == "unixpacket" && runtime.GOOS != "linux" {
			continue
		}
		path := filepath.Join(t.TempDir(), "a.sock")
		l, err := proxy.Listen(network, path)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if other, err := proxy.Listen(network, path); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%s: a second server: %v, %v; expected %v", network, other, err, syscall.EADDRINUSE)
		}
		if err := proxy.Free(network, path); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%s: Free: %v; expected %v", network, err, syscall.EADDRINUSE)
		}
		if err := l.(*net.UnixListener).SetDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if c, err := l.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the first server accepts %v, %v; expected no connection", network, c, err)
		}
	}
}

func TestAFileThatIsNoSocketDoesNotGiveWayToAProxy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := proxy.Listen("unix", path); err == nil {
		l.Close()
		t.Error("a file that is no socket gave way")
	} else if want := "listen unix: " + path + " is there and is not a socket"; err.Error() != want {
		t.Errorf("a file that is no socket: %q; want %q", err, want)
	}
	if b, err := os.ReadFile(path); string(b) != "kept" {
		t.Errorf("the file has %q, %v", b, err)
	}
}

func TestAPathThatIsTooLongForASocketIsRefusedWithTheNumbers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, strings.Repeat("x", 107-len(dir)))
	want := "listen unix: " + path + " is a path of 108 bytes; expected at most 107"
	if runtime.GOOS != "linux" {
		t.Skip("the number is that of Linux")
	}
	if l, err := proxy.Listen("unix", path); err == nil || err.Error() != want {
		t.Errorf("%v, %v; want %q", l, err, want)
	}
	l, err := proxy.Listen("unix", path[:107])
	if err != nil {
		t.Fatalf("a path of 107 bytes: %v", err)
	}
	l.Close()
}

// The address of another network is not a path, even if a file with that name exists.
func TestATCPAddressInUseRemovesNoSocket(t *testing.T) {
	first, err := proxy.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	t.Chdir(t.TempDir())
	name := first.Addr().String()
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	if l, err := proxy.Listen("tcp", name); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("an address in use: %v, %v", l, err)
	}
	if _, err := os.Lstat(name); err != nil {
		t.Errorf("the socket of its name: %v", err)
	}
}
