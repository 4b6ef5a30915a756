package rel

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/wire"
)

// A lone short message over a Reliable link, the commonest of all frames there, has a way of its own at both ends (USNIC-28, USNIC-39). It
// is one comparison of what is the same for each such frame, and nothing is looked up:
//
//	PostLone ──► link.Caps.PostLone ═══ ring ═══ link.Caps.Peek ──► Peek, Take
//
// What is not as it should be goes the ways of reliable.go and receive.go, to the same end.

// PostLone sends a message at once, as Begin and End would, if the link has PostLone and nothing is in the way of it. l has all but the session.
func (e *Endpoint) PostLone(now clock.Time, l *wire.Lone, payload []byte) bool {
	m, s := e.m, e.live
	if s == nil || !s.bareFrames() || s.finish != nil && !s.finished || m.cfg.PostLone == nil {
		return false
	}
	if !e.clear() || s.send[wire.Command].room() <= 0 {
		return false
	}
	if wire.LoneLen+len(payload) > e.channels[wire.Data].mtu { // the longest frame that both ends take
		return false
	}
	l.SetOuter(s.packets.next(wire.KindPlain)) // a counter that the link does not take is passed over
	if !m.cfg.PostLone(now, s.addr, (*[6]uint64)(l), payload) {
		return false
	}
	s.send[wire.Command].pass(1)
	e.countDirect(wire.FragLen + len(payload))
	return true
}
