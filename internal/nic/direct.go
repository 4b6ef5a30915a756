package nic

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Turns lends an engine to the callers of the straight way, one caller at a time. internal/poller
// implements it on the real clock, and the simulator's scheduler in virtual time.
type Turns interface {
	// Enter gives the caller the engine for a moment: Leave or LeavePolling must follow. It
	// returns false if the engine is gone.
	Enter() bool
	// Leave gives the engine back. It must be polled no later than next.
	Leave(next clock.Time)
	// LeavePolling polls the engine and then gives it back as Leave does.
	LeavePolling()
	// Poll polls while the caller keeps the engine.
	Poll()
	// Do calls Enter, f and LeavePolling.
	Do(f func(now clock.Time))

	// Settle prepares the engine for a caller that is about to Linger: it polls if a poll is due.
	// ok is false if another caller polls, or will.
	Settle() (now clock.Time, polled, ok bool)
	// Linger waits a moment, after Settle, until the link has a frame. ok is false if no frame
	// came, or if another caller wants the engine.
	Linger(begun clock.Time) (now clock.Time, ok bool)

	// Pause begins a wait for room.
	Pause() Pause
}

// Pause is one wait for room, with polls in between.
type Pause interface {
	// Rest waits a moment, outside of the engine. It reports whether further waiting is not
	// worthwhile.
	Rest() (last bool)
	// End ends the wait.
	End()
}

// Direct is the straight way of one process for its callers (vni.Straight). Each call takes the
// engine from Turns for the time of one message.
type Direct struct {
	turns Turns
	way   *Straight
	lone  bool // the link takes lone messages in one step
	shows bool // the link shows a frame before it is taken
	hold  bool // the open Send may wait
	// SendMany waited for room without success, and nothing has left since: it does not wait
	// again.
	inVain bool
}

// NewDirect returns the straight way for callers that take the engine by turns.
func NewDirect(way *Straight, turns Turns) *Direct {
	c := &way.e.caps
	return &Direct{turns: turns, way: way, lone: c.PostLone != nil || c.Post != nil, shows: c.Peek != nil}
}

// Post implements vni.Straight.
func (d *Direct) Post(to *vni.Name, tag uint64, payload []byte) bool {
	if !d.lone || !d.turns.Enter() {
		return false
	}
	next, sent := d.way.Post(to, tag, payload)
	d.turns.Leave(next)
	return sent
}

// Meet implements vni.Straight.
func (d *Direct) Meet(from *vni.Name, tag uint64, anyTag bool, buf []byte) (m vni.Met) {
	if !d.shows || !d.turns.Enter() {
		return m
	}
	if d.way.Expect(from, tag, anyTag) {
		now, polled, ok := d.turns.Settle()
		if ok && (!polled || d.way.Expect(from, tag, anyTag)) {
			if now, ok = d.turns.Linger(now); ok {
				// If the frame is something else, the caller waits, and polls.
				m = d.way.Meet(now, buf)
			}
		}
	}
	d.turns.Leave(d.way.Due())
	return m
}

// Send implements vni.Straight. The caller has the engine until Sent.
func (d *Direct) Send(m vni.StraightSend) []byte {
	if !d.turns.Enter() {
		return nil
	}
	b := d.way.Send(&m)
	if d.hold = m.Hold; b == nil {
		d.turns.Leave(clock.Never)
	}
	return b
}

// Datagram implements vni.Straight.
func (d *Direct) Datagram(m vni.StraightSend, parts [][]byte) bool {
	if !d.turns.Enter() {
		return false
	}
	sent, full := d.way.Datagram(&m, parts)
	if full {
		d.turns.Poll()
		sent, _ = d.way.Datagram(&m, parts)
	}
	switch {
	case !sent:
		d.turns.Leave(clock.Never)
	case m.Hold:
		d.turns.Leave(0) // it leaves with the next poll
	default:
		d.turns.LeavePolling()
	}
	return sent
}

// Sent implements vni.Straight.
func (d *Direct) Sent() {
	switch {
	case !d.hold:
		d.turns.Leave(d.way.Sent())
	case d.way.Hold():
		// As many as are worth a poll, which takes in acknowledgements and credit as well.
		d.turns.LeavePolling()
	default:
		d.turns.Leave(0) // the engine must be looked at soon, and often
	}
}

// Flush implements vni.Straight.
func (d *Direct) Flush() {
	if !d.turns.Enter() {
		return
	}
	if d.way.Flush() {
		d.turns.Leave(clock.Never)
	} else {
		d.turns.LeavePolling()
	}
}

// SendMany implements vni.Straight.
func (d *Direct) SendMany(m vni.StraightSend, messages [][]byte) (sent int) {
	if !d.turns.Enter() {
		return 0
	}
	m.Hold = true
	messages = messages[:min(len(messages), limits.HeldMessages)] // others want the engine, too
	// Some messages are held since the last poll.
	held := false
	for sent < len(messages) {
		n, holds, enough := d.sendSome(&m, messages[sent:])
		if n == 0 {
			held = false // it polls
			var inside bool
			if n, holds, inside = d.awaitRoom(&m, messages[sent:]); !inside {
				return sent
			} else if n == 0 {
				break
			}
		}
		sent += n
		if held = held || holds; enough {
			d.turns.Poll()
			held = false
		}
	}
	if held {
		d.turns.Leave(d.way.Sent())
	} else {
		d.turns.Leave(clock.Never)
	}
	return sent
}

// sendSome sends the first of many messages: a frame full, or a segment full if messages are held
// until there are enough.
func (d *Direct) sendSome(m *vni.StraightSend, messages [][]byte) (n int, held, enough bool) {
	n, held, enough = d.way.SendSome(m, messages)
	d.inVain = d.inVain && n == 0
	return n, held, enough
}

// awaitRoom polls until some of many messages can leave, and sends them. A poll may bring credit,
// or a later one if the receiver is about to read. A request for permission costs more than these
// messages do, at both ends: a message that comes by permission is not whole when it is matched,
// and ends the batch of an Inbox. Others have the engine between the polls, and may close it. The
// caller is then no longer inside.
func (d *Direct) awaitRoom(m *vni.StraightSend, messages [][]byte) (n int, held, inside bool) {
	pause := d.turns.Pause()
	defer pause.End()
	for last, again := d.inVain, false; ; again = true {
		d.turns.LeavePolling()
		if again {
			last = pause.Rest()
		}
		if !d.turns.Enter() {
			return 0, false, false
		}
		if n, held, _ = d.sendSome(m, messages); n > 0 {
			return n, held, true
		}
		if d.inVain = last; last || !d.way.MaySoon(m, len(messages[0])) {
			return 0, false, true
		}
	}
}

// Receive implements vni.Straight.
func (d *Direct) Receive(r *vni.StraightReceive) bool {
	if !d.turns.Enter() {
		return false
	}
	next, ok := d.way.Receive(r)
	for n := 0; !ok && d.way.Behind() && n < behindPolls; n++ {
		d.turns.Poll()
		next, ok = d.way.Receive(r)
	}
	d.turns.Leave(next)
	return ok
}

// behindPolls is how many polls a receive makes so that the commands before it are read. If all
// contexts have commands, there may be more commands than these polls read.
const behindPolls = 4

// Cancel implements vni.Straight.
func (d *Direct) Cancel(r *vni.StraightReceive) {
	d.turns.Do(func(now clock.Time) { d.way.Cancel(now, r) })
}

// Close implements vni.Straight.
func (d *Direct) Close() { d.turns.Do(d.way.Close) }

// Idle implements vni.Straight.
func (d *Direct) Idle() bool { return d.way.Idle() }
