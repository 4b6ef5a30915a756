package stream

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// For each state of a stream, these are the immediate results of a Read and a Write of one byte.
// If several reasons apply, the call returns the first one in TCP's order.
func TestACallReturnsTheFirstReason(t *testing.T) {
	h := bareHost(t)
	h.ctx = t.Context()
	past := time.Now().Add(-time.Second)
	some := message{kind: kindData, rest: []byte("some")}
	for what, c := range map[string]struct {
		set         func(s *Conn)
		n           int
		read, write error
	}{
		"open":                              {func(s *Conn) {}, 0, nil, nil},
		"bytes wait":                        {func(s *Conn) { s.takes(some) }, 1, nil, nil},
		"closed":                            {func(s *Conn) { s.state = stateClosed }, 0, net.ErrClosed, net.ErrClosed},
		"closed, with bytes":                {func(s *Conn) { s.takes(some); s.state = stateClosed }, 0, net.ErrClosed, net.ErrClosed},
		"closed, and late":                  {func(s *Conn) { s.state, s.readEnd, s.writeEnd = stateClosed, past, past }, 0, net.ErrClosed, net.ErrClosed},
		"late":                              {func(s *Conn) { s.readEnd, s.writeEnd = past, past }, 0, os.ErrDeadlineExceeded, os.ErrDeadlineExceeded},
		"late, with bytes":                  {func(s *Conn) { s.takes(some); s.readEnd = past }, 0, os.ErrDeadlineExceeded, nil},
		"late to write only":                {func(s *Conn) { s.takes(some); s.writeEnd = past }, 1, nil, os.ErrDeadlineExceeded},
		"late, and failed":                  {func(s *Conn) { s.failLocked(errGap, false); s.readEnd, s.writeEnd = past, past }, 0, os.ErrDeadlineExceeded, os.ErrDeadlineExceeded},
		"failed":                            {func(s *Conn) { s.failLocked(errGap, false) }, 0, errGap, errGap},
		"failed, with bytes":                {func(s *Conn) { s.takes(some); s.failLocked(errGap, false) }, 1, nil, errGap},
		"failed after the end of the peer":  {func(s *Conn) { s.takes(message{kind: kindFin}); s.failLocked(errGap, false) }, 0, io.EOF, errGap},
		"the peer has ended":                {func(s *Conn) { s.takes(message{kind: kindFin}) }, 0, io.EOF, nil},
		"the peer has closed":               {func(s *Conn) { s.takes(message{kind: kindClose}) }, 0, io.EOF, syscall.EPIPE},
		"the peer has closed, behind bytes": {func(s *Conn) { s.takes(some); s.takes(message{kind: kindClose, offset: 4}) }, 1, nil, syscall.EPIPE},
		"ended":                             {func(s *Conn) { s.ended = true }, 0, nil, syscall.EPIPE},
	} {
		s := h.bare()
		c.set(s)
		ctx, room, _, err := s.mayWrite(1)
		if !isOr(err, c.write) || s.inWrite != (err == nil) || (ctx != nil) != (err == nil) || (room == 1) != (s.told && err == nil) {
			t.Errorf("%s: a Write: %v, in Write %v, room %d; expected %v", what, err, s.inWrite, room, c.write)
		}
		if _, _, _, err := s.mayWrite(0); !isOr(err, c.write) {
			t.Errorf("%s: a Write of nothing: %v; expected %v", what, err, c.write)
		}
		if n, err := s.readNow(make([]byte, 1)); n != c.n || !isOr(err, c.read) {
			t.Errorf("%s: a Read: %d, %v; expected %d, %v", what, n, err, c.n, c.read)
		}
		if n, err := s.readNow(nil); n != 0 || (err == net.ErrClosed) != (s.state == stateClosed) || err != nil && err != net.ErrClosed {
			t.Errorf("%s: a Read of nothing: %d, %v", what, n, err)
		}
	}
}

