package rel

import (
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/wire"
)

// A host may have several addresses, and its routes choose from which of them a frame leaves;
// the choice may change while a session is open. A peer on a plain link drops frames that do not
// come from the address that it calls. So a session remembers at which address of this host the
// peer reaches us (link.Caps), and all its frames leave from there:
//
//	Hello         leaves from where the last session was, and every second one as the routes say
//	answer        leaves from where the Hello came to; it changes nothing for an open session
//	other frames  leave from where the newest good frame of the peer's address came to
//	keepalive     on a sealed link every second one of a silent peer leaves as the routes say: the
//	              peer takes it from any address, and answers there
//
// Only a frame whose tag is good moves a session, so that no third party can turn it away. A
// link that has one address has no Config.Reached, and pays one comparison for a frame.

// reached returns the address of this host at which the frame that is being received has
// arrived.
func (m *Module) reached() netip.Addr {
	if m.cfg.Reached == nil {
		return netip.Addr{}
	}
	return m.cfg.Reached()
}

// leavesFrom makes the next frame leave from an address of this host, or as the routes say if
// the address is not known.
func (m *Module) leavesFrom(local netip.Addr) {
	if m.cfg.From != nil && local.IsValid() {
		m.cfg.From(local)
	}
}

// frame returns room for one frame to the peer, which the caller writes from behind the outer
// header on; nil if the driver takes none.
func (s *session) frame(out Frames) []byte {
	s.prepare()
	return frame(out, s.addr)
}

// prepare makes the next frame leave from the session's address of this host. The frame changes
// the counts of the peer.
func (s *session) prepare() {
	s.endpoint.MarkChanged()
	s.endpoint.m.leavesFrom(s.local)
}

// noteLocal notes where the newest good frame of the peer has arrived.
func (m *Module) noteLocal(s *session) {
	at := m.cfg.Reached()
	if at == s.local || !at.IsValid() {
		return
	}
	s.local = at
	if e := s.endpoint; e.live == s {
		e.local = at
	}
}

// callsFrom returns the address of this host from which the next Hello leaves. The host's
// address may have changed since the last session.
func (e *Endpoint) callsFrom() netip.Addr {
	if e.attempt.hellos%2 == 1 {
		return netip.Addr{}
	}
	return e.local
}

// sendKeepalive probes the peer. If a sealed session is silent, its local address may no longer
// work though the host still has it. So every second probe leaves as the routes say.
func (m *Module) sendKeepalive(now clock.Time, s *session, p wire.Probe, out Frames) bool {
	local := s.local
	if silent := now.Sub(s.endpoint.silentSince()); s.sealed != nil && silent/m.cfg.ProbeEvery%2 == 0 &&
		silent >= m.cfg.ProbeEvery {
		s.local = netip.Addr{}
	}
	done := m.sendProbe(s, s.addr, wire.KindProbe, p, out)
	s.local = local
	return done
}
