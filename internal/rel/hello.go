package rel

import (
	"net/netip"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/wire"
)

// A session opens like this (decision 3). The index and the cookie of an endpoint's half-open
// session go both into its own Hello and into its answer to the peer's. So Hellos that cross
// describe the same session twice:
//
//	A                                B
//	│ Hello (a)                      │       half open: a ↔ ?
//	│ ─────────────────────────────► │       half open: b ↔ a, bound
//	│              HelloAck (b), to a│
//	│ ◄───────────────────────────── │
//	│ Up: a ↔ b                      │
//	│ Ack and Probe, to b            │
//	│ ─────────────────────────────► │       the old session, if any, ends; Up: b ↔ a
//	│               ProbeReply, to a │
//	│ ◄───────────────────────────── │
//	│ confirmed                      │
//
// A Hello destroys nothing: it binds the half-open session, or makes one. A session is swapped
// in only by a frame with its index and cookie, which are known only to the peer that got the
// answer. An index that is bound to one index of one life of the peer is never bound to another;
// a new one is made instead, so that a late frame of an earlier life fits nowhere.
//
// Anything can send a Hello in the name of any NIC, with any incarnation and packet counter. So
// a Hello is judged only by the facts that a session has shown by opening, and it takes nothing
// from another one that has not opened. A session that was answered and had to make room for a
// newer Hello may still be confirmed, for as long as any that a peer began. A Hello from another
// address than the known one of the peer gets a session for itself, so that it cannot redirect
// our own.
//
// If both sides want a session and each is bound to an index that the other has thrown away, new
// indices could chase each other for ever. So the NIC with the lower id insists on its own
// Hello: it repeats it until an answer shows that its index is obsolete. Then it takes an index
// that is bound to nothing.

// attempt is an endpoint's own wish for a session.
type attempt struct {
	kind    int // of handshake: IK, then XX with each fabric key
	hellos  int // the number that were due
	wanted  bool
	yielded bool       // it has dropped a handshake for one that the peer began
	own     bool       // begun by rel, not by the owner: gives up silently
	since   clock.Time // of the wish
	helloAt clock.Time // when the next Hello is due
}

func (a *attempt) stop() { *a = attempt{} }

// Connect begins an attempt at a session with the peer: it sends a Hello now and then every 250
// ms. Down(ErrUnreachable) follows if no session opens within UnreachableAfter. If a session is
// open, or an attempt is running, it does nothing.
func (e *Endpoint) Connect(now clock.Time) {
	if e.live != nil || e.m.closed {
		return
	}
	e.mute = false
	if !e.attempt.wanted {
		e.m.attempts(now, e, false)
	} else if e.attempt.own {
		e.attempt.own, e.attempt.since = false, now
	}
}

// attempts begins an attempt.
func (m *Module) attempts(now clock.Time, e *Endpoint, own bool) {
	e.attempt = attempt{wanted: true, own: own, since: now}
	e.elsewhere = netip.AddrPort{}
	if e.next != nil {
		m.unpend(e.next) // it is ours now and lives as long as the attempt
	}
	if m.security != nil && !e.keyKnown {
		e.attempt.kind = 1
	}
	e.hello(now)
}

// hello requests the next Hello, and sets the time of the one after it.
func (e *Endpoint) hello(now clock.Time) {
	if e.m.security != nil {
		e.nextKind()
	}
	if e.next == nil {
		e.next = e.m.newSession(now, e, e.addr)
		if e.m.security != nil {
			e.next.own = true
			e.m.initiate(e, e.next)
		}
	}
	if n := e.next; !n.bound {
		n.local = e.callsFrom()
	}
	e.attempt.hellos++
	e.attempt.helloAt = now.Add(e.m.helloEvery())
	e.owe(dutyHello)
	e.book(now, clock.Min(e.attempt.helloAt, e.attempt.since.Add(e.m.cfg.UnreachableAfter)))
}

