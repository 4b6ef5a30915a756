package stream

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// Buffers have bounds. A value at or below 0 is refused and changes nothing.
func TestBuffersHaveTheirBounds(t *testing.T) {
	s := bareHost(t).bare()
	for _, c := range []struct{ bytes, read, write int }{
		{1, leastBuffer, leastBuffer}, {leastBuffer - 1, leastBuffer, leastBuffer}, {leastBuffer + 1, leastBuffer + 1, leastBuffer + 1},
		{flyingBytes, flyingBytes, flyingBytes}, {flyingBytes + 1, flyingBytes + 1, flyingBytes},
		{mostBuffer, mostBuffer, flyingBytes}, {mostBuffer + 1, mostBuffer, flyingBytes},
	} {
		for _, bad := range []int{0, -1} {
			if r, w := s.SetReadBuffer(bad), s.SetWriteBuffer(bad); !errors.Is(r, syscall.EINVAL) || !errors.Is(w, syscall.EINVAL) {
				t.Errorf("buffers of %d bytes: %v, %v", bad, r, w)
			}
		}
		if r, w := s.SetReadBuffer(c.bytes), s.SetWriteBuffer(c.bytes); r != nil || w != nil || s.buffer != uint64(c.read) || s.flying != c.write {
			t.Errorf("buffers of %d bytes: %d and %d (%v, %v); expected %d and %d", c.bytes, s.buffer, s.flying, r, w, c.read, c.write)
		}
	}
}

// A peer gets more room when half of the buffer is free, and not before. It gets no room after
// its end, and never loses room.
func TestAPeerGetsRoomWhenHalfOfTheBufferIsFree(t *testing.T) {
	s := bareHost(t).bare()
	const most = 8 << 10
	s.buffer, s.granted = most, most
	s.takes(message{kind: kindData, rest: make([]byte, most)})
	for i, c := range []struct {
		n       int
		granted uint64
		told    bool
	}{{most/2 - 1, most, false}, {1, most + most/2, true}, {most/2 - 1, most + most/2, false}} {
		if n, err := s.readNow(make([]byte, c.n)); n != c.n || err != nil || s.granted != c.granted || s.untold != c.told {
			t.Errorf("read %d: %d bytes, %v; the peer may send up to %d, untold %v; expected %d, %v", i, n, err, s.granted, s.untold, c.granted, c.told)
		}
		s.untold = false
	}
	if err := s.SetReadBuffer(leastBuffer); err != nil || s.granted != most+most/2 {
		t.Errorf("after a smaller buffer (%v), the peer may send up to %d; expected %d", err, s.granted, most+most/2)
	}
	s.takes(message{kind: kindFin, offset: most})
	if n, err := s.readNow(make([]byte, 1)); n != 1 || err != nil || s.untold {
		t.Errorf("after the end of the peer, it is told of room: %v (%v)", s.untold, err)
	}
}

// Bytes are joined up to the bound, and only if a sender runs.
func TestJoinedBytesAreBounded(t *testing.T) {
	s := bareHost(t).bare()
	if n := s.join(make([]byte, 10)); n != 0 || len(s.joined) != 0 {
		t.Errorf("%d bytes are joined without a sender", n)
	}
	s.draining, s.drainable = true, s.h.p.Runtime().NewGate()
	for _, c := range []struct{ flying, have, want int }{
		{flyingBytes, 0, 100}, {flyingBytes, mostJoined - 100, 100}, {flyingBytes, mostJoined - 99, 99}, {flyingBytes, mostJoined, 0}, {flyingBytes, mostJoined + 1, 0},
		{leastBuffer, leastBuffer - 1, 1},
	} {
		s.flying, s.joined = c.flying, make([]byte, c.have)
		if n := s.join(make([]byte, 100)); n != c.want || len(s.joined) != c.have+n {
			t.Errorf("%d bytes of 100 join %d; expected %d", n, c.have, c.want)
		}
	}
}

// A message of joined bytes is as long as the peer's room. The rest waits, in order.
func TestJoinedBytesLeaveAsTheRoomAllows(t *testing.T) {
	s := bareHost(t).bare()
	s.told = true
	want := []byte("joined bytes in their order")
	for _, room := range []uint64{0, 1, 5, uint64(len(want)) - 1, uint64(len(want)), uint64(len(want)) + 1} {
		s.joined, s.window, s.sent = bytes.Clone(want), 100+room, 100
		f := &flight{mem: []byte("old")}
		n := int(min(room, uint64(len(want))))
		if ok := s.gather(f); ok != (room > 0) || ok && !bytes.Equal(f.mem, want[:n]) || !bytes.Equal(s.joined, want[n:]) {
			t.Errorf("room for %d: %v, %q leaves, and %q waits", room, ok, f.mem, s.joined)
		}
	}
	s.told = false
	if s.room() != 0 {
		t.Errorf("room for %d bytes before the peer knows the stream", s.room())
	}
	s.told, s.window, s.sent = true, 5, 9
	if s.room() != 0 {
		t.Errorf("room for %d bytes beyond the window", s.room())
	}
}

