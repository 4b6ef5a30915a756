package stream

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// A stream keeps each of its times: for the question to its peer, the question to the peer's NIC,
// and the failure. Nothing happens a nanosecond before such a time.
func TestAStreamActsAtItsTimesAndNotBefore(t *testing.T) {
	const after, patience = 10 * time.Second, time.Minute
	h := bareHost(t)
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for what, c := range map[string]struct {
		set      func(s *Conn)
		due      []kind
		question bool
		err      error
	}{
		"a state just came":          {func(s *Conn) { s.learned, s.stated = ago(time.Hour), true }, nil, false, nil},
		"KeepAlive has not passed":   {func(s *Conn) { s.learned = ago(after - 1) }, nil, false, nil},
		"KeepAlive has passed":       {func(s *Conn) { s.learned = ago(after) }, []kind{kindPing}, false, nil},
		"bytes came, but no state":   {func(s *Conn) { s.learned, s.stirred = ago(after), true }, []kind{kindPing}, false, nil},
		"the ping is young":          {func(s *Conn) { s.learned, s.asked = ago(2*after), ago(keepEvery-1) }, nil, false, nil},
		"the ping has no answer":     {func(s *Conn) { s.learned, s.asked = ago(2*after), ago(keepEvery) }, nil, true, nil},
		"the NIC was questioned":     {func(s *Conn) { s.learned, s.asked, s.questioned = ago(2*after), ago(keepEvery), true }, nil, false, nil},
		"the stream has no Patience": {func(s *Conn) { s.learned, s.asked, s.cfg.patience = ago(2*after), ago(keepEvery), -1 }, nil, false, nil},
		"a short KeepAlive":          {func(s *Conn) { s.learned, s.asked, s.cfg.keepAlive = ago(after), now, 2*keepEvery }, nil, true, nil},
		"a KeepAlive beyond that":    {func(s *Conn) { s.learned, s.asked, s.cfg.keepAlive = ago(after), now, 2*keepEvery+1 }, nil, false, nil},
		"silence after a ping":       {func(s *Conn) { s.learned, s.asked, s.heard = ago(2*after), ago(after), ago(after) }, []kind{kindReset}, false, errSilence},
		"the ping is not old enough": {func(s *Conn) {
			s.learned, s.asked, s.heard, s.questioned = ago(2*after), ago(after-1), ago(after), true
		}, nil, false, nil},
		"a message after a ping":    {func(s *Conn) { s.learned, s.asked, s.heard = ago(2*after), ago(after), ago(after-1) }, []kind{kindPing}, false, nil},
		"bytes came after a ping":   {func(s *Conn) { s.learned, s.asked, s.heard, s.stirred = ago(2*after), ago(after), ago(after), true }, []kind{kindPing}, false, nil},
		"a state came after a ping": {func(s *Conn) { s.learned, s.asked, s.heard, s.stated = ago(2*after), ago(after), ago(after), true }, nil, false, nil},
		"bytes came after a doubt":  {func(s *Conn) { s.doubted, s.heard, s.stirred = ago(keepEvery), ago(keepEvery), true }, nil, false, nil},
		"the NIC vouches": {func(s *Conn) {
			s.learned, s.asked, s.heard, s.vouched = ago(patience), ago(after), ago(patience-1), true
		}, []kind{kindPing}, false, nil},
		"Patience has passed":         {func(s *Conn) { s.learned, s.asked, s.heard, s.vouched = ago(patience), ago(after), ago(patience), true }, []kind{kindReset}, false, errSilence},
		"no KeepAlive":                {func(s *Conn) { s.learned, s.cfg.keepAlive = ago(time.Hour), -1 }, nil, false, nil},
		"a doubt just came":           {func(s *Conn) { s.doubted, s.heard = ago(keepEvery-1), ago(after) }, nil, false, nil},
		"a doubt, and a message":      {func(s *Conn) { s.doubted, s.heard = ago(keepEvery), ago(keepEvery-1) }, nil, false, nil},
		"a doubt, and silence":        {func(s *Conn) { s.doubted, s.heard = ago(keepEvery), ago(keepEvery) }, []kind{kindReset}, false, errEnded},
		"a doubt about a closed peer": {func(s *Conn) { s.doubted, s.heard, s.unread = ago(keepEvery), ago(keepEvery), true }, []kind{kindReset}, false, syscall.EPIPE},
		"silence of a closed peer":    {func(s *Conn) { s.learned, s.asked, s.heard, s.unread = ago(2*after), ago(after), ago(after), true }, []kind{kindReset}, false, syscall.EPIPE},
		"the stream is dialling":      {func(s *Conn) { s.state, s.learned, s.asked = stateDialling, ago(time.Hour), ago(time.Hour) }, nil, false, nil},
		"the stream has failed": {func(s *Conn) {
			s.state, s.err, s.learned, s.doubted = stateFailed, errGap, ago(time.Hour), ago(time.Hour)
		}, nil, false, errGap},
	} {
		s := h.bare()
		s.cfg = config{after, patience}
		s.heard, s.learned = now, now
		c.set(s)
		peer, question := s.keepAlive(now)
		if err := s.usable(); !isOr(err, c.err) {
			t.Errorf("%s: %v; expected %v", what, err, c.err)
		}
		if due := s.allDue(); !slices.Equal(due, c.due) || question != c.question || question != (peer == barePeer) {
			t.Errorf("%s: the stream owes %d, and questions %v: %v; expected %d, %v", what, due, peer, question, c.due, c.question)
		}
		if s.stirred || s.stated {
			t.Errorf("%s: a message counts twice", what)
		}
		if _, again := s.keepAlive(now); again {
			t.Errorf("%s: the NIC is questioned twice for one ping", what)
		}
	}
}

