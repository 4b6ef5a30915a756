package nbd

import (
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// descriptors returns a function that counts this process's file descriptors for the same socket.
func descriptors(t *testing.T, fd int) func() int {
	t.Helper()
	const dir = "/proc/self/fd/"
	socket, err := os.Readlink(dir + strconv.Itoa(fd))
	if err != nil {
		t.Fatal(err)
	}
	return func() (n int) {
		all, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			if to, err := os.Readlink(dir + e.Name()); err == nil && to == socket {
				n++
			}
		}
		return n
	}
}

// A line has one file descriptor of its socket, and none after Close. Every call then fails.
func TestALineThatIsClosedLeavesNoDescriptor(t *testing.T) {
	c, other := pair(t)
	l := c.(*line)
	left := descriptors(t, l.fd)
	if n := left(); n != 1 {
		t.Errorf("a line has %d descriptors of its socket; expected one", n)
	}
	if l.LocalAddr() == nil || l.RemoteAddr() == nil || l.LocalAddr().Network() != "unix" {
		t.Errorf("its addresses are %v and %v", l.LocalAddr(), l.RemoteAddr())
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := left(); n != 0 {
		t.Errorf("a line that is closed has %d descriptors of its socket; expected none", n)
	}
	if n, err := other.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the other end reads %d bytes, %v; expected the end", n, err)
	}
	_, read := l.Read(make([]byte, 1))
	_, now := l.readNow(make([]byte, 1))
	_, write := l.Write([]byte("x"))
	raw, err := l.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"a read": read, "a read of what is here": now, "a write": write, "writes": l.writeAll([][]byte{[]byte("x"), []byte("y")}), "a close": l.Close(),
		"a look at its socket": raw.Control(func(fd uintptr) { t.Errorf("descriptor %d of a closed line is looked at", fd) }),
	} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s of a closed line: %v; expected %v", what, err, net.ErrClosed)
		}
	}
	for what, err := range map[string]error{"read": raw.Read(nil), "write": raw.Write(nil)} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a raw %s: %v", what, err)
		}
	}
}

// Close ends each waiting call, and waits for its end: afterwards, another file may get the
// descriptor.
func TestACloseEndsTheCallsThatWait(t *testing.T) {
	for what, call := range map[string]func(l *line) error{
		"a read":  func(l *line) error { _, err := l.Read(make([]byte, 1)); return err },
		"a write": func(l *line) error { _, err := l.Write(make([]byte, 16<<20)); return err },
		"writes":  func(l *line) error { return l.writeAll([][]byte{make([]byte, 8<<20), make([]byte, 8<<20)}) },
	} {
		c, _ := pair(t)
		l := c.(*line)
		if err := l.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := call(l); err == nil {
				t.Errorf("%s of a line that is closed meanwhile: no error", what)
			}
		})
		for l.using.TryLock() { // until the call has begun
			l.using.Unlock()
			time.Sleep(time.Millisecond)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
}

// Each direction has its own deadline, which may be lifted.
func TestEachDirectionOfALineHasItsDeadline(t *testing.T) {
	c, other := pair(t)
	l := c.(*line)
	past := time.Now().Add(-time.Second)
	if err := l.SetReadDeadline(past); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "read") {
		t.Errorf("a read behind its deadline: %v", err)
	}
	if n, err := l.Write([]byte("one")); n != 3 || err != nil {
		t.Errorf("a write behind the deadline of reads: %d, %v", n, err)
	}
	if err := l.SetReadDeadline(time.Now().Add(5 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a read that reaches its deadline: %v", err)
	}
	if err := l.SetDeadline(past); err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 16<<20)
	if n, err := l.Write(big); n == len(big) || !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "write") {
		t.Errorf("a write behind its deadline: %d, %v", n, err)
	}
	if _, err := l.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a read behind the deadline of both: %v", err)
	}
	if err := l.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(5 * time.Millisecond)
		_, _ = other.Write([]byte("x"))
	}()
	if n, err := l.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("a read without a deadline: %d, %v", n, err)
	}
}

