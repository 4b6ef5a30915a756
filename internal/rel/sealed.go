package rel

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/wire"
)

// sealed guards the frames of a session by an AEAD. Its keys change with time and frames. The
// windows, message numbers and packet counters of the session continue:
//
//	every 120 s or 2^26 frames   a probe in the current phase; after its answer, the next
//	                             phase (seal.Outgoing)
//	every hour                   a handshake inside the session, by the NIC with the lower id
//	                             (renew.go)
type sealed struct {
	m *Module
	s *session

	out   seal.Outgoing
	in    seal.Incoming
	psk   [trust.KeyLen]byte
	suite seal.Suite

	// Id of the probe whose answer shows that the peer has the current phase; 0 if none is in
	// flight.
	asked   uint64
	askedAt clock.Time // when it last left

	renewal renewal
}

// newSealed makes the guard of a session whose handshake is finished.
func (m *Module) newSealed(now clock.Time, s *session, hs *seal.Handshake) *sealed {
	g := &sealed{m: m, s: s, psk: hs.Psk(), suite: m.security.suite}
	if s.peer.Capabilities&wire.CapAES == 0 {
		g.suite = seal.ChaCha
	}
	given := hs.Secrets()
	g.out.Start(now, m.security.Pace.Phase, g.suite, given.Send)
	g.in.Start(g.suite, given.Receive)
	g.renewal.at = now
	g.logOut()
	g.logIn()
	return g
}

// logOut tells Security.Keys the key by which the session begins to seal.
func (g *sealed) logOut() {
	if told := g.m.security.Keys; told != nil {
		told(g.out.Log(g.s.packets.index))
	}
}

// logIn tells Security.Keys the key by which the session begins to open.
func (g *sealed) logIn() {
	if told := g.m.security.Keys; told != nil {
		told(g.in.Log(g.s.index))
	}
}

func (g *sealed) seal(b []byte, clear, n int, from []byte, counter uint64) int {
	if len(from) > 0 && n > clear {
		n += copy(b[n:n+len(from)], from) // an AEAD takes only contiguous memory
		from = nil
	}
	if w := g.m.security.Witness; w != nil {
		w(g.out.Key, counter)
	}
	if counter-g.out.First == g.m.security.Pace.Phase.Frames {
		g.ask() // also of a peer that sends nothing, and so is not heard
	}
	return g.out.Key.Seal(b, clear, n, from, counter)
}

// clearLen returns how many bytes of a frame are not encrypted.
func clearLen(o wire.Outer) int {
	if o.Flags&wire.FlagClear != 0 {
		return wire.ClearLen
	}
	return wire.OuterLen
}

func (g *sealed) open(now clock.Time, o wire.Outer, frame []byte, r *row) []byte {
	clear, end := clearLen(o), len(frame)-wire.TagLen
	if end < clear {
		return nil
	}
	if odd := o.Flags&wire.FlagPhase != 0; odd != g.in.Odd {
		return g.openOther(now, o, frame, clear)
	}
	to := frame[clear:end]
	if clear == wire.ClearLen {
		// If the tag turns out bad, to is zeros, which is safe: the receiver has not been told
		// of these bytes.
		if p := r.place(frame[wire.OuterLen:end]); p != nil {
			to, r.placed = p, true
		}
	}
	if !g.in.Key.Open(to, frame, clear, o.Counter) {
		if r != nil {
			r.placed = false
		}
		return nil
	}
	g.in.Current(o.Counter)
	return frame[wire.OuterLen:end]
}

// openOther opens a frame of another phase than the current one.
func (g *sealed) openOther(now clock.Time, o wire.Outer, frame []byte, clear int) []byte {
	if len(frame) > len(g.m.security.scratch) {
		return nil
	}
	switch g.in.OpenOther(now, frame, g.m.security.scratch, clear, o.Counter) {
	case seal.OpenedNot:
		return nil
	case seal.OpenedNext:
		g.logIn()
	case seal.OpenedFresh:
		g.logIn()
		g.renewed(now)
	}
	return frame[wire.OuterLen : len(frame)-wire.TagLen]
}

func (g *sealed) peek(o wire.Outer, frame []byte) []byte {
	end := len(frame) - wire.TagLen
	to := g.m.security.scratch
	if end < wire.OuterLen || end > len(to) || o.Flags != wire.FlagSealed|phaseFlag(g.in.Odd) {
		return nil
	}
	to = to[wire.OuterLen:end]
	if !g.in.Key.Open(to, frame, wire.OuterLen, o.Counter) {
		return nil
	}
	return to
}

// phaseFlag returns the phase bit of a phase.
func phaseFlag(odd bool) uint8 {
	if odd {
		return wire.FlagPhase
	}
	return 0
}

// tend looks after the keys of a session whose peer has just been heard.
func (g *sealed) tend(now clock.Time) {
	counter := g.s.packets.counter
	// Pending: the last renewal must be finished in both directions.
	if !g.in.Pending() && g.renewal.due(now, g.m.security.Pace.RenewAfter) {
		g.renew(now)
	}
	if g.out.Due(now, counter) && g.m.cfg.Defect == mutate.PhaseEarly {
		g.flip(now)
		return
	}
	if !g.out.Due(now, counter) || g.asked != 0 && now.Sub(g.askedAt) < g.m.cfg.ProbeEvery {
		return
	}
	g.askedAt = now
	g.ask()
}

// ask sends a probe of the current phase.
func (g *sealed) ask() {
	if g.asked == 0 {
		g.asked = g.m.cfg.Secrets.Uint64(secret.Probe) | 1 // odd, so that it differs from keepalive
	}
	g.s.endpoint.owe(dutyPhase)
}

// sendPhase sends that probe, if the peer is still trusted. A peer that is not must not keep its
// session by leaving probes unanswered.
func (m *Module) sendPhase(now clock.Time, s *session, out Frames) bool {
	g := s.sealed
	if g == nil || !g.trusts(now) {
		return true
	}
	return m.sendProbe(s, s.addr, wire.KindProbe, wire.Probe{ID: g.asked, Size: wire.ProbeLen}, out)
}

// trusts reports whether the peer is still trusted, and ends the session if not.
func (g *sealed) trusts(now clock.Time) bool {
	m, e := g.m, g.s.endpoint
	if m.handler.Vouch(now, e.nic, g.s.addr, e.key, e.certificate) != nil {
		m.ends(now, e, ErrIdentity)
		return false
	}
	return true
}

// arrived takes the answer to a probe of the current phase: the peer has its key, so the next
// phase may begin.
func (g *sealed) arrived(now clock.Time, id uint64) {
	if g == nil || g.asked == 0 || id != g.asked {
		return
	}
	g.asked = 0
	g.flip(now)
}

// flip begins the next phase, if the peer is still trusted.
func (g *sealed) flip(now clock.Time) {
	m, p := g.m, &g.s.packets
	if !g.trusts(now) {
		return
	}
	g.out.Flip(now, p.counter+1)
	g.logOut()
	p.flags = p.flags&^wire.FlagPhase | phaseFlag(g.out.Odd)
	m.stats.Rekeys++
	p.anew = m.cfg.Defect == mutate.CounterRestarts
}
