package weft

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/idle"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/poller"
	"github.com/weftnet/weft/internal/vni"
)

// straight is the straight way of an embedded process: it takes the engine for as long as one message needs.
type straight struct {
	poller *poller.Poller
	way    *nic.Straight
	lone   bool // the link takes lone messages at one step
	shows  bool // and shows what comes before it is taken
	hold   bool // the Send that is open may wait
	inVain bool // SendMany has waited for room in vain, and nothing has left since: it does not wait again
}

// newStraight finds the straight way of the process at slot.
func (n *NIC) newStraight(slot uint16, gen uint32) (s *straight, err error) {
	n.poller.Do(func(clock.Time) {
		if way := n.engine.Straight(slot, gen, poller.Now); way != nil {
			s = &straight{poller: n.poller, way: way, lone: posts(n.link)}
			_, s.shows = n.link.(link.Peeker)
		}
	})
	if s == nil {
		return nil, ErrClosed
	}
	return s, nil
}

// posts reports whether a link takes a lone message at one step.
func posts(l link.Driver) bool {
	_, lone := l.(link.LonePoster)
	_, kept := l.(link.Poster)
	return lone || kept
}

// Post implements vni.Straight.
func (s *straight) Post(to *vni.Name, tag uint64, payload []byte) bool {
	if !s.lone || !s.poller.Enter() {
		return false
	}
	next, sent := s.way.Post(to, tag, payload)
	s.poller.Leave(next)
	return sent
}

// Meet implements vni.Straight.
func (s *straight) Meet(from *vni.Name, tag uint64, anyTag bool, buf []byte) (m vni.Met) {
	if !s.shows || !s.poller.Enter() {
		return m
	}
	if s.way.Expect(from, tag, anyTag) {
		now, polled, ok := s.poller.Settle()
		if ok && (!polled || s.way.Expect(from, tag, anyTag)) {
			if now, ok = s.poller.Linger(now); ok {
				m = s.way.Meet(now, buf) // if it is something else, the caller waits, and polls
			}
		}
	}
	s.poller.Leave(s.way.Due())
	return m
}

// Send implements vni.Straight. The engine is the caller's until Sent.
func (s *straight) Send(m vni.StraightSend) []byte {
	if !s.poller.Enter() {
		return nil
	}
	b := s.way.Send(&m)
	if s.hold = m.Hold; b == nil {
		s.poller.Leave(clock.Never)
	}
	return b
}

// Sent implements vni.Straight.
func (s *straight) Sent() {
	switch {
	case !s.hold:
		s.poller.Leave(s.way.Sent())
	case s.way.Hold(): // there are as many as are worth a poll, which takes in acknowledgements and credit as well
		s.poller.LeavePolling()
	default:
		s.poller.Leave(0) // somebody must look soon, and often
	}
}

// SendMany implements vni.Straight.
func (s *straight) SendMany(m vni.StraightSend, messages [][]byte) (sent int) {
	if !s.poller.Enter() {
		return 0
	}
	m.Hold = true
	messages = messages[:min(len(messages), limits.HeldMessages)] // others want the engine, too
	held := false                                                 // some of them, since the last poll
	for sent < len(messages) {
		n, holds, enough := s.sendSome(&m, messages[sent:])
		if n == 0 {
			held = false // it polls
			var inside bool
			if n, holds, inside = s.awaitRoom(&m, messages[sent:]); !inside {
				return sent
			} else if n == 0 {
				break
			}
		}
		sent += n
		if held = held || holds; enough {
			s.poller.Poll()
			held = false
		}
	}
	if held {
		s.poller.Leave(s.way.Sent())
	} else {
		s.poller.Leave(clock.Never)
	}
	return sent
}

// sendSome sends the first of many messages by a frame, or by a segment where they are held until there are enough.
func (s *straight) sendSome(m *vni.StraightSend, messages [][]byte) (n int, held, enough bool) {
	if n = s.way.SendFrame(m, messages); n == 0 {
		n, enough = s.sendHeld(m, messages)
		held = n > 0
	}
	s.inVain = s.inVain && n == 0
	return n, held, enough
}

// awaitRoom polls until some of many messages can leave, and sends them: a poll may bring credit, or a later one if the receiver
// is about to read. To ask for permission costs more than so many messages do, at both ends: what comes by permission is not
// whole when it is matched, and ends the batch of an Inbox. Others have the engine in between, and may close it: then the
// caller is not inside any more.
func (s *straight) awaitRoom(m *vni.StraightSend, messages [][]byte) (n int, held, inside bool) {
	idle.Enter()
	defer idle.Leave()
	var pace idle.Pace
	last := s.inVain
	for begin, again := poller.Now(), false; ; again = true {
		s.poller.LeavePolling()
		if again {
			now := poller.Now()
			last = now.Sub(begin) > roomWait || pace.Rest(now, idle.Relax, poller.Now)
		}
		if !s.poller.Enter() {
			return 0, false, false
		}
		if n, held, _ = s.sendSome(m, messages); n > 0 {
			return n, held, true
		}
		if s.inVain = last; last || !s.way.MaySoon(m, len(messages[0])) {
			return 0, false, true
		}
	}
}

// roomWait is for how long SendMany waits for room before it does as Send would, which then waits for permission as long without
// sleeping: a receiver reads a hundred microseconds and more before it polls.
const roomWait = idle.Awake

// sendHeld sends the first of many messages by a segment, where they are held until there are enough.
func (s *straight) sendHeld(m *vni.StraightSend, messages [][]byte) (n int, enough bool) {
	if n, enough = s.way.SendSegment(m, messages); n > 0 {
		return n, enough
	}
	m.Len = len(messages[0])
	b := s.way.Send(m)
	if b == nil {
		return 0, false
	}
	copy(b, messages[0])
	return 1, s.way.Hold()
}

// Receive implements vni.Straight.
func (s *straight) Receive(r *vni.StraightReceive) bool {
	if !s.poller.Enter() {
		return false
	}
	next, ok := s.way.Receive(r)
	for n := 0; !ok && s.way.Behind() && n < behindPolls; n++ {
		s.poller.Poll()
		next, ok = s.way.Receive(r)
	}
	s.poller.Leave(next)
	return ok
}

// behindPolls is how many polls a receive does to have the commands read that stand before it. With contexts for all
// of them, there may be more.
const behindPolls = 4

// Cancel implements vni.Straight.
func (s *straight) Cancel(r *vni.StraightReceive) {
	s.poller.Do(func(now clock.Time) { s.way.Cancel(now, r) })
}

// Swap implements vni.Straight.
func (s *straight) Swap(r *vni.StraightReceive, empty *vni.Batch) (taken *vni.Batch) {
	if s.poller.Enter() {
		taken = s.way.Swap(r, empty)
		s.poller.Leave(clock.Never)
	}
	return taken
}

// Return implements vni.Straight.
func (s *straight) Return(r *vni.StraightReceive, first int, batches ...*vni.Batch) {
	s.poller.Do(func(now clock.Time) { s.way.Return(now, r, first, batches...) })
}

// Close implements vni.Straight.
func (s *straight) Close() { s.poller.Do(s.way.Close) }

// Idle implements vni.Straight.
func (s *straight) Idle() bool { return s.way.Idle() }