// A read of arrived bytes does not wait. It reports the end and the failure of the other side.
func TestAReadOfWhatIsHereDoesNotWait(t *testing.T) {
	c, other := pair(t)
	l := c.(*line)
	b := make([]byte, 8)
	if n, err := l.readNow(b); n != 0 || err != errNone {
		t.Errorf("of a silent client: %d, %v; expected %v", n, err, errNone)
	}
	if _, err := other.Write([]byte("some")); err != nil {
		t.Fatal(err)
	}
	if n, err := l.readNow(b); string(b[:n]) != "some" || err != nil {
		t.Errorf("%q, %v", b[:n], err)
	}
	if n, err := l.Read(nil); n != 0 || err != nil {
		t.Errorf("a read into nothing: %d, %v", n, err)
	}
	other.Close()
	if n, err := l.readNow(b); n != 0 || err != io.EOF {
		t.Errorf("behind the end: %d, %v; expected %v", n, err, io.EOF)
	}
	if n, err := l.Read(b); n != 0 || err != io.EOF {
		t.Errorf("a read behind the end: %d, %v; expected %v", n, err, io.EOF)
	}
	if _, err := l.Write(b); !errors.Is(err, unix.EPIPE) {
		t.Errorf("a write behind the end: %v", err)
	}
	if err := l.writeAll([][]byte{b, b}); !errors.Is(err, unix.EPIPE) {
		t.Errorf("writes behind the end: %v", err)
	}
	d, other2 := pair(t)
	if _, err := d.Write([]byte("unread")); err != nil {
		t.Fatal(err)
	}
	other2.Close() // with unread bytes, which is a failure
	if n, err := d.(*line).readNow(b); n != 0 || !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("behind a failure: %d, %v; expected %v", n, err, unix.ECONNRESET)
	}
}

// socketless is a connection that does not give access to its socket.
type socketless struct{ net.Conn }

func (socketless) SyscallConn() (syscall.RawConn, error) { return nil, errors.New("it has none") }

// A connection without a socket does not change.
func TestAConnectionWithoutASocketIsItsOwn(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	for _, c := range []net.Conn{here, socketless{there}} {
		if own(c) != c {
			t.Errorf("%T becomes a line", c)
		}
		if takesReplies(c) {
			t.Errorf("%T, without a socket, still reads", c)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	closed, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	if own(closed) != closed || takesReplies(closed) {
		t.Error("a connection that is closed becomes a line, or still reads")
	}
}

// noting is a connection whose reads return given pieces, one after the other.
type noting struct {
	net.Conn
	pieces []any // strings and errors
}

func (c *noting) next(b []byte) (int, error) {
	if len(c.pieces) == 0 {
		return 0, errNone
	}
	p := c.pieces[0]
	c.pieces = c.pieces[1:]
	if err, ok := p.(error); ok {
		return 0, err
	}
	return copy(b, p.(string)), nil
}

func (c *noting) Read(b []byte) (int, error)    { return c.next(b) }
func (c *noting) readNow(b []byte) (int, error) { return c.next(b) }

// If a look at the arrived bytes finds an end, the next read that would wait returns this end,
// once.
func TestTheEndThatALookFindsIsThatOfTheNextRead(t *testing.T) {
	for _, end := range []error{io.EOF, unix.ECONNRESET} {
		s := &source{c: &noting{pieces: []any{"one", errNone, end, "more"}}}
		b := make([]byte, 8)
		for i, step := range []struct {
			now  bool
			want string
			err  error
		}{{true, "one", nil}, {true, "", errNone}, {true, "", errNone}, {true, "", errNone}, {false, "", end}, {false, "more", nil}, {true, "", errNone}} {
			s.now = step.now
			if n, err := s.Read(b); string(b[:n]) != step.want || err != step.err {
				t.Errorf("step %d: %q, %v; expected %q, %v", i, b[:n], err, step.want, step.err)
			}
		}
	}
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	s := &source{c: here, now: true} // a pipe has no readNow
	if n, err := s.Read(make([]byte, 1)); n != 0 || err != errNone {
		t.Errorf("a look at a pipe: %d, %v; expected %v", n, err, errNone)
	}
}
