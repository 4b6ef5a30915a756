package stream

import (
	"encoding/binary"
	"errors"
	"syscall"
	"time"

	"github.com/weftnet/weft"
)

// Causes of failures that this end detects.
var (
	errGap     = errors.New("stream: bytes are missing")
	errBeyond  = errors.New("stream: the peer has sent more than it may")
	errSilence = errors.New("stream: the peer is silent")
	errAnother = errors.New("stream: another process has the peer's name")
	errEnded   = errors.New("stream: the peer's process has ended")
)

// opened notes the contents of the peer's open or accept message.
func (c *Conn) opened(addr weft.Address, m *message) {
	c.peer, c.peerNumber, c.window, c.state = addr, m.sender, m.offset, stateOpen
}

// take handles a message for the stream. It returns false if the sender is not the peer. By now
// another process may have the peer's name and get messages for the peer. A reset from that process
// reports that the peer is gone.
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
		// The peer may answer a repeated open.
		return m.kind == kindAccept && addr == c.peer && m.sender == c.peerNumber
	}
	c.stirred = true
	c.heardSum++
	c.peerKnows() // only the accept message tells it the stream's number
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

// unlessEnded returns the error of a stream whose peer failed or is silent. If the peer had closed
// the stream in order, the peer has forgotten the stream. This is no failure, and only Writes fail.
func (c *Conn) unlessEnded(err error) error {
	if c.unread {
		return syscall.EPIPE
	}
	return err
}

// takeState handles a state. A state repeats everything except bytes, since the first message about
// it may have been lost with an ended session of the NICs.
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

// tell returns the state of the stream. The caller holds mu.
func (c *Conn) tell(b *[stateBytes]byte) []byte {
	end := endsNot
	switch {
	case c.inWrite || c.draining: // bytes may follow before the end
	case c.state == stateClosed:
		end = endsBoth
	case c.ended:
		end = endsOwn
	}
	return state(b, c.number, c.granted, c.sent, end)
}

// answered handles the answer to a dial.
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

// takeData handles received bytes. It skips bytes that arrived before: if a message was withdrawn
// too late, its bytes arrive again as part of a later message.
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

// takeEnd handles the end of the peer's direction. The peer may report it more than once.
func (c *Conn) takeEnd(at uint64, end ending) {
	if at != c.received {
		c.failLocked(because(syscall.ECONNRESET, errGap), true)
		return
	}
	c.finished = true
	c.unread = c.unread || end == endsBoth
	c.look()
}

// due returns the next message that the stream owes its peer. ok is false if it owes none.
func (c *Conn) due() (tag weft.Tag, body []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.behind = false
	if c.state == stateDialling {
		c.duties = 0
	}
	if c.duties&dutyReset != 0 {
		// The others no longer hold: bytes before a close may be lost.
		c.duties &= dutyAccept | dutyFin | dutyReset
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

// announced notes that the operation o sends a message of the stream. The first message of an
// accepted stream is its accept message. A Write waits for the accept message, since the peer does
// not know the stream before it.
func (c *Conn) announced(o *weft.Op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last = nil; c.state >= stateFailed {
		c.last = o
	}
	c.peerKnows()
}

// peerKnows notes that the peer knows the stream. The caller holds mu.
func (c *Conn) peerKnows() {
	if !c.told {
		c.told = true
		c.maySend()
	}
}
