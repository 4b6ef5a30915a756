package rel

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/wire"
)

// A lone short message is the commonest of all frames over a Reliable link. It has a short path
// at both ends (USNIC-28, USNIC-39): one comparison of the parts that are the same for each such
// frame, and no lookup:
//
//	PostLone ──► link.Caps.PostLone ═══ ring ═══ link.Caps.Peek ──► Peek, Take
//
// Every other frame takes the paths of reliable.go and receive.go, with the same result.

// PostLone sends a message at once, as Begin and End would, if the link has PostLone and nothing
// prevents it. l is complete except for the session. PostLone reports whether it has sent the
// message.
func (e *Endpoint) PostLone(now clock.Time, l *wire.Lone, payload []byte) bool {
	m, s := e.m, e.live
	if s == nil || !s.bareFrames() || s.finish != nil && !s.finished || m.cfg.PostLone == nil {
		return false
	}
	if !e.clear() || s.send[wire.Command].room() <= 0 {
		return false
	}
	// mtu is the longest frame that both ends take.
	if wire.LoneLen+len(payload) > e.channels[wire.Data].mtu {
		return false
	}
	// If the link does not take the frame, its counter is skipped.
	l.SetOuter(s.packets.next(wire.KindPlain))
	if !m.cfg.PostLone(now, s.addr, (*[6]uint64)(l), payload) {
		return false
	}
	s.packets.out.count(wire.LoneLen + len(payload))
	e.MarkChanged()
	s.send[wire.Command].pass(1)
	e.countDirect(wire.FragLen + len(payload))
	return true
}