// helloEvery returns the time between two Hellos of an attempt.
func (m *Module) helloEvery() time.Duration { return min(limits.HelloEvery, m.cfg.UnreachableAfter/8) }

// receiveHello judges a Hello. It is the only frame that belongs to no session, so its cost is
// bounded: limits.PendingSessions half-open sessions of all peers together, and one answer per
// peer and poll.
func (m *Module) receiveHello(now clock.Time, from netip.AddrPort, o wire.Outer, frame []byte) {
	if m.security != nil || o.Flags != m.hellos.flags {
		m.unsealed(now, from, o)
		return
	}
	body := m.open(now, &m.hellos, o, frame, nil)
	if body == nil {
		m.stats.CRCErrors++
		return
	}
	h, err := wire.ParseHello(body)
	if err != nil {
		m.stats.Malformed++
		return
	}
	if h.MinVersion > wire.Version || h.MaxVersion < wire.Version {
		m.stats.VersionMismatches++
		m.refuseVersion(from, o, &h)
		return
	}
	// Not this NIC's own Hello, sent back to it.
	if h.NIC == m.cfg.NIC && h.Incarnation != m.cfg.Incarnation {
		_ = m.handler.Admit(now, h.NIC, from) // refuses and remembers it
	}
	if h.NIC == m.cfg.NIC || tooSmall(&h) || m.closed {
		m.stats.Refused++
		return
	}
	e := m.hearsFrom(h.NIC, from)
	if e != nil && e.stale(h.Incarnation, o.Counter) {
		m.stats.StaleHellos++
		m.tellOutdated(now, e, from, &h)
		return
	}
	if m.handler.Admit(now, h.NIC, from) != nil {
		m.stats.Refused++
		return
	}
	if e == nil {
		if e = m.stranger(h.NIC, from); e == nil {
			m.stats.Refused++
			return
		}
	}
	m.stats.HelloReceives++
	m.answerHello(now, e, from, o.Counter, &h)
}

// unsealed takes note of a plain frame on a sealed link, or of a sealed one on a plain link.
func (m *Module) unsealed(now clock.Time, from netip.AddrPort, o wire.Outer) {
	sealed := o.Flags&wire.FlagSealed != 0
	switch {
	case m.security != nil && !sealed:
		m.stats.Unsealed++
		if o.Kind == wire.KindHello && m.byAddr[from] != nil {
			m.handler.Stranger(now, from, ErrPlain)
		}
	case m.security == nil && sealed:
		m.stats.Unsealed++
		if o.Kind == wire.KindHello && m.byAddr[from] != nil {
			m.handler.Stranger(now, from, ErrSealed)
		}
	default:
		m.stats.CRCErrors++
	}
}

// hearsFrom returns the endpoint of a NIC that sends a Hello, nil if there is none. If e was
// opened without an id and the address fits, it is that endpoint.
func (m *Module) hearsFrom(nic uint64, from netip.AddrPort) *Endpoint {
	if e := m.byNIC[nic]; e != nil {
		return e
	}
	if e := m.byAddr[from]; e != nil && e.nic == 0 {
		return e
	}
	return m.strangers[nic]
}

// stranger makes an endpoint for a NIC that was not opened. It counts as a peer when its session
// opens. It returns nil if there are enough peers.
func (m *Module) stranger(nic uint64, from netip.AddrPort) *Endpoint {
	if !m.roomForStranger() {
		return nil
	}
	e := m.newEndpoint(nic, from)
	m.strangers[nic] = e
	return e
}

// stale reports whether a Hello is from an earlier life of the peer than the session that opened
// last, or not newer than the Hello that opened it: packet counters of Hellos only grow.
func (e *Endpoint) stale(incarnation, counter uint64) bool {
	return incarnation < e.incarnation || incarnation == e.incarnation && counter <= e.helloSeen
}

