package rel

import (
	"bytes"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/wire"
)

// A sealed session opens like this. The Noise messages ride in the frames of hello.go. The third
// one rides in a Finish, which leaves with the first frames of the session, so that sealing
// costs no round trip:
//
//	A                                         B
//	│ Hello: XX 1, or IK 1                     │
//	│ ──────────────────────────────────────► │   half open: b ↔ a
//	│                        HelloAck: 2       │
//	│ ◄────────────────────────────────────── │
//	│ Up: B has proved its key                 │
//	│ Finish: XX 3, and frames of the session  │
//	│ ──────────────────────────────────────► │   Up: A has proved its key; an old session ends
//
// A session of A's own attempt is never the one in which A answers B's Hello, since each
// handshake has its own keys. So if Hellos cross, one handshake must win, or each NIC would end
// the session that the other has opened:
//
//	lower id    ignores a Hello during its own handshake, and forgets the handshakes that it
//	            has answered when its own session opens
//	higher id   answers, and drops its own handshake if it has answered the other's recently
//	both        retransmit the Finish, and do not answer, while the peer has not been heard in
//	            a session of their own; the higher id for as long as two Finishes may be lost
//
// Nothing in a Hello is believed before its sender has proved a key. The Hello is bound to a
// half-open session, of which there are limits.PendingSessions at most, and destroys nothing.

// shake is a handshake of a session that is half open.
type shake struct {
	hs      *seal.Handshake
	fabric  int    // which of the fabric keys
	hello   []byte // Noise message 1, written or read
	answer  []byte // Noise message 2, written or read
	tries   int    // Hellos that have left
	cookie  *seal.Cookie
	mac1    [wire.MACLen]byte // of the last Hello
	longest int               // most bytes of an answer: as many as the Hello has
}

// handshakeTries is the number of tries of one kind of handshake, before another kind is tried.
const handshakeTries = 3

// leastHello is the length of a Hello, and of an answer, without a certificate, in bytes.
const leastHello = wire.HandshakeLeast + 32 + 48 + wire.HelloLen + 16

// LeastMTU returns the length of the longest handshake frame that a NIC sends, in bytes.
func (c *Security) LeastMTU() int { return leastHello + len(c.Certificate) }

// helloLength returns the length of a Hello, in bytes: that of the longest answer, whose sender
// may have a certificate.
func (m *Module) helloLength() int { return min(leastHello+trust.MaxCertificateLen, m.cfg.MTU) }

// initiate begins the handshake of an attempt's session. The kinds of handshakes take turns: IK
// if the peer's key is known, then XX, with each of the fabric keys.
func (m *Module) initiate(e *Endpoint, s *session) {
	y, kind := m.security, e.attempt.kind
	var peer *trust.PublicKey
	if e.keyKnown && kind == 0 {
		peer = &e.key
	}
	fabric := 0
	if kind > 0 {
		fabric = (kind - 1) % y.gate.Keys()
	}
	s.shake = &shake{fabric: fabric, hs: seal.Initiate(y.identity, peer, m.handshake(fabric))}
	h := m.introduce(s)
	h.EchoCounter = m.hellos.counter + 1 // proved later; the counter in the outer header is not
	message, err := s.shake.hs.Write(m.payload(&h, s.shake.hs.Pattern == wire.PatternIK))
	if err != nil { // the peer's key in the configuration is not a valid one
		s.shake.hs = seal.Initiate(y.identity, nil, m.handshake(fabric))
		if message, err = s.shake.hs.Write(m.payload(&h, false)); err != nil {
			panic("rel: the first message of a handshake fails: " + err.Error())
		}
	}
	s.shake.hello = message
}

// handshake returns the options of a handshake under one of the fabric keys.
func (m *Module) handshake(fabric int) seal.Options {
	return seal.Options{
		Psk: m.security.gate.Psk(fabric), Prologue: []byte("weft"), Random: m.cfg.Secrets.Reader(secret.Handshake),
	}
}

