package nbd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/internal/limits"
)

// A server uses defaults for missing values of its configuration, and rejects a device without
// bytes.
func TestAServerHasItsDefaults(t *testing.T) {
	for n, ok := range map[int]bool{0: false, 1: true} {
		if s, err := New(Config{Device: newMemory(n)}); (err == nil) != ok || (s != nil) != ok {
			t.Errorf("a device of %d bytes: %v", n, err)
		}
	}
	s, err := New(Config{Device: newMemory(1)})
	if err != nil {
		t.Fatal(err)
	}
	c := s.cfg
	if c.Block != 4096 || c.Timeout != patience || c.Clients != limits.NBDClients || c.Full(io.EOF) || s.many != nil || s.budget.left != maxUnderWay {
		t.Errorf("%+v", c)
	}
	c.Log("nothing")
	if s, err = New(Config{Device: &together{memory: newMemory(1)}, Block: 1, Timeout: 2, Clients: 3}); err != nil {
		t.Fatal(err)
	}
	if c := s.cfg; c.Block != 1 || c.Timeout != 2 || c.Clients != 3 || s.many == nil {
		t.Errorf("%+v", c)
	}
}

// given is a listener whose connections come from the test.
type given struct {
	conns  chan net.Conn
	closed chan struct{}
	err    error // error during a pause; nil: none
}

func (l *given) Accept() (net.Conn, error) {
	if l.err != nil {
		return nil, l.err
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *given) Close() error   { close(l.closed); return nil }
func (l *given) Addr() net.Addr { return &net.TCPAddr{} }

// A server that ends closes its listener and every connection, whatever its clients do, and does
// not log that. Its requests return their memory.
func TestAServerThatEndsEndsItsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		s, err := New(Config{Device: &slow{newMemory(4096)}, Timeout: time.Hour, Log: func(text string) { log = append(log, text) }})
		if err != nil {
			t.Fatal(err)
		}
		l := &given{conns: make(chan net.Conn), closed: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx, l) }()
		var ends []net.Conn
		for _, begin := range []func(c *client){
			func(c *client) {},
			func(c *client) { c.greet(3) },
			func(c *client) { c.begin(false) },
			func(c *client) { c.begin(false); c.request(0, cmdRead, 1, 0, 1) },
			func(c *client) { c.begin(true); c.request(0, cmdWrite, 1, 0, 5, "part") },
		} {
			here, there := net.Pipe()
			l.conns <- there
			begin(&client{t, here, nil})
			ends = append(ends, here)
		}
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server ends with %v", err)
		}
		for i, c := range ends {
			if _, err := io.Copy(io.Discard, c); err != nil {
				t.Errorf("client %d sees %v; expected the end", i, err)
			}
			c.Close()
		}
		select {
		case <-l.closed:
		default:
			t.Error("the listener is open")
		}
		if len(s.conns)+s.users+s.silent.Len()+s.newcomers.Len() != 0 || s.budget.left != maxUnderWay || len(log) != 0 {
			t.Errorf("%d connections, %d users, %d of them silent, %d newcomers and %d bytes of the budget are left, and the log has %q",
				len(s.conns), s.users, s.silent.Len(), s.newcomers.Len(), maxUnderWay-s.budget.left, log)
		}
		here, there := net.Pipe() // as a connection that arrives at the last moment
		if s.admit(there) || len(s.conns) != 0 {
			t.Error("a server that has ended admits a connection")
		}
		here.Close()
	})
}

