package rel

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/wire"
)

// Programs in the driver of a NIC (pdl/ebpf) answer datagrams without the engine. Their frames
// have the session's index with one more bit and a separate counter, since a counter in two
// places would be used twice.

// ofDriver reports whether a program in the peer's driver made a frame.
func ofDriver(o wire.Outer) bool { return o.Index&wire.ResidentBit != 0 }

// takesOfDriver reports whether such a frame is accepted here.
func (s *session) takesOfDriver(o wire.Outer) bool {
	return s.open && o.Kind == wire.KindDatagram && (s.sealed == nil || s.takesPlain(o))
}

// apart reports whether a frame of s stands apart from the others: a driver made it, or it is
// not sealed in a sealed session. An eavesdropper can forge more of such frames. So they change
// nothing in the session, and have packet counters of their own.
func (s *session) apart(o wire.Outer) bool {
	return ofDriver(o) || o.Kind == wire.KindDatagram && s.unsealed(o)
}

// unsealed reports whether a frame of a sealed session is not sealed.
func (s *session) unsealed(o wire.Outer) bool { return s.sealed != nil && o.Flags&wire.FlagSealed == 0 }

// receiveApart takes a datagram that stands apart. One that is not sealed reaches only programs.
func (m *Module) receiveApart(now clock.Time, s *session, o wire.Outer, body []byte) {
	if d, _, err := wire.ParseDatagram(body); s.unsealed(o) && err == nil && d.Service != wire.ServiceProgram {
		m.unsealed(now, s.addr, o)
		return
	}
	m.receiveDatagram(now, s, body)
}

// plain reports whether datagrams of programs go unsealed in s, because both NICs allow it.
func (s *session) plain() bool {
	y := s.endpoint.m.security
	return y != nil && y.PlainResident && s.peer.Capabilities&wire.CapPlainPrograms != 0
}

// takesPlain reports whether a frame of a sealed session may be a program's unsealed datagram.
func (s *session) takesPlain(o wire.Outer) bool {
	return s.open && s.sealed != nil && o.Kind == wire.KindDatagram && o.Flags == wire.FlagTagged && s.plain()
}

// sealDatagram completes the frame of a datagram for a service.
func (s *session) sealDatagram(b []byte, n int, payload []byte, service uint8) int {
	if service != wire.ServiceProgram || s.sealed == nil || !s.plain() {
		return s.packets.seal(wire.KindDatagram, b, n, payload)
	}
	return s.packets.sealAs(wire.KindDatagram, unsealed, b, n, payload)
}

// fresh reports whether the counter of a frame has not been taken.
func (t *sessionTable) fresh(s *session, o wire.Outer) bool {
	if !s.apart(o) {
		return s.replay.fresh(o.Counter)
	}
	w := t.apart[o.Index]
	return w == nil || w.fresh(o.Counter)
}

// window returns the window in which the counter of a frame is marked as taken, once its tag is
// good.
func (t *sessionTable) window(s *session, o wire.Outer) *replayWindow {
	if !s.apart(o) {
		return &s.replay
	}
	if t.apart == nil {
		t.apart = make(map[uint32]*replayWindow)
	}
	if t.apart[o.Index] == nil {
		t.apart[o.Index] = &replayWindow{}
	}
	return t.apart[o.Index]
}

// DriverKeys are the facts about a session that a program in this NIC's driver needs: the marks
// of the peer's frames, and those of its replies.
type DriverKeys struct {
	Index  uint32 // in the peer's frames
	Cookie uint64 // in their tags
	Most   int    // longest frame to the peer, in bytes

	ReplyIndex  uint32
	ReplyCookie uint64
}

// DriverKeys returns those of the open session. ok is false if there is none. The counter of
// replies begins at 1 in each session.
func (e *Endpoint) DriverKeys() (k DriverKeys, ok bool) {
	s := e.live
	if s == nil || !s.open || s.sealed != nil && !s.plain() {
		return k, false
	}
	return DriverKeys{s.index, s.packets.cookies.ours, s.path.size, s.packets.index | wire.ResidentBit,
		s.packets.cookies.theirs}, true
}