// At most pipeline messages are in flight, and their bytes stay within the bound. A single
// message may have any length.
func TestFlightsAreBounded(t *testing.T) {
	s := bareHost(t).bare()
	s.bound = 1000
	for _, c := range []struct {
		flights, bytes, n int
		want              bool
	}{
		{0, 0, 5000, false}, {1, 600, 400, false}, {1, 600, 401, true}, {pipeline - 1, 0, 1000, false}, {pipeline, 0, 1, true},
	} {
		s.ops = &flights{begun: 100 + c.flights, ended: 100, bytes: c.bytes}
		if got := s.full(c.n); got != c.want {
			t.Errorf("%d more bytes with %d in %d flights must wait: %v; expected %v", c.n, c.bytes, c.flights, got, c.want)
		}
	}
	for bound, want := range map[int]int{leastBuffer: leastBuffer, 4 * leastBuffer: 2 * leastBuffer, flyingBytes: dataBytes, 4 * flyingBytes: dataBytes} {
		if s.bound = bound; s.piece() != want {
			t.Errorf("with %d bytes in flight, a message has %d; expected %d", bound, s.piece(), want)
		}
	}
}

// Draining ends when there are no bytes, after a failure, or with the process. The sender then
// reports the end of the stream, once.
func TestTheSenderOfJoinedBytesTellsTheEnd(t *testing.T) {
	h := bareHost(t)
	h.ctx = t.Context()
	for what, c := range map[string]struct {
		set  func(s *Conn)
		more bool
		due  []kind
	}{
		"bytes wait":               {func(s *Conn) { s.joined = []byte("x") }, true, nil},
		"bytes wait in closed one": {func(s *Conn) { s.joined, s.state = []byte("x"), stateClosed }, true, nil},
		"none waits":               {func(s *Conn) {}, false, nil},
		"it is closed":             {func(s *Conn) { s.state = stateClosed }, false, []kind{kindClose}},
		"its direction has ended":  {func(s *Conn) { s.ended = true }, false, []kind{kindFin}},
		"it has failed":            {func(s *Conn) { s.joined, s.state, s.ended, s.err = []byte("x"), stateClosed, true, errGap }, false, nil},
	} {
		s, stopped := h.bare(), false
		s.draining, s.stopDraining, s.drained = true, func() { stopped = true }, h.p.Runtime().NewGate()
		c.set(s)
		if more := s.mayDrain(); more != c.more || s.draining != more || stopped == more || !more && len(s.joined) > 0 {
			t.Errorf("%s: more %v, sender %v, stopped %v, and %d bytes wait", what, more, s.draining, stopped, len(s.joined))
		}
		if due := s.allDue(); !slices.Equal(due, c.due) {
			t.Errorf("%s: the stream owes %d; expected %d", what, due, c.due)
		}
	}
}

// While a Write or a sender still has bytes, a state reports no end.
func TestAStateTellsOfTheEndWhenAllBytesHaveLeft(t *testing.T) {
	h := bareHost(t)
	for what, c := range map[string]struct {
		set  func(s *Conn)
		want ending
	}{
		"open":                   {func(s *Conn) {}, endsNot},
		"ended":                  {func(s *Conn) { s.ended = true }, endsOwn},
		"closed":                 {func(s *Conn) { s.ended, s.state = true, stateClosed }, endsBoth},
		"ended during a Write":   {func(s *Conn) { s.ended, s.inWrite = true, true }, endsNot},
		"closed during a Write":  {func(s *Conn) { s.state, s.inWrite = stateClosed, true }, endsNot},
		"closed with bytes left": {func(s *Conn) { s.state, s.draining = stateClosed, true }, endsNot},
	} {
		s := h.bare()
		s.sent, s.granted = 12, 34
		c.set(s)
		m, ok := parse(tagOf(kindWindow, bareNumber), s.tell(new([stateBytes]byte)))
		if !ok || m.end != c.want || m.sent != 12 || m.offset != 34 || m.sender != s.number {
			t.Errorf("%s: the state is %+v; expected the end %d", what, m, c.want)
		}
	}
}

