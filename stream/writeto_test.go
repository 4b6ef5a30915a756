package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// slow is a writer that blocks in its first Write.
type slow struct {
	entered, leave chan struct{}
	got            bytes.Buffer
	least          int // bytes to take
	err            error
}

func newSlow() *slow { return &slow{entered: make(chan struct{}), leave: make(chan struct{})} }

func (w *slow) Write(b []byte) (int, error) {
	if w.entered != nil {
		close(w.entered)
		w.entered = nil
		<-w.leave
	}
	if w.err != nil {
		b = b[:w.least]
	}
	w.got.Write(b)
	return len(b), w.err
}

// arrived waits until n bytes wait to be read.
func arrived(t *testing.T, c *Conn, n int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		waits := c.waiting()
		c.mu.Unlock()
		if waits >= n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d bytes have come; expected %d", waits, n)
		}
	}
}

// writingTo returns a stream whose WriteTo is in a Write that blocks until w is released. It also
// returns a channel for the result of WriteTo.
func writingTo(t *testing.T, w *slow, data []byte) (c, s *Conn, wrote chan error) {
	t.Helper()
	server, client := onSwitch(t)
	c, s = dialled(t, server, client, "slow")
	if _, err := c.Write(data); err != nil {
		t.Fatal(err)
	}
	arrived(t, s, len(data))
	wrote = make(chan error, 1)
	entered := w.entered
	go func() { _, err := s.WriteTo(w); wrote <- err }()
	<-entered
	return c, s, wrote
}

// soon returns the result of a call that must not wait.
func soon(t *testing.T, call func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		t.Fatal("a call waits for good")
		return nil
	}
}

// A WriteTo that waits for its writer must not delay a Read. The Read ends at its own deadline,
// or when the stream is closed.
func TestAReadBesideAWriteToThatWaitsEnds(t *testing.T) {
	w := newSlow()
	c, s, wrote := writingTo(t, w, []byte("hello"))
	read := func() error { _, err := s.Read(make([]byte, 1)); return err }
	_ = s.SetReadDeadline(time.Now().Add(-time.Second))
	if err := soon(t, read); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a Read whose deadline has passed: %v", err)
	}
	_ = s.SetReadDeadline(time.Time{})
	ended := make(chan error, 1)
	go func() { ended <- read() }()
	s.Close()
	if err := soon(t, func() error { return <-ended }); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a Read of a stream that is closed: %v", err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the peer of a stream that is closed while bytes are on their way to a writer reads %v; expected a reset", err)
	}
	close(w.leave)
	if err := soon(t, func() error { return <-wrote }); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a WriteTo of a stream that is closed: %v", err)
	}
}

