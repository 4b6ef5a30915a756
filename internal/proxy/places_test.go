package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
)

// deadSocket leaves a socket at which no process answers.
func deadSocket(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
}

// isThere reports whether a path exists, even as a link to nothing.
func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Each socket of a directory belongs to a running proxy, to a proxy that sends no status, or to a
// killed proxy. The socket of a killed proxy is removed. A proxy that has just ended is not
// listed.
func TestFindTellsProxiesThatRunFromThoseThatWereKilled(t *testing.T) {
	t.Setenv("WEFT_SOCKET", filepath.Join(t.TempDir(), "nic.sock"))
	dir, err := ctl.MakePlace(place)
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	deadSocket(t, at("17-3.sock"))
	deadSocket(t, at("other.sock"))
	// This is like a socket that is gone when it is asked.
	if err := os.Symlink(at("nothing"), at("18.sock")); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("unix", at("19.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	go func() {
		for c, err := other.Accept(); err == nil; c, err = other.Accept() {
			_, _ = io.WriteString(c, "no status")
			c.Close()
		}
	}()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	stop, err := (&Proxy{Listener: l}).Tell(at("20.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	all, err := Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]Found{}
	for _, f := range all {
		if filepath.Dir(f.Socket) == dir {
			found[filepath.Base(f.Socket)] = f
		}
	}
	for name, want := range map[string]struct {
		running, tells, left bool
		pid                  int
	}{
		"17-3.sock":  {false, true, false, 17},
		"other.sock": {false, true, false, 0},
		"19.sock":    {true, false, true, 19},
		"20.sock":    {true, true, true, os.Getpid()},
	} {
		f, ok := found[name]
		if !ok || f.Running != want.running || f.Dead() == want.running || (f.Why == "") != want.tells || f.PID != want.pid || isThere(at(name)) != want.left {
			t.Errorf("%s is found as %+v (%v), and is there: %v; expected %+v", name, f, ok, isThere(at(name)), want)
		}
	}
	if len(found) != 4 {
		t.Errorf("%d proxies are found; expected 4: %+v", len(found), found)
	}
}

// A directory has room for a few proxies with one process id. The next one is refused, and the
// error is that of its socket.
func TestAPlaceHasFewProxiesOfOneProcessID(t *testing.T) {
	t.Setenv("WEFT_SOCKET", filepath.Join(t.TempDir(), "nic.sock"))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := &Proxy{Listener: l}
	for i := range sameID + 1 {
		stop, err := p.TellHere()
		if (err == nil) != (i < sameID) || err != nil && !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatalf("proxy %d: %v", i+1, err)
		}
		if err == nil {
			defer stop()
		}
	}
	dir, err := ctl.MakePlace(place)
	if err != nil {
		t.Fatal(err)
	}
	last := filepath.Join(dir, fmt.Sprintf("%d-%d.sock", os.Getpid(), sameID))
	if s, err := Ask(t.Context(), last); err != nil || s.PID != os.Getpid() {
		t.Errorf("the last one: %+v, %v", s, err)
	}
}

// If a file that is not the socket of a dead proxy occupies the name, the search for a name ends
// at once.
func TestAFileInTheWayOfAProxysSocketIsTold(t *testing.T) {
	t.Setenv("WEFT_SOCKET", filepath.Join(t.TempDir(), "nic.sock"))
	dir, err := ctl.MakePlace(place)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(os.Getpid(), ".sock")), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if stop, err := new(Proxy).TellHere(); err == nil || stop != nil || !strings.Contains(err.Error(), "is there and is not a socket") {
		t.Errorf("a file in the way: %v", err)
	}
}

// A proxy that stops serving its status leaves no socket, not even under the temporary name. A
// proxy that cannot serve its status changes nothing.
func TestAStatusSocketLeavesNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := &Proxy{Listener: l}
	dir := t.TempDir()
	path := filepath.Join(dir, "a.sock")
	making := fmt.Sprintf("%s.%d", path, os.Getpid())
	deadSocket(t, making) // a proxy was killed while it created its socket
	stop, err := p.Tell(path)
	if err != nil {
		t.Fatal(err)
	}
	if isThere(making) {
		t.Error("the socket is there under the name of its making")
	}
	stop()
	stop()
	if isThere(path) {
		t.Error("a proxy that has stopped telling leaves its socket")
	}
	if _, err := Ask(t.Context(), path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("where a proxy told: %v", err)
	}
	if err := os.WriteFile(making, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if stop, err := p.Tell(path); err == nil || stop != nil {
		t.Errorf("where a file is in the way of the making: %v", err)
	}
	if b, err := os.ReadFile(making); string(b) != "mine" || isThere(path) {
		t.Errorf("the file in the way has %q, %v", b, err)
	}
	// The temporary name is longer than this.
	longest := filepath.Join(dir, strings.Repeat("x", longestPath-len(dir)-1))
	if stop, err := p.Tell(longest); err == nil || stop != nil {
		t.Errorf("a path that has no room for the name of its making: %v", err)
	}
	if stop, err := p.Tell(filepath.Join(dir, "no", "a.sock")); !errors.Is(err, os.ErrNotExist) || stop != nil {
		t.Errorf("a path in no directory: %v", err)
	}
}

// A datagram socket that a process has open is also in use, and stays.
func TestADatagramSocketInUseDoesNotGiveWay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, network := range []string{"unix", "unixgram"} {
		if err := Free(network, path); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%s: a socket in use: %v", network, err)
		}
		if err := giveWay(network, path); !errors.Is(err, syscall.EADDRINUSE) || !isThere(path) {
			t.Errorf("%s: a socket in use gives way: %v", network, err)
		}
	}
	c.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	deadSocket(t, path)
	for path, network := range map[string]string{path: "unix", filepath.Join(t.TempDir(), "none"): "unix", "127.0.0.1:1": "tcp"} {
		if err := Free(network, path); err != nil {
			t.Errorf("%s %s, where no process listens: %v", network, path, err)
		}
	}
	if l, err := Listen("unix", filepath.Join(t.TempDir(), "no", "a")); !errors.Is(err, os.ErrNotExist) || l != nil {
		t.Errorf("where there is no directory: %v", err)
	}
}