// payload returns the contents of a Noise message: a Hello, and the certificate if its receiver
// can know the sender's key.
func (m *Module) payload(h *wire.Hello, certificate bool) []byte {
	b := make([]byte, wire.HelloLen, wire.HelloLen+len(m.security.Certificate))
	h.Put(b)
	if certificate {
		b = append(b, m.security.Certificate...)
	}
	return b
}

// unpack reads such a payload.
func unpack(payload []byte) (h wire.Hello, certificate []byte, err error) {
	if len(payload) < wire.HelloLen || len(payload) > wire.HelloLen+trust.MaxCertificateLen {
		return h, nil, wire.ErrShort
	}
	h, err = wire.ParseHello(payload[:wire.HelloLen])
	return h, payload[wire.HelloLen:], err
}

// nextKind prepares the next Hello of an attempt: the same again, or after some tries one of
// another kind.
func (e *Endpoint) nextKind() {
	m, n := e.m, e.next
	if n == nil || n.shake.tries < handshakeTries {
		return
	}
	kinds := 1 + m.security.gate.Keys()
	if n.shake.hs.Pattern == wire.PatternXX && m.security.gate.Keys() == 1 {
		n.shake.tries = 0 // there is no other kind
		return
	}
	m.drop(n)
	if e.attempt.kind++; e.attempt.kind == kinds {
		e.attempt.kind = 1
	}
}

// receiveHandshake takes a frame that belongs to the handshake of a sealed link. Its source may
// be anyone: mac1 is checked first, and costs less than a microsecond.
func (m *Module) receiveHandshake(now clock.Time, from netip.AddrPort, o wire.Outer, frame []byte) {
	fabric, rest, ok := m.security.gate.Verify(frame)
	if !ok && m.cfg.Defect == mutate.MAC1Unchecked && len(frame) >= wire.HandshakeLeast {
		rest, ok = frame[:len(frame)-2*wire.MACLen], true
	}
	if !ok {
		m.stats.BadMACs++
		if m.byAddr[from] != nil {
			m.handler.Stranger(now, from, ErrFabric)
		}
		return
	}
	body := rest[wire.OuterLen:]
	if o.Kind == wire.KindCookie {
		m.receiveCookie(now, from, o, body, fabric)
		return
	}
	h, err := wire.ParseHandshake(body)
	if err != nil {
		m.stats.Malformed++
		return
	}
	switch {
	case o.Kind == wire.KindHello && h.Message == 1:
		m.receiveSealedHello(now, from, o, frame, &h, fabric)
	case o.Kind == wire.KindHelloAck && h.Message == 2:
		m.receiveSealedAnswer(now, from, o, &h, fabric)
	case o.Kind == wire.KindFinish && h.Message == 3:
		m.receiveFinish(now, from, o, &h, fabric)
	default:
		m.stats.Malformed++
	}
}

// receiveSealedHello judges a Hello whose sender has the fabric key.
func (m *Module) receiveSealedHello(
	now clock.Time, from netip.AddrPort, o wire.Outer, frame []byte, h *wire.Handshake, fabric int,
) {
	if h.MinVersion > wire.Version || h.MaxVersion < wire.Version || h.Pattern == wire.PatternNone {
		m.stats.VersionMismatches++
		m.refuseSealedVersion(from, h, fabric)
		return
	}
	if m.closed {
		m.stats.Refused++
		return
	}
	if s := m.repeats(from, h); s != nil {
		m.stats.HelloReceives++
		if wire.HandshakeLeast+len(s.shake.answer) > len(frame) {
			return // its padding was taken off, and its sender would get more than it sent
		}
		s.local = m.reached()
		s.made = now // so that the last message has all its time to arrive
		m.unpend(s)
		m.pend(s)
		s.endpoint.answering = s
		s.endpoint.owe(dutyAnswerNext)
		return
	}
	y := m.security
	heavy := y.load.heavy(now)
	if heavy && !y.gate.Proves(now, frame, from) {
		m.askForCookie(now, from, h.Index, frame, fabric)
		return
	}
	if heavy && y.load.greedy(from) || y.load.spent(now) {
		m.stats.Refused++
		return
	}
	m.respond(now, from, o, h, fabric, len(frame))
}

