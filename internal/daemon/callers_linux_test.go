package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"golang.org/x/sys/unix"
)

func TestAProcessHasSoManyConnectionsThatHaveNotAttached(t *testing.T) {
	b := newBench(t)
	var held []*ctl.Conn
	for range limits.StrangersPerProcess {
		c, err := ctl.Dial(t.Context(), b.d.Socket())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		held = append(held, c)
	}
	strangers := func(n int) func() bool {
		return func() bool {
			b.d.mu.Lock()
			defer b.d.mu.Unlock()
			return b.d.strangers == n
		}
	}
	eventually(t, "all connections", strangers(len(held)))
	more, err := ctl.Dial(t.Context(), b.d.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer more.Close()
	if _, err := more.Nodes(t.Context()); !errors.Is(err, ctl.ErrRefused) || !strings.Contains(err.Error(), "connections that have not attached") {
		t.Errorf("one more is answered: %v", err)
	}
	if _, err := held[0].Nodes(t.Context()); err != nil {
		t.Errorf("one of those: %v", err)
	}
	for _, c := range held {
		c.Close()
	}
	eventually(t, "the end of all", strangers(0))
	again, err := ctl.Dial(t.Context(), b.d.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := again.Nodes(t.Context()); err != nil {
		t.Errorf("when those have gone: %v", err)
	}
}

func TestTheConnectionOfAProcessThatLeavesEnds(t *testing.T) {
	b := newBench(t)
	open := func() int {
		b.d.mu.Lock()
		defer b.d.mu.Unlock()
		return len(b.d.clients)
	}
	before := open()
	// As ctl.Attachment.Close does, but without closing the connection.
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: b.d.Socket()}); err != nil {
		t.Fatal(err)
	}
	for _, request := range []string{`{"version":1,"op":"attach","attach":{"name":"c/0"}}`, `{"version":1,"op":"leave"}`} {
		reply := make([]byte, ctl.MaxMessage)
		if _, err := unix.Write(fd, []byte(request)); err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Read(fd, reply); err != nil || n == 0 || strings.Contains(string(reply[:n]), "error") {
			t.Fatalf("%s: %q, %v", request, reply[:n], err)
		}
	}
	eventually(t, "the end of the connection", func() bool { return open() == before })
}

// Each try used to log a line, a hundred a second while descriptors were short.
func TestADaemonWithoutDescriptorsDoesNotFillItsLog(t *testing.T) {
	log := &lines{}
	d, err := New(Config{Socket: filepath.Join(t.TempDir(), "nic.sock"), Listen: "127.0.0.1:0"}, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	var callers []int // the daemon may close descriptors that it uses for a moment, and then accepts some
	for range 16 {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		callers = append(callers, fd)
	}
	eventually(t, "its start", func() bool { return log.with("NIC is up") > 0 })
	var was unix.Rlimit
	lowest, err := unix.Dup(callers[0]) // all lower ones are in use
	if err = errors.Join(err, unix.Close(lowest), unix.Getrlimit(unix.RLIMIT_NOFILE, &was)); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &was)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(lowest), Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	for _, fd := range callers {
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: d.Socket()}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "a line of the log", func() bool { return log.with("client not accepted") > 0 })
	begun := time.Now()
	time.Sleep(limits.LogEvery)
	n, most := log.with("client not accepted"), (int(time.Since(begun)/limits.LogEvery)+1)*(limits.LogLines+2)
	if n > most {
		t.Errorf("%d lines in %v; expected %d at most", n, time.Since(begun), most)
	}
}

// lines is a log that can be read while it is written.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(b))
	return len(b), nil
}

func (l *lines) with(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func TestWhoIsThrownOutIsKnown(t *testing.T) { // decision 10
	b := newBench(t)
	name := b.session(0).name.String()
	b.post(t, 0, vni.Command{Code: 255})
	eventually(t, "its end", func() bool { return b.session(0) == nil })
	conn, err := ctl.Dial(t.Context(), b.d.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	all, err := conn.NIC(0).Thrown(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("thrown out: %v, %v", all, err)
	}
	if p := all[0]; p.Name != name || p.PID != os.Getpid() || p.UID != os.Getuid() || p.Times != 1 || !strings.Contains(p.Why, "command-255") {
		t.Errorf("thrown out: %+v", p)
	}
}

func TestRequestsBeyondTheAllowanceWait(t *testing.T) {
	b := newBench(t)
	b.d.mu.Lock()
	// Not our own process, which would owe for all its requests when the test ends.
	k := &client{caller: b.d.callerOf(2)}
	b.d.mu.Unlock()
	wait := b.d.spend(k, 2*limits.RequestBurst)
	if least := time.Second * limits.RequestBurst / limits.RequestsPerSecond; wait < least {
		t.Errorf("twice as many requests as may be made in a row wait %v; want at least %v", wait, least)
	}
	if most := time.Second * limits.MostOwed / limits.RequestsPerSecond; b.d.spend(k, 1e9) > most {
		t.Errorf("a request waits more than %v", most)
	}
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	quiet := &caller{allowance: 1, counted: time.Now().Add(-time.Hour)}
	if quiet.earn(); quiet.allowance != limits.RequestBurst {
		t.Errorf("after an hour of silence a process may make %v requests in a row; expected %v", quiet.allowance, limits.RequestBurst)
	}
	other := b.d.callerOf(1)
	if other.allowance != limits.RequestBurst {
		t.Errorf("another process may make %v requests", other.allowance)
	}
}

// A program that starts many processes must neither fill the table of callers nor push its own
// debt out of it.
func TestCallersThatOweAreForgottenOnlyIfTheTableIsFullOfThem(t *testing.T) {
	later := time.Now().Add(time.Hour) // so that no debt is paid during the test
	for _, owing := range []int{1, limits.Callers - 1, limits.Callers} {
		h := newDoor(Config{})
		const connected = 1 // the pid of a connected caller that owes, too
		for pid := 1; pid <= limits.Callers; pid++ {
			c := &caller{allowance: limits.RequestBurst, counted: time.Now()}
			if pid <= owing {
				c.allowance, c.counted = -1, later
			}
			if pid == connected {
				c.open = 1
			}
			h.callers[pid] = c
		}
		h.callerOf(limits.Callers + 1)
		left := owing + 1
		if owing == limits.Callers {
			left = 2 // with the one that is connected
		}
		if len(h.callers) != left || h.callers[connected] == nil {
			t.Errorf("of %d callers, %d of which owe, and a new one %d are left; expected %d, with the one that is connected", limits.Callers, owing, len(h.callers), left)
		}
	}
}