// A Write uses the room that the peer gives. While a sender has bytes, the Write adds its bytes
// to them.
func TestAWriteHasTheRoomOfItsPeer(t *testing.T) {
	h := bareHost(t)
	h.ctx = t.Context()
	s := h.bare()
	s.told, s.window, s.sent, s.flying = true, 100, 40, 5000
	for n, want := range map[int]int{1: 1, 59: 59, 60: 60, 61: 60, 1000: 60} {
		s.inWrite = false
		if ctx, room, draining, err := s.mayWrite(n); err != nil || ctx == nil || draining || room != want || !s.inWrite || s.bound != 5000 {
			t.Errorf("a Write of %d bytes: room %d, draining %v, bound %d (%v); expected %d", n, room, draining, s.bound, err, want)
		}
	}
	s.inWrite, s.draining = false, true
	if ctx, _, draining, err := s.mayWrite(10); ctx != nil || !draining || err != nil || s.inWrite {
		t.Errorf("a Write beside a sender: draining %v, in Write %v (%v)", draining, s.inWrite, err)
	}
	for _, c := range []struct {
		n, left int
		flight  bool
		want    bool
	}{{0, 10, false, false}, {0, 10, true, false}, {5, 10, false, true}, {5, 10, true, false}, {10, 10, true, true}, {2500, 9000, true, false}, {leastBuffer, 9000, true, true}} {
		s.bound = 5000
		s.ops = &flights{}
		if c.flight {
			s.ops.begun++
		}
		if got := s.worth(c.n, c.left); got != c.want {
			t.Errorf("%d of %d bytes, another message in flight %v: worth a message %v", c.n, c.left, c.flight, got)
		}
	}
}

// A failure has TCP's error, and its cause stays visible.
func TestAFailureHasTheKindOfTCP(t *testing.T) {
	s := bareHost(t).bare()
	for _, err := range []error{nil, io.EOF} {
		if s.opError("read", err) != err {
			t.Errorf("%v has become %v", err, s.opError("read", err))
		}
	}
	var op *net.OpError
	err := s.opError("read", because(syscall.ECONNRESET, errGap))
	if !errors.As(err, &op) || op.Op != "read" || op.Source != s.local || op.Addr != s.remote || !errors.Is(err, syscall.ECONNRESET) || !errors.Is(err, errGap) {
		t.Errorf("a failed read: %#v", err)
	}
}

// Flights end in order, with their bytes and their memory. A failed send fails the stream.
func TestMemoryOfFlightsIsKeptForTheNext(t *testing.T) {
	s := bareHost(t).bare()
	for i := range pipeline {
		f := s.next()
		f.mem = append(f.mem, make([]byte, 10*(i+1))...)
		s.ops.begun++
		s.ops.bytes += len(f.mem)
	}
	s.ops.end()
	if s.underWay() != pipeline-1 || s.ops.bytes != 350 || len(s.ops.spare) != 1 || s.oldest() != nil {
		t.Errorf("%d messages with %d bytes are in flight, and %d memories wait", s.underWay(), s.ops.bytes, len(s.ops.spare))
	}
	if s.underWay() != 0 || s.ops.bytes != 0 || len(s.ops.spare) != pipeline {
		t.Errorf("after all, %d messages with %d bytes are in flight, and %d memories wait", s.underWay(), s.ops.bytes, len(s.ops.spare))
	}
	if f := s.next(); len(f.mem) != 10*pipeline || len(s.ops.spare) != pipeline-1 {
		t.Errorf("the next message has memory of %d bytes", len(f.mem))
	}
	for what, keep := range map[string]func(){"a Write": func() { s.inWrite = true }, "a sender": func() { s.inWrite, s.draining = false, true }} {
		if keep(); s.ops == nil {
			t.Fatalf("%s: the memory is gone", what)
		}
		s.trim()
	}
	s.inWrite, s.draining = false, false
	if s.trim(); s.ops != nil {
		t.Error("a silent stream keeps memory")
	}
}