// repeats returns the half-open session of a retransmitted Hello.
func (m *Module) repeats(from netip.AddrPort, h *wire.Handshake) *session {
	for _, s := range m.pending {
		if k := s.shake; k != nil && s.addr == from && s.peer.Index == h.Index && bytes.Equal(k.hello, h.Noise) {
			return s
		}
	}
	return nil
}

// respond processes the first message of a handshake, and makes a half-open session for it.
func (m *Module) respond(now clock.Time, from netip.AddrPort, o wire.Outer, h *wire.Handshake, fabric, length int) {
	hs, err := seal.Respond(m.security.identity, h.Pattern, m.handshake(fabric))
	if err != nil {
		m.stats.Malformed++
		return
	}
	payload, err := hs.Read(h.Noise)
	if err != nil {
		m.stats.Handshakes++
		return
	}
	hello, certificate, err := unpack(payload)
	if err != nil || hello.Index != h.Index {
		m.stats.Malformed++
		return
	}
	e := m.hearsSealed(now, from, &hello, hs, certificate)
	if e == nil {
		return
	}
	if e.live != nil && m.cfg.Defect == mutate.HelloEnds {
		m.ends(now, e, ErrRestarted)
	}
	if m.crossed(now, e, from, &hello) && m.cfg.Defect != mutate.CrossedAnswered {
		m.stats.HelloReceives++
		return
	}
	s := m.newSession(now, e, from)
	s.shake = &shake{hs: hs, fabric: fabric, hello: bytes.Clone(h.Noise), longest: length}
	s.bind(&hello)
	s.local = m.reached()
	s.answers = hello.EchoCounter
	if !m.writeAnswer(now, s, o.Counter, certificate) {
		m.drop(s)
		return
	}
	m.stats.HelloReceives++
	e.mute = false
	e.answering = s
	e.owe(dutyAnswerNext)
	m.pend(s)
}

// crossed reports whether a Hello must not be answered, because our handshake with the peer
// wins.
func (m *Module) crossed(now clock.Time, e *Endpoint, from netip.AddrPort, h *wire.Hello) bool {
	if s := e.live; s != nil {
		wins := m.cfg.NIC < h.NIC || now.Sub(e.heard) < 2*m.cfg.ProbeEvery
		if s.own && !s.confirmed && s.peer.Incarnation == h.Incarnation && s.addr == from && wins {
			e.owe(dutyProbe) // it takes the Finish along
			return true
		}
		return false
	}
	if e.attempt.wanted && e.next != nil && from == e.addr && m.cfg.NIC < h.NIC {
		e.owe(dutyHello)
		return true
	}
	return false
}

// yields reports whether our handshake gives way, because one that the peer began was answered
// recently. It gives way once in an attempt: the initiator of the other one is not proved, and
// ours has proved the peer.
func (m *Module) yields(now clock.Time, e *Endpoint, h *wire.Hello) bool {
	if m.cfg.NIC < h.NIC || e.attempt.yielded {
		return false
	}
	e.attempt.yielded = slices.ContainsFunc(m.pending, func(s *session) bool {
		return s.endpoint == e && s.shake != nil && s.addr == e.addr && s.peer.Incarnation == h.Incarnation &&
			now.Sub(s.made) < m.helloEvery()
	})
	return e.attempt.yielded
}

// writeAnswer makes the second message of the handshake of s.
func (m *Module) writeAnswer(now clock.Time, s *session, counter uint64, certificate []byte) bool {
	k := s.shake
	answer := m.introduce(s)
	answer.EchoIncarnation, answer.EchoCounter = s.peer.Incarnation, counter
	// A NIC without a certificate asks for none, and its Hello is too short for an answer with one.
	fits := leastHello+len(m.security.Certificate) <= k.longest
	message, err := k.hs.Write(m.payload(&answer, fits))
	if err != nil || wire.HandshakeLeast+len(message) > k.longest {
		m.stats.Handshakes++
		return false
	}
	k.answer = message
	if k.hs.Pattern == wire.PatternIK {
		m.enable(now, s, certificate)
	}
	return true
}

