package rel

import (
	"bytes"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/wire"
)

// A renewal is a handshake for fresh keys inside a sealed session (IK, since both static keys
// are known):
//
//	lower id                                     higher id
//	│ Rekey 1 ─────────────────────────────────►│  may open frames by fresh keys
//	│◄───────────────────────────────── Rekey 2 │
//	│ has the fresh keys, and so has the peer    │
//	│ phase made of them ──────────────────────►│  knows that the peer has them
//	│◄────────────────────── phase made of them │
//
// Meanwhile frames of the session keep flowing in the phases of the old keys. The session lives
// as long as the certificate that opened it, which has given the peer its roles. The certificate
// of a renewal must be good as well, but does not replace it.
type renewal struct {
	at        clock.Time // when the last handshake was finished
	number    uint16     // of the current handshake, or of the last
	offered   *seal.Handshake
	askedAt   clock.Time // when our message last left
	message   []byte     // to send: our offer, or our answer
	reply     bool       // message is an answer
	got       []byte     // the peer's message that it answers
	freshSend *seal.Secret
}

// due reports whether an offer is to be made, or retransmitted.
func (r *renewal) due(now clock.Time, after time.Duration) bool {
	return now.Sub(r.at) >= after && (r.offered == nil || now.Sub(r.askedAt) >= limits.RenewAgain)
}

// prologue binds a renewal to its session.
func (g *sealed) prologue() []byte { return append([]byte("weft renewal"), g.s.relay[:]...) }

func (g *sealed) options() seal.Options {
	return seal.Options{Psk: g.psk, Prologue: g.prologue(), Random: g.m.cfg.Secrets.Reader(secret.Handshake)}
}

// renew offers fresh keys, if this NIC has to do so.
func (g *sealed) renew(now clock.Time) {
	m, r, e := g.m, &g.renewal, g.s.endpoint
	if m.cfg.NIC > e.nic {
		r.at = now // the peer does it; if it does not, this looks again when it is due
		return
	}
	if r.offered == nil {
		hs := seal.Initiate(m.security.identity, &e.key, g.options())
		message, err := hs.Write(m.security.Certificate)
		if err != nil {
			m.ends(now, e, ErrIdentity) // the peer's key is of no group: it cannot have been proved
			return
		}
		r.offered, r.message, r.reply = hs, message, false
		r.number = max(r.number+1, 1)
	}
	r.askedAt = now
	e.owe(dutyRekey)
}

// sendRekey sends our message.
func (m *Module) sendRekey(s *session, out Frames) bool {
	g := s.sealed
	if g == nil || g.renewal.message == nil {
		return true
	}
	b := s.frame(out)
	if b == nil {
		return false
	}
	r := wire.Rekey{Message: 1, Number: g.renewal.number, Noise: g.renewal.message}
	if g.renewal.reply {
		r.Message = 2
	}
	out.Commit(s.packets.seal(wire.KindRekey, b, wire.OuterLen+r.Put(b[wire.OuterLen:]), nil))
	return true
}

// receiveRekey takes a message of the peer.
func (m *Module) receiveRekey(now clock.Time, s *session, body []byte) {
	r, err := wire.ParseRekey(body)
	g := s.sealed
	if err != nil || g == nil {
		m.stats.Malformed++
		return
	}
	take := g.answer
	if r.Message == 1 {
		take = g.offer
	}
	if take(now, &r) {
		m.stats.ProbeReceives++
	} else {
		m.stats.Handshakes++
	}
}

// offer answers the peer's offer. A repeated offer gets the same answer. ok is false if the
// offer does not verify.
func (g *sealed) offer(now clock.Time, o *wire.Rekey) (ok bool) {
	m, r, e := g.m, &g.renewal, g.s.endpoint
	if m.cfg.NIC < e.nic {
		return false
	}
	if !r.reply || r.number != o.Number || !bytes.Equal(r.got, o.Noise) {
		if r.reply && int16(o.Number-r.number) <= 0 || m.security.load.spent(now) {
			return true
		}
		hs, err := seal.Respond(m.security.identity, wire.PatternIK, g.options())
		if err != nil {
			return false
		}
		certificate, err := hs.Read(o.Noise)
		if key, ok := hs.PeerKey(); err != nil || !ok || key != e.key {
			return false
		}
		if m.handler.Vouch(now, e.nic, g.s.addr, e.key, certificate) != nil {
			m.ends(now, e, ErrIdentity)
			return true
		}
		message, err := hs.Write(m.security.Certificate)
		if err != nil {
			return false
		}
		fresh := hs.Secrets()
		g.in.Renew(fresh.Receive)
		r.freshSend = &fresh.Send
		if m.cfg.Defect == mutate.RenewalHasty {
			g.out.Renew(fresh.Send)
		}
		r.number, r.got, r.message, r.reply = o.Number, bytes.Clone(o.Noise), message, true
	}
	e.owe(dutyRekey)
	return true
}

// answer takes the answer to our offer: both ends have the fresh keys now. ok is false if it
// does not verify.
func (g *sealed) answer(now clock.Time, a *wire.Rekey) (ok bool) {
	m, r, e := g.m, &g.renewal, g.s.endpoint
	if r.offered == nil || a.Number != r.number {
		return true
	}
	certificate, err := r.offered.Read(a.Noise)
	if err != nil {
		r.offered, r.message = nil, nil
		return false
	}
	if m.handler.Vouch(now, e.nic, g.s.addr, e.key, certificate) != nil {
		m.ends(now, e, ErrIdentity)
		return true
	}
	fresh := r.offered.Secrets()
	r.offered, r.message, r.at = nil, nil, now
	g.in.Renew(fresh.Receive)
	g.out.Renew(fresh.Send)
	g.tend(now)
	return true
}

// renewed notes that the peer has begun a phase with fresh keys. The peer has them, so this end
// may use them too.
func (g *sealed) renewed(now clock.Time) {
	r := &g.renewal
	r.at = now
	g.s.endpoint.stats.HandshakeAt = now
	g.m.stats.Renewals++
	if r.freshSend != nil {
		g.out.Renew(*r.freshSend)
		r.freshSend = nil
	}
}
