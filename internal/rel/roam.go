package rel

import (
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/wire"
)

// A peer's address may change: a new preferred source address, another port of a translator. On
// a sealed session its frames prove themselves wherever they come from, so they are taken. Our
// frames still go to the old address until the new one has answered a probe:
//
//	A                                  B at its old address         B at its new address
//	│◄─────────────────────────────────────────────────────────── frame, tag good, counter highest
//	│ probe, to the new address ───────────────────────────────────────────────────────────────►│
//	│ all else ────────────────────────►│                                                        │
//	│◄────────────────────────────────────────────────────────────────────── answer to the probe │
//	│ all ─────────────────────────────────────────────────────────────────────────────────────►│
//
// If a forger repeats a frame of B from the address of a bystander, A sends the bystander less
// than the forger sent. Frames that arrive late, from either address, are taken if they are
// fresh; only the newest frame of B shows where B is.
type roaming struct {
	addr           netip.AddrPort
	id             uint64 // of the probe
	received, sent int    // bytes
	askedAt        clock.Time
}

// strays takes note of a good frame of s that came from another address than the peer's.
func (m *Module) strays(now clock.Time, s *session, from netip.AddrPort, length int) {
	r := s.roams
	if r == nil || r.addr != from {
		r = &roaming{addr: from, id: m.cfg.Secrets.Uint64(secret.Probe) | 1, askedAt: now.Add(-m.cfg.ProbeEvery)}
		s.roams = r
	}
	r.received += length
	m.stats.Strays++
	if m.cfg.Defect == mutate.RoamsUnasked {
		m.roam(now, s)
		return
	}
	if now.Sub(r.askedAt) >= m.cfg.ProbeEvery {
		r.askedAt = now
		s.endpoint.owe(dutyRoam)
	}
}

// sendRoam probes the new address, as long as it sends less than came from there.
func (m *Module) sendRoam(s *session, out Frames) bool {
	r := s.roams
	n := wire.OuterLen + wire.ProbeLen + s.packets.tagLen()
	if r == nil || r.sent+n > r.received {
		return true
	}
	size := wire.ProbeLen
	if m.cfg.Defect == mutate.RoamAmplifies {
		size = s.path.size - n + size
	}
	if !m.sendProbe(s, r.addr, wire.KindProbe, wire.Probe{ID: r.id, Size: uint32(size)}, out) {
		return false
	}
	r.sent += n
	return true
}

// echoed takes the answer to a probe. If it answers the probe of the new address, and comes from
// there, the peer is there.
func (m *Module) echoed(now clock.Time, s *session, from netip.AddrPort, id uint64) {
	if r := s.roams; r != nil && id == r.id && from == r.addr {
		m.roam(now, s)
	}
}

// roam moves a session to the peer's new address.
func (m *Module) roam(_ clock.Time, s *session) {
	e := s.endpoint
	s.addr = s.roams.addr
	s.roams = nil
	m.move(e, s.addr)
	e.local = s.local
	m.stats.Roams++
}
