package stream

import (
	"encoding/binary"
	"errors"
	"syscall"
	"time"

	"github.com/weftnet/weft"
)

// Errors that one end finds in what the other has sent, or in what is missing of it.
var (
	errGap     = errors.New("stream: bytes are missing")
	errBeyond  = errors.New("stream: the peer has sent more than it may")
	errSilence = errors.New("stream: the peer is silent")
	errAnother = errors.New("stream: another process has the peer's name")
	errEnded   = errors.New("stream: the peer's process has ended")
)

// opened notes what the peer's open, or its accept, says.
func (c *Conn) opened(addr weft.Address, m *message) {
	c.peer, c.peerNumber, c.window, c.state = addr, m.sender, m.offset, stateOpen
}

// take takes a message for the stream. It returns false if its sender has no part in it. What is sent to the peer's name may come to another process that has
// been given that since: its reset says that the peer is gone.
func (c *Conn) take(from weft.Name, addr weft.Address, m *message) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == stateDialling {
		return from == c.remote.Process && c.answered(addr, m)
	}
	if m.kind == kindReset && addr != c.peer && from == c.remote.Process && m.sender == c.peerNumber {
		c.failLocked(c.unlessEnded(because(syscall.ECONNRESET, errAnother)), false)
		return true
	}
	if addr != c.peer || m.sender != c.peerNumber || c.state != stateOpen && (!c.lingering() || m.kind == kindData) {
		return m.kind == kindAccept && addr == c.peer && m.sender == c.peerNumber // again, to a dial that was repeated
	}
	c.stirred = true
	c.heardSum++
	c.peerKnows() // it has the stream's number from the accept
	switch m.kind {
	case kindData:
		c.takeData(m)
	case kindWindow:
		c.takeState(m)
	case kindPong:
		c.doubted = time.Time{}
		c.takeState(m)
	case kindFin:
		c.takeEnd(m.offset, endsOwn)
	case kindClose:
		c.takeEnd(m.offset, endsBoth)
	case kindReset:
		c.failLocked(c.unlessEnded(syscall.ECONNRESET), false)
	case kindPing:
		c.takeState(m)
		c.oweLocked(dutyPong)
	}
	return true
}

// unlessEnded is the error of a stream whose peer has failed or is silent. One that has been closed in order has nothing more to say, and knows of no
// stream: that is no failure, but an end of Writes.
func (c *Conn) unlessEnded(err error) error {
	if c.unread {
		return syscall.EPIPE
	}
	return err
}

// takeState takes all that the peer says of itself. A message with some of it may have been lost with a session of the NICs.
func (c *Conn) takeState(m *message) {
	c.stated = true
	if m.offset > c.window {
		c.window = m.offset
		c.maySend()
	}
	switch {
	case m.sent > c.received:
		c.failLocked(because(syscall.ECONNRESET, errGap), true)
	case m.end > endsNot:
		c.takeEnd(m.sent, m.end)
	}
}

// tell is what the stream says of itself. Under mu.
func (c *Conn) tell(b *[stateBytes]byte) []byte {
	end := endsNot
	switch {
	case c.inWrite || c.draining: // there may be bytes before the end
	case c.state == stateClosed:
		end = endsBoth
	case c.ended:
		end = endsOwn
	}
	return state(b, c.number, c.granted, c.sent, end)
}

// answered takes the answer to a dial.
func (c *Conn) answered(addr weft.Address, m *message) bool {
	switch m.kind {
	case kindAccept:
		c.opened(addr, m)
		c.told = true
		c.look()
	case kindRefuse:
		c.state, c.err = stateFailed, because(syscall.ECONNREFUSED, m.why)
		c.look()
	default:
		return false
	}
	return true
}

// takeData takes bytes of the stream. Of those that come twice, as after a message that was withdrawn too late, it takes the new ones.
func (c *Conn) takeData(m *message) {
	b, end := m.rest, m.offset+uint64(len(m.rest))
	switch {
	case end > c.granted:
		c.failLocked(because(syscall.ECONNRESET, errBeyond), true)
		return
	case m.offset > c.received || c.finished && end > c.received:
		c.failLocked(because(syscall.ECONNRESET, errGap), true)
		return
	case end <= c.received:
		return
	}
	b = b[c.received-m.offset:]
	c.received = end
	if c.want != nil && c.in.len() == 0 {
		n := copy(c.want[c.got:], b)
		c.got += n
		b = b[n:]
	}
	if len(b) > 0 {
		c.lend(b)
	}
	c.countLocked(false)
	c.readable.Open()
}