// A server that lacks file descriptors waits between its accepts, and ends at once when its
// context ends.
func TestAServerThatLacksFilesPauses(t *testing.T) {
	for _, lacks := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		synctest.Test(t, func(t *testing.T) {
			lines := 0
			s, err := New(Config{Device: newMemory(4096), Log: func(string) { lines++ }})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- s.Serve(ctx, &given{err: fmt.Errorf("accept: %w", lacks), closed: make(chan struct{})})
			}()
			time.Sleep(10*acceptPause + acceptPause/2)
			cancel()
			begun := time.Now()
			if err := <-ended; err != nil || time.Since(begun) != 0 || lines != 11 {
				t.Errorf("%v: it ends after %v, %v, and has tried %d times; expected at once, and 11 times", lacks, time.Since(begun), err, lines)
			}
		})
	}
	s, err := New(Config{Device: newMemory(4096)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(t.Context(), &given{err: syscall.EINVAL, closed: make(chan struct{})}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a listener that fails: %v", err)
	}
}

// Clients cannot flood the log: the number of lines of each kind is limited, and so is the length
// of each line.
func TestTheLogOfAServerIsBounded(t *testing.T) {
	var log []string
	s, err := New(Config{Device: newMemory(4096), Log: func(text string) { log = append(log, text) }})
	if err != nil {
		t.Fatal(err)
	}
	long := errors.New(strings.Repeat("x", 2*longestLine))
	synctest.Test(t, func(t *testing.T) {
		for range limits.LogLines + 30 {
			s.logEnd(long)
		}
		if len(log) != limits.LogLines || len(log[0]) != longestLine || !strings.HasPrefix(log[0], "connection ended: xxx") {
			t.Errorf("%d lines are logged, the first of %d bytes; expected %d, and %d", len(log), len(log[0]), limits.LogLines, longestLine)
		}
		s.logEnd(errGaveWay)
		s.logEnd(errNoRoom)
		if got := log[limits.LogLines:]; len(got) != 2 || got[0] != "an idle client gave way to another" || got[1] != fmt.Sprintf("a client is turned away: %d are connected", limits.NBDClients) {
			t.Errorf("lines of other kinds: %q", got)
		}
		time.Sleep(time.Minute)
		s.logEnd(io.EOF)
		s.logEnd(io.EOF)
		if got := log[limits.LogLines+2:]; len(got) != 2 || got[0] != "connection ended: EOF (and 30 lines like this that were not printed)" || got[1] != "connection ended: EOF" {
			t.Errorf("behind the flood the log has %q", got)
		}
	})
}

// A worker keeps the memory of a small request, and frees that of a large one. The budget gets
// the memory back once.
func TestAWorkerKeepsLittleMemory(t *testing.T) {
	s := new(Server)
	s.budget.init(maxUnderWay)
	for n, keeps := range map[int]bool{1: true, kept - headroom: true, kept - headroom + 1: false, maxRequest: false} {
		j := &job{n: &conn{s: s}}
		j.reserve(n)
		if len(j.data()) != n || j.n.held != n || s.budget.left != maxUnderWay-n {
			t.Errorf("a request of %d bytes has %d, and %d of the budget", n, len(j.data()), j.n.held)
		}
		j.release()
		j.release()
		if j.n.held != 0 || s.budget.left != maxUnderWay || (j.buf != nil) != keeps {
			t.Errorf("behind a request of %d bytes its connection has %d of the budget, %d are left, and it keeps memory: %v", n, j.n.held, s.budget.left, j.buf != nil)
		}
		if keeps {
			before := &j.buf[0]
			if j.reserve(1); &j.buf[0] != before || len(j.data()) != 1 {
				t.Error("a smaller request does not use the memory of the one before")
			}
			j.release()
		}
	}
	c := new(conn)
	if s.budget.try(c, maxUnderWay+1) || c.held != 0 || !s.budget.try(c, maxUnderWay) || s.budget.left != 0 || s.budget.try(c, 1) || c.held != maxUnderWay {
		t.Errorf("a try beside the budget: the connection has %d, and %d are left", c.held, s.budget.left)
	}
}

// The parts of a long request follow each other without a gap, and a failure ends the request.
func TestALongRequestStopsAtItsFirstFailure(t *testing.T) {
	lost := errors.New("all is lost")
	var got []int64
	if err := inParts(1<<20-1, 2<<20+1, func(offset, n int64) error { got = append(got, offset, n); return nil }); err != nil || fmt.Sprint(got) != "[1048575 1 1048576 1048576 2097152 1048576]" {
		t.Errorf("%v, %v", got, err)
	}
	calls := 0
	if err := inParts(0, 4<<20, func(int64, int64) error { calls++; return lost }); err != lost || calls != 1 {
		t.Errorf("%d parts, %v; expected the first failure to end it", calls, err)
	}
	if err := inParts(5, 0, func(int64, int64) error { return lost }); err != nil {
		t.Errorf("nothing, in parts: %v", err)
	}
}
