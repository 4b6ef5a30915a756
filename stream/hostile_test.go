package stream

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// A peer may break the rules in each message. The stream then fails with the cause, tells the
// peer, and accepts no more messages.
func TestAStreamFailsByEachMessageThatBreaksTheRules(t *testing.T) {
	h := bareHost(t)
	data := func(at uint64, n int) message { return message{kind: kindData, offset: at, rest: make([]byte, n)} }
	ten := data(0, 10)
	for what, c := range map[string]struct {
		before []message
		bad    message
		cause  error
	}{
		"a byte too many":                   {[]message{ten}, data(10, readBuffer-9), errBeyond},
		"bytes behind a gap":                {[]message{ten}, data(11, 1), errGap},
		"bytes behind the end":              {[]message{ten, {kind: kindFin, offset: 10}}, data(10, 1), errGap},
		"bytes across the end":              {[]message{ten, {kind: kindFin, offset: 10}}, data(9, 2), errGap},
		"an end before bytes that came":     {[]message{ten}, message{kind: kindFin, offset: 9}, errGap},
		"an end behind bytes that are lost": {[]message{ten}, message{kind: kindFin, offset: 11}, errGap},
		"a close before bytes that came":    {[]message{ten}, message{kind: kindClose, offset: 9}, errGap},
		"a close behind lost bytes":         {[]message{ten}, message{kind: kindClose, offset: 11}, errGap},
		"a state behind lost bytes":         {[]message{ten}, message{kind: kindWindow, sent: 11}, errGap},
		"a ping behind lost bytes":          {[]message{ten}, message{kind: kindPing, sent: 11}, errGap},
		"a pong behind lost bytes":          {[]message{ten}, message{kind: kindPong, sent: 11}, errGap},
		"a state of an end before bytes":    {[]message{ten}, message{kind: kindWindow, sent: 9, end: endsOwn}, errGap},
	} {
		s := h.bare()
		for _, m := range c.before {
			s.takes(m)
		}
		s.allDue()
		if err := s.usable(); err != nil {
			t.Fatalf("%s: before it: %v", what, err)
		}
		taken := s.takes(c.bad)
		if err := s.usable(); !taken || !errors.Is(err, syscall.ECONNRESET) || !errors.Is(err, c.cause) {
			t.Errorf("%s: %v; expected %v", what, err, c.cause)
		}
		if k := s.allDue(); !slices.Contains(k, kindReset) {
			t.Errorf("%s: the peer is told %d; expected a reset", what, k)
		}
		if s.takes(data(10, 5)) || s.received != 10 || s.waiting() != 10 {
			t.Errorf("%s: the failed stream has taken %d bytes", what, s.received)
		}
	}
}

// Values at the bounds, repeated bytes and repeated states do not end a stream. The stream takes
// each byte once.
func TestAStreamTakesEachByteOnce(t *testing.T) {
	s := bareHost(t).bare()
	all := make([]byte, readBuffer)
	for i := range all {
		all[i] = byte(i * 7 >> 3)
	}
	for _, part := range [][2]int{{0, 10}, {0, 10}, {5, 10}, {5, 12}, {0, 20}, {20, 9000}, {100, 8000}, {30, readBuffer}, {readBuffer - 1, readBuffer}} {
		s.takes(message{kind: kindData, offset: uint64(part[0]), rest: all[part[0]:part[1]]})
	}
	s.takes(message{kind: kindWindow, offset: bareWindow + 1, sent: 10}) // an old state
	s.takes(message{kind: kindWindow, offset: 5, sent: readBuffer})
	if err := s.usable(); err != nil || s.window != bareWindow+1 || s.finished {
		t.Fatalf("%v; the window is %d, and the stream has ended: %v", err, s.window, s.finished)
	}
	got, n := make([]byte, readBuffer+1), 0
	for n < readBuffer {
		k, err := s.readNow(got[n:])
		if n += k; err != nil || k == 0 {
			t.Fatalf("%d bytes are read: %v", n, err)
		}
	}
	if !bytes.Equal(got[:n], all) {
		t.Error("other bytes were read")
	}
	s.takes(message{kind: kindPing, offset: 0, sent: readBuffer, end: endsOwn})
	s.takes(message{kind: kindFin, offset: readBuffer})
	s.takes(message{kind: kindData, offset: 7, rest: all[7:20]}) // arrived before
	if _, err := s.readNow(got); err != io.EOF || !s.finished || s.unread || !slices.Contains(s.allDue(), kindPong) {
		t.Errorf("at the end: %v; finished %v, unread %v", err, s.finished, s.unread)
	}
	s.takes(message{kind: kindClose, offset: readBuffer})
	if _, _, _, err := s.mayWrite(1); err != syscall.EPIPE {
		t.Errorf("a write to a peer that has closed: %v", err)
	}
	s.takes(message{kind: kindReset})
	if _, _, _, err := s.mayWrite(1); err != syscall.EPIPE || s.state != stateFailed {
		t.Errorf("a write to a peer that has closed, and forgotten the stream: %v", err)
	}
	if _, err := s.readNow(got); err != io.EOF {
		t.Errorf("a read at the end of a stream that has failed since: %v", err)
	}
}