// hearsSealed returns the endpoint of a NIC that sends a Hello, nil if it is refused. Only an IK
// initiator has proved the contents of its Hello.
func (m *Module) hearsSealed(
	now clock.Time, from netip.AddrPort, h *wire.Hello, hs *seal.Handshake, certificate []byte,
) *Endpoint {
	// Not this NIC's own Hello, sent back to it.
	if h.NIC == m.cfg.NIC && h.Incarnation != m.cfg.Incarnation {
		_ = m.handler.Admit(now, h.NIC, from) // refuses and remembers it
	}
	if h.NIC == m.cfg.NIC || tooSmall(h) {
		m.stats.Refused++
		return nil
	}
	e := m.hearsFrom(h.NIC, from)
	if e != nil && e.stale(h.Incarnation, h.EchoCounter) {
		m.stats.StaleHellos++
		m.tellOutdated(now, e, from, h)
		return nil
	}
	if e != nil && m.cfg.Defect == mutate.HelloBelieved {
		e.incarnation = max(e.incarnation, h.Incarnation)
	}
	if key, proved := hs.PeerKey(); proved && m.cfg.Defect != mutate.KeyUnchecked &&
		m.distrusts(now, e, h.NIC, from, key, certificate) {
		m.stats.Identities++
		return nil
	}
	if m.handler.Admit(now, h.NIC, from) != nil {
		m.stats.Refused++
		return nil
	}
	if e == nil {
		if e = m.stranger(h.NIC, from); e == nil {
			m.stats.Refused++
		}
	}
	return e
}

// distrusts reports whether a NIC that has proved a key must not be believed its id.
func (m *Module) distrusts(
	now clock.Time, e *Endpoint, nic uint64, from netip.AddrPort, key trust.PublicKey, certificate []byte,
) bool {
	if e != nil && e.live != nil && e.proved && e.key != key {
		return true
	}
	return m.handler.Vouch(now, nic, from, key, certificate) != nil
}

// receiveSealedAnswer takes the second message of our handshake.
func (m *Module) receiveSealedAnswer(
	now clock.Time, from netip.AddrPort, o wire.Outer, h *wire.Handshake, fabric int,
) {
	s := m.sessions.find(o.Index)
	if s == nil || !s.own || from != s.addr {
		m.stats.NoSession++
		if s != nil && s.own && !s.open {
			s.endpoint.elsewhere = from
		}
		return
	}
	e, k := s.endpoint, s.shake
	if s.open { // the peer repeats it since our Finish was lost
		m.stats.HelloReceives++
		if !s.confirmed {
			e.owe(dutyProbe)
		}
		return
	}
	if k == nil || s != e.next || fabric != k.fabric || h.Pattern != wire.PatternNone && h.Pattern != k.hs.Pattern {
		m.stats.StaleHellos++
		return
	}
	if h.Pattern == wire.PatternNone || h.MinVersion > wire.Version || h.MaxVersion < wire.Version {
		m.stats.VersionMismatches++
		m.drop(s)
		m.ends(now, e, ErrVersion)
		return
	}
	payload, err := k.hs.Read(h.Noise)
	if err != nil {
		m.stats.Handshakes++
		m.drop(s) // the attempt goes on with another one
		return
	}
	hello, certificate, err := unpack(payload)
	if err != nil || hello.Index != h.Index {
		m.stats.Malformed++
		m.drop(s)
		return
	}
	s.local = m.reached()
	m.sealedAnswer(now, s, &hello, certificate)
}