// A closed stream keeps its unsent bytes for a minute, and then tells the peer that they are lost.
func TestAClosedStreamIsGivenUpAfterItsTimeOnly(t *testing.T) {
	h := bareHost(t)
	now := time.Now()
	for _, c := range []struct {
		closed time.Duration
		due    []kind
	}{{lingers - 1, nil}, {lingers, []kind{kindReset}}} {
		s := h.bare()
		stopped := false
		s.state, s.draining, s.closed, s.stopDraining = stateClosed, true, now.Add(-c.closed), func() { stopped = true }
		s.drainable = h.p.Runtime().NewGate()
		s.keepAlive(now)
		if due := s.allDue(); !slices.Equal(due, c.due) || stopped != (c.due != nil) || stopped != (s.err != nil) {
			t.Errorf("a stream that was closed %v ago owes %d, and its sender has ended: %v (%v)", c.closed, due, stopped, s.err)
		}
	}
}

// The answer of a NIC concerns only the streams to the process that it names. Only the answer
// that the process has ended raises a doubt.
func TestTheAnswerOfANICConcernsOneProcess(t *testing.T) {
	h := bareHost(t)
	for what, c := range map[string]struct {
		err            error
		about          weft.Address
		vouched, doubt bool
	}{
		"it lives":                {nil, barePeer, true, false},
		"it has ended":            {weft.ErrProcessGone, barePeer, false, true},
		"another has its slot":    {weft.ErrStaleGeneration, barePeer, false, true},
		"the NIC is silent":       {weft.ErrUnreachable, barePeer, false, false},
		"another process lives":   {nil, weft.Address{NIC: barePeer.NIC, Slot: 1}, false, false},
		"another process has end": {weft.ErrProcessGone, weft.Address{NIC: barePeer.NIC, Slot: 1}, false, false},
	} {
		s, unasked := h.bare(), h.bare()
		s.questioned = true
		h.questions[c.about], h.questions[weft.Address{}] = true, true
		h.answered(c.about, c.err)
		if s.vouched != c.vouched || unasked.vouched || s.doubted.IsZero() == c.doubt || len(h.questions) != 1 {
			t.Errorf("%s: vouched %v, without a question %v, doubted %v, and %d of 2 questions are left", what, s.vouched, unasked.vouched, s.doubted, len(h.questions))
		}
		var want []kind
		if c.doubt {
			want = []kind{kindPing}
		}
		if due := s.allDue(); !slices.Equal(due, want) {
			t.Errorf("%s: the stream owes %d; expected %d", what, due, want)
		}
		h.forget(s)
		h.forget(unasked)
	}
}

// An event about a process or a NIC raises a doubt about the open streams to it, and about no
// others.
func TestAnEventConcernsTheStreamsToItsAddress(t *testing.T) {
	h := bareHost(t)
	for what, c := range map[string]struct {
		ended weft.Address
		want  bool
	}{
		"the process":                    {barePeer, true},
		"its NIC":                        {weft.Address{NIC: barePeer.NIC}, true},
		"another NIC":                    {weft.Address{NIC: barePeer.NIC + 1}, false},
		"another process":                {weft.Address{NIC: barePeer.NIC, Slot: barePeer.Slot + 1, Generation: 1}, false},
		"an earlier process of its slot": {weft.Address{NIC: barePeer.NIC, Slot: barePeer.Slot, Generation: barePeer.Generation - 1}, false},
	} {
		s, failed := h.bare(), h.bare()
		failed.failLocked(errGap, false)
		h.doubt(c.ended)
		if s.doubted.IsZero() == c.want || !failed.doubted.IsZero() {
			t.Errorf("%s has ended: the stream is doubted since %v, and the failed one since %v", what, s.doubted, failed.doubted)
		}
		if c.want {
			s.takes(message{kind: kindWindow})
			still := !s.doubted.IsZero()
			s.takes(message{kind: kindPong})
			if !still || !s.doubted.IsZero() {
				t.Errorf("%s has ended: a state ends the doubt: %v, and a pong does not: %v", what, !still, s.doubted)
			}
		}
		h.forget(s)
		h.forget(failed)
	}
}

// After a pause of the process, all times that are set move by the pause. Zero times stay zero.
func TestTimesMoveByThePauseOfTheProcess(t *testing.T) {
	s := bareHost(t).bare()
	at := time.Now()
	s.heard, s.learned, s.asked, s.doubted, s.closed = at, at, at, at, time.Time{}
	s.overslept(time.Minute)
	for i, moved := range []time.Time{s.heard, s.learned, s.asked, s.doubted} {
		if moved.Sub(at) != time.Minute {
			t.Errorf("time %d has moved by %v", i, moved.Sub(at))
		}
	}
	if !s.closed.IsZero() {
		t.Errorf("a time that was not set has moved to %v", s.closed)
	}
}

// A stream fails once. A later failure replaces no error, and tells the peer nothing more.
func TestAFailedStreamKeepsItsFirstError(t *testing.T) {
	s := bareHost(t).bare()
	s.failLocked(errGap, true)
	s.failLocked(errBeyond, true)
	if err := s.usable(); !errors.Is(err, errGap) || !slices.Equal(s.allDue(), []kind{kindReset}) {
		t.Errorf("the stream has failed with %v", err)
	}
	s.failLocked(errBeyond, true)
	if due := s.allDue(); due != nil {
		t.Errorf("a stream that fails again owes %d", due)
	}
}