// Only the dialled peer can answer a dial, with an accept or a refusal.
func TestADialIsAnsweredByItsPeerOnly(t *testing.T) {
	h := bareHost(t)
	for what, c := range map[string]struct {
		from weft.Name
		m    message
		want phase
		err  error
	}{
		"an accept of the peer":        {bareName, message{kind: kindAccept, sender: 4, offset: 50}, stateOpen, nil},
		"no listener":                  {bareName, message{kind: kindRefuse, why: refusedNoListener}, stateFailed, refusedNoListener},
		"a full backlog":               {bareName, message{kind: kindRefuse, why: refusedBacklog}, stateFailed, refusedBacklog},
		"an accept of another process": {weft.Name{App: "other"}, message{kind: kindAccept, sender: 4}, stateDialling, nil},
		"a refusal of another process": {weft.Name{App: "other"}, message{kind: kindRefuse}, stateDialling, nil},
		"data before the answer":       {bareName, message{kind: kindData, rest: []byte("x")}, stateDialling, nil},
		"a reset before the answer":    {bareName, message{kind: kindReset}, stateDialling, nil},
	} {
		s := h.newConn(Addr{}, Addr{Process: bareName}, config{})
		taken := s.take(c.from, barePeer, &c.m)
		if taken != (c.want != stateDialling) || s.state != c.want || !errors.Is(s.usable(), c.err) {
			t.Errorf("%s: taken %v, phase %d, %v", what, taken, s.state, s.usable())
		}
		if c.want == stateOpen && (s.peer != barePeer || s.peerNumber != 4 || s.room() != 50) {
			t.Errorf("%s: the peer is %v, number %d, with room for %d", what, s.peer, s.peerNumber, s.room())
		}
	}
}

// A message of a wrong length or with a wrong value belongs to no stream.
func TestMalformedMessagesAreDiscarded(t *testing.T) {
	end := func(b []byte, e ending) []byte { b[stateBytes-1] = byte(e); return b }
	longest := make([]byte, serviceBytes+1)
	for _, c := range []struct {
		what string
		tag  weft.Tag
		b    []byte
		want bool
	}{
		{"kind 0", tagOf(0, 1), make([]byte, headBytes), false},
		{"the kind behind the last", tagOf(kindPong+1, 1), make([]byte, stateBytes), false},
		{"a kind of more than a byte", tagOf(kindReset, 1) | 1<<(kindShift+8), make([]byte, numberBytes), false},
		{"half a number", tagOf(kindReset, 1), make([]byte, numberBytes-1), false},
		{"a reset", tagOf(kindReset, 1), make([]byte, numberBytes), true},
		{"a long reset", tagOf(kindReset, 1), make([]byte, numberBytes+1), false},
		{"a refusal without a reason", tagOf(kindRefuse, 1), make([]byte, numberBytes), false},
		{"a refusal", tagOf(kindRefuse, 1), make([]byte, numberBytes+1), true},
		{"a long refusal", tagOf(kindRefuse, 1), make([]byte, numberBytes+2), false},
		{"half an accept", tagOf(kindAccept, 1), make([]byte, headBytes-1), false},
		{"an accept", tagOf(kindAccept, 1), make([]byte, headBytes), true},
		{"a long accept", tagOf(kindAccept, 1), make([]byte, headBytes+1), false},
		{"half an end", tagOf(kindFin, 1), make([]byte, headBytes-1), false},
		{"a long end", tagOf(kindFin, 1), make([]byte, headBytes+1), false},
		{"a long close", tagOf(kindClose, 1), make([]byte, headBytes+1), false},
		{"data without bytes", tagOf(kindData, 1), make([]byte, headBytes), false},
		{"one byte of data", tagOf(kindData, 1), make([]byte, headBytes+1), true},
		{"data at the last offset", tagOf(kindData, 1), append(head(new([headBytes]byte), 1, math.MaxUint64-1), 1), true},
		{"data across the last offset", tagOf(kindData, 1), append(head(new([headBytes]byte), 1, math.MaxUint64-1), 1, 2), false},
		{"an open without a service", tagOf(kindOpen, 0), make([]byte, headBytes), false},
		{"an open with the longest service", tagOf(kindOpen, 0), append(make([]byte, headBytes), longest[1:]...), true},
		{"an open with a longer service", tagOf(kindOpen, 0), append(make([]byte, headBytes), longest...), false},
		{"half a state", tagOf(kindWindow, 1), make([]byte, stateBytes-1), false},
		{"a state", tagOf(kindWindow, 1), end(make([]byte, stateBytes), endsBoth), true},
		{"a long state", tagOf(kindPing, 1), make([]byte, stateBytes+1), false},
		{"an unknown end", tagOf(kindPong, 1), end(make([]byte, stateBytes), endsBoth+1), false},
	} {
		if _, ok := parse(c.tag, c.b); ok != c.want {
			t.Errorf("%s is a message: %v; expected %v", c.what, ok, c.want)
		}
	}
	for why, text := range map[refusal]string{0: "refused", refusedNoListener: "nothing listens there", refusedBacklog: "its backlog is full", 9: "refused"} {
		if why.Error() != text {
			t.Errorf("reason %d: %q", why, why.Error())
		}
	}
}

// A call fails after its deadline. Before the deadline, or without one, it does not fail.
func TestADeadlineInTheFutureHasNotPassed(t *testing.T) {
	s := bareHost(t).bare()
	now := time.Now()
	for end, want := range map[time.Time]error{{}: nil, now.Add(time.Hour): nil, now.Add(-1): os.ErrDeadlineExceeded} {
		if err := s.late(end); err != want {
			t.Errorf("a deadline %v from now: %v; expected %v", end.Sub(now), err, want)
		}
	}
}