// After a Write that ends late, the end that waited for the Write is reported once. A failure
// ends the stream.
func TestTheEndThatWaitsForAWriteIsTold(t *testing.T) {
	h := bareHost(t)
	for what, c := range map[string]struct {
		set func(s *Conn)
		err error
		due []kind
	}{
		"nothing waits":                  {func(s *Conn) {}, nil, nil},
		"closed":                         {func(s *Conn) { s.state = stateClosed }, nil, []kind{kindClose}},
		"closed, and a sender has bytes": {func(s *Conn) { s.state, s.draining = stateClosed, true }, nil, nil},
		"closed with unread bytes":       {func(s *Conn) { s.state, s.err = stateClosed, net.ErrClosed }, nil, nil},
		"ended":                          {func(s *Conn) { s.ended = true }, nil, []kind{kindFin}},
		"ended, and a sender has bytes":  {func(s *Conn) { s.ended, s.draining = true, true }, nil, nil},
		"the send has failed":            {func(s *Conn) {}, weft.ErrUnreachable, []kind{kindReset}},
		"the process has ended":          {func(s *Conn) {}, weft.ErrClosed, []kind{kindReset}},
	} {
		s := h.bare()
		s.inWrite = true
		s.drainable, s.stopDraining = h.p.Runtime().NewGate(), func() {}
		c.set(s)
		s.wrote(c.err)
		want := error(nil)
		switch {
		case c.err == weft.ErrClosed:
			want = net.ErrClosed
		case c.err != nil:
			want = syscall.ECONNRESET
		case s.state == stateClosed:
			want = net.ErrClosed
		}
		if due := s.allDue(); !slices.Equal(due, c.due) || s.inWrite || !isOr(s.usable(), want) {
			t.Errorf("%s: the stream owes %d, %v; expected %d, %v", what, due, s.usable(), c.due, want)
		}
	}
}

// A lifted byte counts against the peer's room until the writer has taken the byte. A deadline or
// Close leaves the bytes in the stream.
func TestBytesAreLiftedOnlyFromAnOpenStreamInTime(t *testing.T) {
	h := bareHost(t)
	h.ctx = t.Context()
	for what, c := range map[string]struct {
		set  func(s *Conn)
		want int
	}{
		"bytes wait":              {func(s *Conn) {}, 5000},
		"the deadline has passed": {func(s *Conn) { s.readEnd = time.Now().Add(-time.Second) }, 0},
		"the stream is closed":    {func(s *Conn) { s.state = stateClosed }, 0},
	} {
		s := h.bare()
		s.takes(message{kind: kindData, rest: make([]byte, 5000)})
		c.set(s)
		var out ring
		ok, err := s.lift(&out)
		if err != nil || ok != (c.want > 0) || out.len() != c.want || s.passing != c.want || s.waiting() != 5000-c.want {
			t.Errorf("%s: %v (%v), %d bytes are lifted, %d count, and %d wait; expected %d", what, ok, err, out.len(), s.passing, s.waiting(), c.want)
		}
		if s.giveBack(&out); s.passing != 0 || s.waiting() != 5000 || out.len() != 0 {
			t.Errorf("%s: after giveBack, %d bytes count and %d wait", what, s.passing, s.waiting())
		}
	}
}

// A writer that reports an impossible count has taken nothing.
func TestAWriterThatReportsAnImpossibleCountHasTakenNothing(t *testing.T) {
	h := bareHost(t)
	h.ctx = t.Context()
	for n, want := range map[int]error{-1: errWritten, 101: errWritten, 99: io.ErrShortWrite, 100: nil} {
		s := h.bare()
		s.takes(message{kind: kindData, rest: make([]byte, 100)})
		s.takes(message{kind: kindFin, offset: 100})
		sum, err := s.WriteTo(writes(n))
		taken := max(n, 0)
		if want == errWritten {
			taken = 0
		}
		if err != want || sum != int64(taken) || s.waiting() != 100-taken || s.taken != uint64(taken) {
			t.Errorf("a writer that says %d: %d, %v, and %d bytes are left; expected %d, %v", n, sum, err, s.waiting(), taken, want)
		}
	}
}

// writes is a writer that reports a count.
type writes int

func (n writes) Write([]byte) (int, error) { return int(n), nil }

// A peer that waits for room learns of the room even if this end cannot send the message at once.
func TestRoomThatCannotBeToldAtOnceIsOwed(t *testing.T) {
	for what, c := range map[string]struct {
		set func(s *Conn)
		due []kind
	}{
		"the peer does not know the stream": {func(s *Conn) { s.untold = true }, []kind{kindWindow}},
		"an earlier message is in flight": {func(s *Conn) {
			s.untold, s.told, s.telling = true, true, &telling{on: true}
			// The operation is in flight from now on.
			if err := s.h.p.StartRecv(&s.telling.op, weft.AnyProcess, 12345, nil); err != nil {
				t.Error(err)
			}
		}, []kind{kindWindow}},
		"there is nothing to tell": {func(s *Conn) {}, nil},
		"the stream has failed":    {func(s *Conn) { s.untold, s.state = true, stateFailed }, nil},
	} {
		s := bareHost(t).bare()
		c.set(s)
		s.tellGranted()
		if due := s.allDue(); !slices.Equal(due, c.due) || s.untold {
			t.Errorf("%s: the stream owes %d, untold %v; expected %d", what, due, s.untold, c.due)
		}
		if s.telling != nil && s.telling.on {
			s.telling.op.Cancel()
		}
	}
}