// takeEnd takes the end of what the peer sends. It may be told more than once.
func (c *Conn) takeEnd(at uint64, end ending) {
	if at != c.received {
		c.failLocked(because(syscall.ECONNRESET, errGap), true)
		return
	}
	c.finished = true
	c.unread = c.unread || end == endsBoth
	c.look()
}

// due returns the next message that the stream owes its peer; ok is false if it owes none.
func (c *Conn) due() (tag weft.Tag, body []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.behind = false
	if c.state == stateDialling {
		c.duties = 0
	}
	if c.duties&dutyReset != 0 {
		c.duties &= dutyAccept | dutyFin | dutyReset // the rest is not so any more: a Close ends behind what was written, and that may be lost
	}
	if c.duties == 0 {
		c.owed = false
		c.leftLocked()
		return 0, nil, false
	}
	d := c.duties & -c.duties
	c.duties &^= d
	if d == dutyReset {
		return tagOf(kindReset, c.peerNumber), binary.LittleEndian.AppendUint32(nil, c.number), true
	}
	switch d {
	case dutyAccept:
		return tagOf(kindAccept, c.peerNumber), head(new([headBytes]byte), c.number, c.granted), true
	case dutyFin:
		return tagOf(kindFin, c.peerNumber), head(new([headBytes]byte), c.number, c.sent), true
	case dutyClose:
		return tagOf(kindClose, c.peerNumber), head(new([headBytes]byte), c.number, c.sent), true
	}
	k := kindWindow
	switch d {
	case dutyPing:
		k = kindPing
	case dutyPong:
		k = kindPong
	}
	return tagOf(k, c.peerNumber), c.tell(new([stateBytes]byte)), true
}

// announced notes that the first message of an accepted stream, its accept, has been sent. A Write that begins sooner waits, or its bytes would come to
// a peer that knows of no stream.
func (c *Conn) announced(o *weft.Op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last = nil; c.state >= stateFailed {
		c.last = o
	}
	c.peerKnows()
}

// peerKnows notes that the peer knows of the stream. Under mu.
func (c *Conn) peerKnows() {
	if !c.told {
		c.told = true
		c.maySend()
	}
}

// keepEvery is how often streams are looked at.
const keepEvery = time.Second

// doubt asks a peer that is said to have ended whether it has: it is a process with an address, or any of a NIC, whose address has no slot.
// The event may have come before what the peer had sent, and, that of a NIC, behind the first of its next life.
func (c *Conn) doubt(ended weft.Address, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == stateOpen && (c.peer == ended || ended == weft.Address{NIC: c.peer.NIC}) {
		c.doubted = now
		c.oweLocked(dutyPing)
	}
}

// ceased reports whether a peer that is said to have ended has told nothing since. Under mu.
func (c *Conn) ceased(now time.Time) bool {
	return !c.doubted.IsZero() && now.Sub(c.doubted) >= keepEvery && now.Sub(c.heard) >= keepEvery
}

// keepAlive asks a peer whose state has not come for a while for it, and fails the stream if nothing at all comes then. Bytes that come do not spare the
// question: room or an end may have been told of and lost, and the stream would wait for that for good.
func (c *Conn) keepAlive(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stirred {
		c.stirred, c.heard = false, now
	}
	if c.stated {
		c.stated, c.learned, c.asked = false, now, time.Time{}
	}
	if c.lingering() && now.Sub(c.closed) >= lingers {
		c.failLocked(because(syscall.ETIMEDOUT, errSilence), true)
	}
	c.trim()
	after := c.cfg.keepAlive
	switch {
	case c.state == stateOpen && c.ceased(now):
		c.failLocked(c.unlessEnded(because(syscall.ECONNRESET, errEnded)), true)
	case c.state != stateOpen || after < 0 || now.Sub(c.learned) < after || !c.asked.IsZero() && now.Sub(c.asked) < after:
	case !c.asked.IsZero() && now.Sub(c.heard) >= after:
		c.failLocked(c.unlessEnded(because(syscall.ETIMEDOUT, errSilence)), true)
	default:
		c.asked = now
		c.oweLocked(dutyPing)
	}
}