// tellOutdated tells the handler if a Hello, or an answer to one, is of an earlier life than the
// last session, and no session is open. A NIC whose incarnation has gone back keeps sending such
// Hellos, and is kept out for ever.
func (m *Module) tellOutdated(now clock.Time, e *Endpoint, from netip.AddrPort, h *wire.Hello) {
	if e.live == nil && h.Incarnation < e.incarnation {
		m.handler.Outdated(now, h.NIC, from)
	}
}

// answerHello binds a half-open session to the peer's Hello and requests the answer.
func (m *Module) answerHello(now clock.Time, e *Endpoint, from netip.AddrPort, counter uint64, h *wire.Hello) {
	if s := e.live; s != nil && s.names(h) && s.addr == from {
		s.answers = counter // the peer did not hear that the session is open: tell it again
		e.owe(dutyAnswerLive)
		return
	}
	e.mute = false
	s := m.halfOpen(e, from, h)
	if n := e.next; s == nil && from == e.addr && n != nil {
		if n.bound && e.attempt.wanted && m.cfg.NIC < h.NIC && h.Incarnation == n.peer.Incarnation {
			e.owe(dutyHello) // we insist: see above
			return
		}
		if n.bound {
			m.setAside(e)
		}
		s = e.next
	}
	if s == nil {
		s = m.newSession(now, e, from)
		if from == e.addr {
			e.next = s
		}
	}
	s.bind(h)
	s.local = m.reached()
	s.answers, s.made = counter, now
	e.answering = s
	e.owe(dutyAnswerNext)
	m.unpend(s)
	if s != e.next || !e.attempt.wanted {
		m.pend(s)
	}
}

// halfOpen returns the half-open session of e that was bound by this Hello, or by an earlier one
// with the same contents; nil if there is none.
func (m *Module) halfOpen(e *Endpoint, from netip.AddrPort, h *wire.Hello) *session {
	if n := e.next; n != nil && n.addr == from && n.names(h) {
		return n
	}
	for _, s := range m.pending {
		if s.endpoint == e && s.addr == from && s.names(h) {
			return s
		}
	}
	return nil
}

// names reports whether h describes the peer's end of s.
func (s *session) names(h *wire.Hello) bool {
	return s.bound && s.peer.Index == h.Index && s.peer.Incarnation == h.Incarnation
}

// setAside makes e begin with a fresh index. If the peer was answered with the present session,
// that is kept for as long as one that the peer began.
func (m *Module) setAside(e *Endpoint) {
	s := e.next
	if !s.bound {
		m.drop(s)
		return
	}
	e.next = nil
	m.unpend(s)
	m.pend(s)
}

// confirm opens a half-open session: the peer knows what only our answer told it. A session is
// dropped if its Hello is older than that of the session that opened last.
func (m *Module) confirm(now clock.Time, s *session) {
	e, known := s.endpoint, m.byNIC[s.peer.NIC]
	if e.stale(s.peer.Incarnation, s.answers) || e.nic != 0 && e.nic != s.peer.NIC || known != nil && known != e {
		m.drop(s)
		return
	}
	m.opens(now, s)
}

// pend lists a half-open session that no attempt of ours keeps. If there are too many, the
// oldest is dropped, so that a flood of Hellos keeps no NIC out for longer than the time to its
// own next Hello.
func (m *Module) pend(s *session) {
	m.pending = append(m.pending, s)
	if len(m.pending) > limits.PendingSessions {
		m.drop(m.pending[0])
	}
}

// expirePending drops half-open sessions that were not confirmed in time.
func (m *Module) expirePending(now clock.Time) {
	for len(m.pending) > 0 && now >= m.pendingUntil() {
		m.drop(m.pending[0])
	}
}

// pendingUntil returns when the oldest half-open session ends.
func (m *Module) pendingUntil() clock.Time {
	if len(m.pending) == 0 {
		return clock.Never
	}
	return m.pending[0].made.Add(m.cfg.UnreachableAfter)
}