// The bytes in a Write of WriteTo stay unchanged when more bytes arrive. After an error of the
// writer, the next Read returns the remaining bytes in order.
func TestWhatAWriteToHasNotWrittenIsReadNext(t *testing.T) {
	w := newSlow()
	w.least, w.err = 7000, errors.New("the writer is full")
	data := make([]byte, 900_000)
	for i := range data {
		data[i] = byte(i*7 + i>>9)
	}
	const early = 100_000
	c, s, wrote := writingTo(t, w, data[:early])
	if _, err := c.Write(data[early:]); err != nil {
		t.Fatal(err)
	}
	arrived(t, s, len(data)-early)
	close(w.leave)
	if err := soon(t, func() error { return <-wrote }); err != w.err {
		t.Errorf("WriteTo ended with %v; expected the writer's error", err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(struct{ io.Reader }{s})
	if got := append(w.got.Bytes(), rest...); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes were written and %d read, %v; expected %d, each in its place", w.got.Len(), len(rest), err, len(data))
	}
}

// Bytes that WriteTo has written count once as read, whether they were there before or WriteTo
// waited for them. Bytes that the writer did not take count when they are read next. Otherwise
// the peer would be told of room that does not exist, or the Close of a stream that was read to
// its end would act as if bytes were unread.
func TestWhatAWriteToHasWrittenIsCountedOnce(t *testing.T) {
	data := make([]byte, 100_000)
	for _, waits := range []bool{false, true} {
		for _, err := range []error{nil, errors.New("the writer is full")} {
			server, client := onSwitch(t)
			c, s := dialled(t, server, client, "counted")
			w := &slow{least: 10, err: err}
			wrote := make(chan error, 1)
			to := func() { _, err := s.WriteTo(w); wrote <- err }
			if waits {
				go to()
				waitsToRead(s)
			}
			if _, err := c.Write(data); err != nil {
				t.Fatal(err)
			}
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if !waits {
				arrived(t, s, len(data))
				go to()
			}
			if got := soon(t, func() error { return <-wrote }); got != err {
				t.Fatalf("WriteTo ended with %v; expected %v", got, err)
			}
			rest, err := io.ReadAll(struct{ io.Reader }{s})
			s.mu.Lock()
			taken, passing := s.taken, s.passing
			s.mu.Unlock()
			if err != nil || w.got.Len()+len(rest) != len(data) || taken != uint64(len(data)) || passing != 0 {
				t.Errorf("it waits %v: %d bytes were written and %d read, %v; %d are counted as read, and %d as on their way", waits, w.got.Len(), len(rest), err, taken, passing)
			}
		}
	}
}

// A Read that waits during a WriteTo gets the bytes that the writer did not take.
func TestAReadThatWaitsHasWhatAWriteToGivesBack(t *testing.T) {
	w := newSlow()
	w.err = errors.New("the writer is full")
	_, s, wrote := writingTo(t, w, []byte("hello"))
	b := make([]byte, 10)
	read := make(chan int, 1)
	go func() { n, _ := s.Read(b); read <- n }()
	waitsToRead(s)
	close(w.leave)
	<-wrote
	n := 0
	_ = soon(t, func() error { n = <-read; return nil })
	if string(b[:n]) != "hello" {
		t.Errorf("%q was read; expected what the writer has not taken", b[:n])
	}
}

// WriteTo may wait for bytes and then pass them to its writer. The same rule applies to them as
// to earlier bytes: the next Read returns those that the writer does not take, however the writer
// reports this.
func TestWhatComesToAWriteToAndIsNotWrittenIsReadNext(t *testing.T) {
	server, client := onSwitch(t)
	full := errors.New("the writer is full")
	for name, w := range map[string]struct {
		takes int
		err   error
		panic bool
		want  error
		left  string
	}{
		"fails":                    {takes: 2, err: full, want: full, left: "llo"},
		"takes less and says no":   {takes: 2, want: io.ErrShortWrite, left: "llo"},
		"takes nothing":            {want: io.ErrShortWrite, left: "hello"},
		"takes more than there is": {takes: 6, want: errWritten, left: "hello"},
		"takes less than nothing":  {takes: -1, want: errWritten, left: "hello"},
		"panics":                   {panic: true, want: full, left: "hello"},
	} {
		for _, early := range []bool{true, false} {
			c, s := dialled(t, server, client, fmt.Sprint(name, early))
			write := func() {
				if _, err := c.Write([]byte("hello")); err != nil {
					t.Fatal(err)
				}
			}
			if early {
				write()
				arrived(t, s, len("hello"))
			}
			wrote := make(chan error, 1)
			go func() {
				defer func() {
					if recover() != nil {
						wrote <- full
					}
				}()
				_, err := s.WriteTo(writerFunc(func(b []byte) (int, error) {
					if w.panic {
						panic(full)
					}
					return w.takes, w.err
				}))
				wrote <- err
			}()
			if !early {
				waitsToRead(s)
				write()
			}
			if err := soon(t, func() error { return <-wrote }); err != w.want {
				t.Errorf("a writer that %s, of what had come before: %v: WriteTo ended with %v; expected %v", name, early, err, w.want)
			}
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(struct{ io.Reader }{s}); string(got) != w.left || err != nil {
				t.Errorf("a writer that %s, of what had come before: %v: %q is read next, %v; expected %q", name, early, got, err, w.left)
			}
		}
	}
}

// writerFunc is a writer.
type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// waitsToRead returns when a Read of c waits.
func waitsToRead(c *Conn) {
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		waits = c.want != nil
		c.mu.Unlock()
	}
}