// sealedAnswer judges the peer's proof, and opens the session.
func (m *Module) sealedAnswer(now clock.Time, s *session, h *wire.Hello, certificate []byte) {
	e, k := s.endpoint, s.shake
	key, _ := k.hs.PeerKey()
	why := m.unfit(now, s, h)
	if why == nil && m.distrusts(now, e, h.NIC, s.addr, key, certificate) && m.cfg.Defect != mutate.KeyUnchecked {
		m.stats.Identities++
		m.drop(s)
		m.ends(now, e, ErrIdentity)
		return
	}
	if why != nil {
		m.stats.Refused++
		m.drop(s)
		m.ends(now, e, why)
		return
	}
	if h.EchoIncarnation != m.cfg.Incarnation || h.EchoCounter < s.helloFrom || h.EchoCounter > s.helloTo {
		m.stats.Handshakes++
		m.drop(s)
		return
	}
	if h.Incarnation < e.incarnation {
		m.stats.StaleHellos++
		m.tellOutdated(now, e, s.addr, h)
		m.drop(s)
		return
	}
	m.stats.HelloReceives++
	if m.yields(now, e, h) {
		m.drop(s)
		return
	}
	if h.EchoCounter == s.helloTo {
		s.rtt.add(now.Sub(s.helloAt))
	}
	s.bind(h)
	if k.hs.Pattern == wire.PatternXX {
		finish, err := k.hs.Write(m.security.Certificate)
		if err != nil {
			panic("rel: the last message of a handshake fails: " + err.Error())
		}
		s.finish = finish
	}
	m.enable(now, s, certificate)
	m.opens(now, s)
	if e.live == s {
		e.owe(dutyProbe) // so that the peer opens it too; repeated until the peer is heard in it
		s.ackNow(wire.AckAsked)
	}
}

// receiveFinish takes the last message of an XX handshake that the peer began.
func (m *Module) receiveFinish(now clock.Time, from netip.AddrPort, o wire.Outer, h *wire.Handshake, fabric int) {
	s := m.sessions.find(o.Index)
	if s == nil || s.own || from != s.addr || s.peer.Index != h.Index {
		m.stats.NoSession++
		return
	}
	k := s.shake
	if k == nil || k.hs.Pattern != wire.PatternXX || k.fabric != fabric { // it has arrived before
		m.stats.HelloReceives++
		return
	}
	certificate, err := k.hs.Read(h.Noise)
	if err != nil { // a member forged it: the true one may still arrive
		m.stats.Handshakes++
		return
	}
	if len(certificate) > trust.MaxCertificateLen {
		m.stats.Handshakes++
		m.drop(s)
		return
	}
	key, _ := k.hs.PeerKey()
	known := m.byNIC[s.peer.NIC]
	if m.distrusts(now, known, s.peer.NIC, from, key, certificate) && m.cfg.Defect != mutate.KeyUnchecked {
		m.stats.Identities++
		m.drop(s)
		return
	}
	m.stats.HelloReceives++
	s.local = m.reached()
	m.enable(now, s, certificate)
	m.confirm(now, s)
}

// enable gives a session the keys of its handshake.
func (m *Module) enable(now clock.Time, s *session, certificate []byte) {
	hs := s.shake.hs
	s.key, _ = hs.PeerKey()
	s.certificate = bytes.Clone(certificate)
	s.fabric = s.shake.fabric
	s.relay = hs.Secrets().Relay
	p := &s.packets
	if !m.cfg.Tagged {
		p.guard = &m.bare
		s.ready = true
		return
	}
	s.sealed = m.newSealed(now, s, hs)
	p.guard, s.ready = s.sealed, true
}

// proves notes the key that the peer of an opening session has proved.
func (e *Endpoint) proves(s *session) {
	if s.shake == nil {
		return
	}
	s.shake = nil
	e.key, e.certificate, e.keyKnown, e.proved = s.key, s.certificate, true, true
}

// refuseSealedVersion tells a NIC of another version our version.
func (m *Module) refuseSealedVersion(to netip.AddrPort, h *wire.Handshake, fabric int) {
	if h.Pattern != wire.PatternNone && len(m.refusals) < maxRefusals {
		m.refusals = append(m.refusals, refusal{to: to, from: m.reached(), index: h.Index, fabric: fabric})
	}
}
