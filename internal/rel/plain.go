package rel

import (
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/wire"
)

// A lone short message over a Reliable link, the commonest of all frames there, has a way of its own at both ends (USNIC-28, USNIC-39). It
// is one comparison of what is the same for each such frame, and nothing is looked up:
//
//	PostLone ──► link.LonePoster ═══ ring ═══ link.Peeker ──► TakeLone, NoteLone
//
// What is not as it should be goes the ways of reliable.go, to the same end. Over other links the ways are those of lone.go and
// fastreceive.go.

// LonePoster is a link that takes a short frame at one step; link.LonePoster says how.
type LonePoster interface {
	PostLone(now clock.Time, to netip.AddrPort, head *[6]uint64, body []byte) bool
}

// PostLone sends a message at once, as SendDirect would, if the link is a LonePoster and nothing is in the way of it. l has all but the session.
func (e *Endpoint) PostLone(now clock.Time, l *wire.Lone, payload []byte) bool {
	m, s := e.m, e.live
	if s == nil || !s.reliable || m.cfg.LonePoster == nil || m.cfg.Tagged {
		return false
	}
	if e.channels[wire.Command].queue.n+e.channels[wire.Data].queue.n > 0 || s.send[wire.Command].room() <= 0 {
		return false
	}
	if wire.LoneLen+len(payload) > e.channels[wire.Data].mtu { // the longest frame that both ends take
		return false
	}
	l.SetSession(s.peer.Index, s.counter+1)
	if !m.cfg.LonePoster.PostLone(now, s.addr, (*[6]uint64)(l), payload) {
		return false
	}
	s.counter++
	s.send[wire.Command].pass(1)
	e.countDirect(wire.FragLen + len(payload))
	return true
}

// Lones returns from where lone messages of the peer come; ok is false if none do, or if they are to be seen by Receive.
func (e *Endpoint) Lones() (from netip.AddrPort, ok bool) {
	s := e.live
	if s == nil || !s.open || s.reliable == e.m.cfg.Tagged || e.m.cfg.Faults.DropReceived != nil {
		return from, false
	}
	return s.addr, true
}

// LoneRecord is the record of a frame that has come from where Lones says, if it is a lone one. The caller may compare it with what he
// expects; it is nothing to believe before TakeLone.
func (e *Endpoint) LoneRecord(frame []byte) (record []byte) {
	switch n := len(frame); {
	case e.live.reliable && n > wire.OuterLen:
		return frame[wire.OuterLen:]
	case !e.live.reliable && n > dataHead+wire.TagLen:
		return frame[dataHead : n-wire.TagLen]
	}
	return nil
}

// TakeLone takes a frame that has come from where Lones says as Receive would; its record is the caller's to deliver. It is false, and
// the frame has yet to be received, if it is no lone one, or not the next of the session. NoteLone must follow, with the counter that it returns,
// before anything else of the module is used but PostLone.
func (e *Endpoint) TakeLone(now clock.Time, frame []byte) (counter uint64, ok bool) {
	e.m.settleFast()
	s := e.live
	if s == nil {
		return 0, false
	}
	if !s.reliable {
		return 0, s.takeTagged(now, frame)
	}
	index, counter, ok := wire.ParsePlain(frame)
	return counter, ok && index == s.index && counter > s.replay.top
}

// NoteLone notes that the frame has come. Over a link that may lose frames settleFast does.
func (e *Endpoint) NoteLone(now clock.Time, counter uint64) {
	s := e.live
	if s == nil || !s.reliable {
		return
	}
	e.m.received++
	e.stats.Receives++
	s.replay.takeNext(counter)
	e.m.countPlain(now, s)
}