// receiveHelloAck judges the answer to our Hello, which arrived with the index and the cookie
// from that Hello.
func (m *Module) receiveHelloAck(now clock.Time, s *session, body []byte) {
	e, opened := s.endpoint, s.open
	h, err := wire.ParseHello(body)
	if err != nil {
		m.stats.Malformed++
		return
	}
	if h.EchoIncarnation != m.cfg.Incarnation || h.EchoCounter < s.helloFrom || h.EchoCounter > s.helloTo ||
		s.helloTo == 0 {
		m.stats.StaleHellos++
		return
	}
	m.stats.HelloReceives++
	switch {
	case s.open: // it repeats known facts
	case s == e.next:
		m.answered(now, s, &h)
	case s.names(&h): // it was set aside
		m.confirm(now, s)
	}
	if !opened && e.live == s {
		e.owe(dutyProbe) // so that the peer opens it too; repeated until the peer is heard in it
		s.ackNow(wire.AckAsked)
	}
}

// answered judges the answer to a Hello that announced s, which is half open.
func (m *Module) answered(now clock.Time, s *session, h *wire.Hello) {
	e := s.endpoint
	if why := m.unfit(now, s, h); why != nil {
		m.drop(s)
		m.ends(now, e, why)
		return
	}
	// The next Hello is due in its time. One at once would get the same answer, and so on
	// without end.
	if h.Incarnation < e.incarnation {
		m.tellOutdated(now, e, s.addr, h)
		return
	}
	if s.bound && !s.names(h) {
		m.setAside(e)
		if e.attempt.wanted {
			e.hello(now)
		}
		return
	}
	if h.EchoCounter == s.helloTo {
		s.rtt.add(now.Sub(s.helloAt))
	}
	s.bind(h)
	m.opens(now, s)
}

// unfit returns the reason to refuse the NIC that answered, nil if there is none.
func (m *Module) unfit(now clock.Time, s *session, h *wire.Hello) error {
	e := s.endpoint
	switch {
	case h.MinVersion > wire.Version || h.MaxVersion < wire.Version:
		return ErrVersion
	case h.NIC == m.cfg.NIC || tooSmall(h):
		return ErrRefused
	case e.nic != 0 && h.NIC != e.nic:
		return &OtherNICError{h.NIC}
	case e.nic == 0 && m.byNIC[h.NIC] != nil:
		return ErrRefused // that NIC has an endpoint already
	case e.nic == 0 && m.handler.Admit(now, h.NIC, s.addr) != nil:
		return ErrRefused
	}
	return nil
}

// tooSmall reports whether a NIC takes only frames that may be too small for the owner's
// records. No driver has such frames.
func tooSmall(h *wire.Hello) bool {
	return h.MTUCommand < limits.LeastFrame || h.MTUData < limits.LeastFrame
}

// callBack begins an attempt at a session with a peer whose frames belong to none. The peer has
// a session that we lost, by a restart or by giving the peer up. A Hello tells it so, long
// before its own patience ends. An attacker can send such frames in the peer's name. So on a
// sealed link as many bytes must have arrived as the Hellos of an attempt have, unless there was
// a session since the last attempt.
func (m *Module) callBack(now clock.Time, from netip.AddrPort, length int) {
	e := m.byAddr[from]
	if e == nil || e.live != nil && m.cfg.Defect != mutate.StaleRestarts || e.next != nil || e.mute || m.closed {
		return
	}
	if m.security != nil {
		if e.calls += length; e.calls < m.helloLength()*(1+int(m.cfg.UnreachableAfter/m.helloEvery())) {
			return
		}
		e.calls = 0
	}
	m.attempts(now, e, true)
}

// refusal is an answer to a NIC of another version. It tells our version, so that the other end
// can report the cause.
type refusal struct {
	to      netip.AddrPort
	from    netip.Addr
	index   uint32
	cookie  uint64
	counter uint64
	life    uint64
	fabric  int // on a sealed link
}

// maxRefusals bounds the refusals of one poll; a NIC that is left out asks again.
const maxRefusals = 8