func TestAnAddressIsReachedByOthersIfItIsAnotherIP(t *testing.T) {
	for _, c := range []struct {
		a    net.Addr
		want bool
	}{
		{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, false}, {&net.TCPAddr{IP: net.IPv6loopback}, false}, {&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, true},
		{&net.TCPAddr{}, true}, {&net.TCPAddr{IP: net.IPv6zero}, true}, {&net.UnixAddr{Name: "x"}, false}, {streamAddr("a/0:1"), false},
	} {
		if got := OffLoopback(c.a); got != c.want {
			t.Errorf("others reach %v: %v; expected %v", c.a, got, c.want)
		}
	}
}

// Clients cannot flood the log: each message has its limit, whatever its attributes, and the next
// printed line contains the number of suppressed lines.
func TestTheLogOfAProxyIsBounded(t *testing.T) {
	var log bytes.Buffer
	plain := limitLog(slog.New(slog.NewJSONHandler(&log, nil))).Handler()
	begun := time.Now()
	say := func(h slog.Handler, text string, at time.Duration) {
		t.Helper()
		if err := h.Handle(context.Background(), slog.NewRecord(begun.Add(at), slog.LevelInfo, text, 0)); err != nil {
			t.Fatal(err)
		}
	}
	handlers := []slog.Handler{plain, plain.WithAttrs([]slog.Attr{slog.Int("a", 1)}), plain.WithGroup("g")}
	for i := range limits.LogLines + 30 {
		say(handlers[i%3], "flood", 0)
	}
	if n := strings.Count(log.String(), "\n"); n != limits.LogLines {
		t.Errorf("%d lines are printed; expected %d", n, limits.LogLines)
	}
	log.Reset()
	say(plain, "another", 0)
	say(handlers[1], "flood", time.Minute)
	say(plain, "flood", time.Minute)
	var lines []map[string]any
	for d := json.NewDecoder(&log); ; {
		var line map[string]any
		if d.Decode(&line) != nil {
			break
		}
		lines = append(lines, line)
	}
	if len(lines) != 3 || lines[0]["and_not_printed"] != nil || lines[1]["and_not_printed"] != 30.0 || lines[1]["a"] != 1.0 || lines[2]["and_not_printed"] != nil {
		t.Errorf("%v; expected that the first line behind the flood tells of 30", lines)
	}
}

// If a program asks for a status at a socket that does not serve one, the error describes the
// answer.
func TestAnAnswerThatIsNoStatusIsAnError(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the text of the error is that of Linux")
	}
	path := filepath.Join(t.TempDir(), "a.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Close()
		}
	}()
	if s, err := Ask(t.Context(), path); err == nil || !errors.Is(err, io.EOF) || !strings.HasPrefix(err.Error(), "proxy: the status at "+path) {
		t.Errorf("%+v, %v", s, err)
	}
}
