package stream

import (
	"bytes"
	"testing"
	"time"
)

// A sender of joined bytes starts only if the stream can still send. Bytes that were possibly
// sent are sent again even after Close, and Close waits for them.
func TestASenderBeginsOnlyForAStreamThatCanSend(t *testing.T) {
	for what, c := range map[string]struct {
		set          func(s *Conn)
		joins, again int
	}{
		"open":     {func(s *Conn) {}, 5, 5},
		"closed":   {func(s *Conn) { s.state = stateClosed }, 0, 5},
		"failed":   {func(s *Conn) { s.state, s.err = stateFailed, errGap }, 0, 0},
		"given up": {func(s *Conn) { s.state, s.err = stateClosed, errGap }, 0, 0},
	} {
		h := bareHost(t)
		h.ctx = t.Context()
		for i, start := range []func(s *Conn) int{func(s *Conn) int { return s.startToJoin([]byte("bytes")) }, func(s *Conn) int { return s.resend([]byte("bytes")) }} {
			s := h.bare()
			c.set(s)
			want := []int{c.joins, c.again}[i]
			n := start(s)
			s.mu.Lock()
			draining, joined := s.draining, bytes.Clone(s.joined)
			s.mu.Unlock()
			if n != want || draining != (want > 0) || want > 0 && string(joined) != "bytes" {
				t.Errorf("%s, way %d: %d bytes are taken, sender %v, and %q waits; expected %d", what, i, n, draining, joined, want)
			}
			if draining { // a failure ends the sender that waits for room
				s.fail(errBeyond, false)
				for end := time.Now().Add(time.Minute); s.drains(); time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("%s: the sender of a failed stream has not ended", what)
					}
				}
			}
		}
	}
	h := bareHost(t) // its process has ended
	if s := h.bare(); s.resend([]byte("bytes")) != 0 || s.draining {
		t.Error("a sender begins for a process that has ended")
	}
}

// A Write or a sender of joined bytes reports the end after its last byte. A closed stream stays
// registered until its sender has ended.
func TestAnEndDoesNotOvertakeBytes(t *testing.T) {
	for what, c := range map[string]struct {
		set   func(s *Conn)
		known bool
	}{
		"a Write":  {func(s *Conn) { s.inWrite = true }, false},
		"a sender": {func(s *Conn) { s.draining, s.stopDraining, s.drainable = true, func() {}, s.h.p.Runtime().NewGate() }, true},
	} {
		s := bareHost(t).bare()
		c.set(s)
		if err := s.CloseWrite(); err != nil || !s.ended || s.allDue() != nil {
			t.Errorf("%s: CloseWrite has overtaken it (%v)", what, err)
		}
		if err := s.Close(); err != nil || s.allDue() != nil {
			t.Errorf("%s: Close has overtaken it (%v)", what, err)
		}
		if known := s.h.conns[s.number] == s && s.h.accepted[peerKey{barePeer, bareNumber}] == s; known != c.known {
			t.Errorf("%s: after Close, the stream is known: %v", what, known)
		}
		s = bareHost(t).bare()
		c.set(s)
		s.takes(message{kind: kindData, rest: []byte("unread")})
		if err := s.Close(); err != nil || len(s.allDue()) != 1 || s.err == nil || len(s.h.conns) != 0 {
			t.Errorf("%s: Close with unread bytes leaves the error %v (%v), and %d streams", what, s.err, err, len(s.h.conns))
		}
	}
}