func (m *Module) refuseVersion(to netip.AddrPort, o wire.Outer, h *wire.Hello) {
	if len(m.refusals) < maxRefusals {
		m.refusals = append(m.refusals, refusal{to: to, from: m.reached(), index: h.Index, cookie: h.Cookie,
			counter: o.Counter, life: h.Incarnation})
	}
}

// sendHello sends a Hello of s.
func (m *Module) sendHello(now clock.Time, s *session, out Frames) bool {
	if s.shake != nil {
		return m.sendSealedHello(now, s, out)
	}
	h := m.introduce(s)
	m.leavesFrom(s.local)
	if !m.hellos.sayHello(wire.KindHello, s.addr, &h, out) {
		return false
	}
	if s.helloFrom == 0 {
		s.helloFrom = m.hellos.counter
	}
	s.helloTo, s.helloAt = m.hellos.counter, now
	m.stats.HelloSends++
	return true
}

// sendHelloAck answers the newest Hello that s knows of.
func (m *Module) sendHelloAck(now clock.Time, s *session, out Frames) bool {
	if m.security != nil {
		return m.sendSealedAnswer(s, out)
	}
	h := m.introduce(s)
	h.EchoIncarnation, h.EchoCounter = s.peer.Incarnation, s.answers
	s.prepare()
	if !s.packets.sayHello(wire.KindHelloAck, s.addr, &h, out) {
		return false
	}
	s.mark(now, s.packets.counter)
	m.stats.HelloSends++
	return true
}

// sendRefusals sends the answers to NICs of other versions. On a plain link each is the only frame
// that is sent to its index.
func (m *Module) sendRefusals(out Frames) (sent int) {
	for _, r := range m.refusals {
		if m.security != nil {
			f := &signed{packets: &m.hellos, kind: wire.KindHelloAck, index: r.index, to: r.to, from: r.from,
				fabric: r.fabric}
			h := wire.Handshake{Pattern: wire.PatternNone, Message: 2, Index: 1}
			if m.sayHandshake(f, h, 0, out) == nil {
				break
			}
			sent++
			continue
		}
		h := m.introduce(&session{})
		h.Index, h.EchoIncarnation, h.EchoCounter = 1, r.life, r.counter
		m.refusing.start(m, 0)
		m.refusing.aim(r.index, r.cookie)
		m.leavesFrom(r.from)
		if !m.refusing.sayHello(wire.KindHelloAck, r.to, &h, out) {
			break
		}
		sent++
	}
	m.refusals = m.refusals[:0]
	return sent
}

// sayHello sends a Hello or HelloAck.
func (p *packets) sayHello(k wire.Kind, to netip.AddrPort, h *wire.Hello, out Frames) bool {
	b := frame(out, to)
	if b == nil {
		return false
	}
	h.Put(b[wire.OuterLen:])
	out.Commit(p.seal(k, b, wire.OuterLen+wire.HelloLen, nil))
	return true
}

// introduce returns this NIC's description of itself and of its end of s.
func (m *Module) introduce(s *session) wire.Hello {
	h := wire.Hello{
		MinVersion: wire.Version, MaxVersion: wire.Version,
		Index: s.index, NIC: m.cfg.NIC, Incarnation: m.cfg.Incarnation, Cookie: s.packets.cookies.ours,
		MTUCommand: uint32(m.channelMTU(wire.Command)), MTUData: uint32(m.channelMTU(wire.Data)),
		WinCommand: limits.Window, WinData: limits.Window,
		ReceiveCapacity: m.cfg.ReceiveCapacity,
		AckDelayMicros:  uint32(m.cfg.AckDelay / time.Microsecond),
		FirstCommand:    s.first[wire.Command], FirstData: s.first[wire.Data],
	}
	if m.cfg.Reliable {
		h.Capabilities |= wire.CapReliable
	}
	if y := m.security; y != nil && y.suite == seal.AES {
		h.Capabilities |= wire.CapAES
	}
	if y := m.security; y != nil && y.PlainResident {
		h.Capabilities |= wire.CapPlainPrograms
	}
	return h
}
