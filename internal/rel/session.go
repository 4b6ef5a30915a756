package rel

import (
	"net/netip"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/wire"
)

// session is one life of the connection between two NICs. Each side gave it an index, which
// stands in every frame to that side, and a cookie, which stands in the tags. A half-open
// session (bound or not) becomes the live one when a frame proves that the peer knows our index
// and cookie; see hello.go.
type session struct {
	endpoint *Endpoint
	packets  packets
	index    uint32 // ours: in the frames that the peer sends
	// The peer is known. An index is bound to one index of one life of the peer, or thrown away.
	bound     bool
	open      bool
	retired   bool // over, but still found: only with mutate.OldIncarnation
	confirmed bool // it is open at the peer, too
	first     [wire.Spaces]wire.Seq
	addr      netip.AddrPort // where the peer is; frames from elsewhere are foreign
	local     netip.Addr     // of this host, where the peer reaches us; invalid if unknown
	made      clock.Time

	// Fields of a sealed link. Its other fields are at the end, so that the fields that every
	// frame uses stay near one another.
	// Its frames can be opened: on a plain link when it is bound, on a sealed one after the
	// handshake.
	ready    bool
	finished bool    // Finish has left once, so other frames may leave
	sealed   *sealed // nil if its frames are not sealed
	// The last message of our handshake, until the peer is heard in the session; nil if none is
	// owed.
	finish []byte

	peer      wire.Hello // the peer's description of itself
	answers   uint64     // packet counter of the peer's newest Hello, to be echoed
	helloFrom uint64     // packet counters of our own Hellos with this index: from here …
	helloTo   uint64     // … to here
	helloAt   clock.Time // when the last of them left

	// Packet counter of a frame whose echo measures a round trip by itself; 0 if there is none:
	// see rtt.go.
	marked   uint64
	markedAt clock.Time // when it left
	replay   replayWindow
	in       Traffic // frames that the peer has made

	// Fields of an open session only:
	send     [wire.Spaces]sendWindow
	receive  [wire.Spaces]receiveWindow
	expected wire.NextChunk // in the data space
	rtt      roundTrip
	flight   segmentList // in the hotel, in order of posting, so that packet counters rise along it
	recovery recovery
	path     path
	acks     acks
	withheld withholding
	reliable bool
	joining  uint8      // datagrams of the peer that are being joined
	doubted  bool       // the driver was told that batches perhaps do not get through
	room     int32      // of the ACK and tail timers, in the desk hotel
	roomAt   clock.Time // when they go off

	// Fields of a sealed link only:
	own         bool        // begun by our attempt
	fabric      int         // which of the fabric keys
	shake       *shake      // while it is half open
	relay       seal.Secret // known to both ends, and to no other NIC
	key         trust.PublicKey
	certificate []byte
	roams       *roaming

	// Fields of a plain link only:
	// When a frame of the session came from another address, and was examined.
	elsewhereAt clock.Time

	relayKey relayKey
	// Nil before the first fragment that asks for confirmation has left over a reliable link.
	confirming *confirming
}

// ackDelay returns how long the peer may hold an ACK back.
func (s *session) ackDelay() time.Duration {
	return time.Duration(s.peer.AckDelayMicros) * time.Microsecond
}

// newSession makes a half-open session of e, with a peer at addr, and gives it an index and a
// cookie.
func (m *Module) newSession(now clock.Time, e *Endpoint, addr netip.AddrPort) *session {
	s := &session{endpoint: e, addr: addr, made: now}
	s.packets.start(m, m.cfg.Secrets.Uint64(secret.Cookie))
	for i := range s.first {
		s.first[i] = wire.Seq(m.cfg.Secrets.Uint64(secret.FirstNumber))
	}
	m.sessions.add(s, uint32(m.cfg.Secrets.Uint64(secret.SessionIndex)))
	return s
}

// word returns the first word of a frame to this end of s, except for the frame's kind.
func (s *session) word() uint64 { return wire.Outer{Flags: s.packets.expects, Index: s.index}.Word() }

// bind notes the peer's description of its end.
func (s *session) bind(h *wire.Hello) {
	s.bound, s.peer = true, *h
	s.ready = s.endpoint.m.security == nil
	s.packets.aim(h.Index, h.Cookie)
}

// sessionTable finds sessions by index. The low bits are a slot, the high ones random, so that
// an index of an earlier session, or a guessed one, is seldom valid.
type sessionTable struct {
	slots []*session
	free  []uint32
	// By index in the frame, for frames that stand apart (resident.go). Few peers send such
	// frames.
	apart map[uint32]*replayWindow
}

const slotBits = 20

func (t *sessionTable) add(s *session, random uint32) {
	var slot uint32
	if n := len(t.free); n > 0 {
		slot, t.free = t.free[n-1], t.free[:n-1]
	} else {
		slot = uint32(len(t.slots))
		t.slots = append(t.slots, nil)
	}
	t.slots[slot] = s
	s.index = random<<slotBits&^wire.ResidentBit | slot
	if s.index>>slotBits == 0 {
		s.index |= 1 << slotBits // 0 is not a valid index
	}
}

func (t *sessionTable) remove(s *session) {
	slot := s.index & (1<<slotBits - 1)
	t.slots[slot] = nil
	delete(t.apart, s.index)
	delete(t.apart, s.index|wire.ResidentBit)
	t.free = append(t.free, slot)
}

func (t *sessionTable) find(index uint32) *session {
	slot := index & (1<<slotBits - 1)
	if int(slot) >= len(t.slots) {
		return nil
	}
	if s := t.slots[slot]; s != nil && s.index == index {
		return s
	}
	return nil
}

// opens swaps the half-open session s in: the old one, if any, ends, and the owner is told of
// both.
func (m *Module) opens(now clock.Time, s *session) {
	e := s.endpoint
	if old := e.live; old != nil {
		why := ErrSessionLost
		if s.peer.Incarnation > old.peer.Incarnation {
			why = ErrRestarted
		}
		m.ends(now, e, why)
	}
	m.displace(now, s)
	if m.sessions.find(s.index) != s { // the owner forgot the endpoint when it was told
		return
	}
	m.endHalfOpen(s)
	if e.next != nil && e.attempt.wanted { // it existed for the attempt
		m.setAside(e)
	}
	if s.own && m.cfg.NIC < s.peer.NIC { // handshakes have crossed, and this one wins
		m.dropPending(e)
	}
	e.attempt.stop()
	e.calls = 1 << 30 // the peer is at its known address
	e.nic = s.peer.NIC
	e.proves(s)
	if e.addr != s.addr {
		m.move(e, s.addr)
	}
	e.local, e.elsewhere = s.local, netip.AddrPort{}
	m.know(e)
	s.open = true
	s.reliable = m.cfg.Reliable && s.peer.Capabilities&wire.CapReliable != 0
	e.live = s
	e.countSession(now, s)
	if s.peer.Incarnation > e.incarnation {
		e.incarnation, e.helloSeen = s.peer.Incarnation, 0
	}
	e.helloSeen = max(e.helloSeen, s.answers)
	e.heard, e.probedAt, e.mute = now, now, false
	e.startWindows(s)
	e.attend(now)
	e.search(s)
	if e.check.running() {
		e.book(now, e.checkTimer(now))
	}
	m.handler.Up(now, e)
	if e.live == s {
		e.blocked = false
		m.handler.Writable(now, e)
	}
}

// startWindows prepares all counts of a fresh session.
func (e *Endpoint) startWindows(s *session) {
	windows := [wire.Spaces]uint32{s.peer.WinCommand, s.peer.WinData}
	mtus := [wire.Spaces]uint32{s.peer.MTUCommand, s.peer.MTUData}
	firsts := [wire.Spaces]wire.Seq{s.peer.FirstCommand, s.peer.FirstData}
	for i := range wire.Space(wire.Spaces) {
		s.send[i].start(s.first[i], int(min(windows[i], limits.Window)))
		s.receive[i].start(firsts[i])
		s.receive[i].defect = e.m.cfg.Defect
		most := min(e.m.channelMTU(i), int(min(mtus[i], 1<<20)))
		e.channels[i] = channel{mtu: most, most: most}
	}
	e.startPath(s)
	e.tag = s.packets.tag
	s.acks.at, s.recovery.tailAt = clock.Never, clock.Never
	e.congestion.start(s.peer.ReceiveCapacity)
	e.overrun, e.owed, e.duties = false, 0, 0
}

// ends closes e's session, or its attempt at one: its fragments are released with the reason,
// then the owner is told.
func (m *Module) ends(now clock.Time, e *Endpoint, why error) {
	e.attempt.stop()
	if s := e.live; s != nil {
		e.live = nil
		e.stats.add(s)
		e.MarkChanged()
		s.open = false
		if m.latest == s {
			m.latest = nil
		}
		if m.cfg.Defect == mutate.OldIncarnation {
			s.retired = true // and stays in the table, which is the defect
		} else {
			m.sessions.remove(s)
		}
		e.empty(s)
	}
	e.duties &= dutyAnswerNext
	e.blocked, e.overrun = false, false
	e.check.lost(e)
	m.release(now, e, why)
	m.handler.Down(now, e, why)
}

// empty takes all segments of s out of their lists.
func (e *Endpoint) empty(s *session) {
	m := e.m
	for i := range e.channels {
		c := &e.channels[i]
		for c.queue.head != nil {
			g := c.queue.head
			c.dequeue(g)
			m.tellLost(e, g)
			m.pool.put(g)
		}
		w := &s.send[i]
		for q := w.base; q != w.next; q = q.Add(1) {
			if g := w.find(q); g != nil {
				w.forget(q, g.frames)
				m.unlist(s, g)
				m.tellLost(e, g)
				m.pool.put(g)
			}
		}
		w.settle()
	}
	s.leaveDesk(m)
	m.forgetParts(s)
	m.forgetDatagrams(s)
}

// tellLost reports the records of a segment that is given up.
func (m *Module) tellLost(e *Endpoint, g *segment) {
	h, ok := m.handler.(LossHandler)
	for b := g.buf; ok && len(b) > 0; {
		var r wire.Record
		r, b = wire.NextRecord(b)
		h.Lost(e, r)
	}
}

// unlist takes a posted segment out of the list of its state, and out of the hotel.
func (m *Module) unlist(s *session, g *segment) {
	switch g.state {
	case stateInHotel:
		if g.room != 0 {
			m.hotel.CheckOut(g.room)
			g.room = 0
		}
		if !g.forgotten {
			s.flight.remove(g)
			m.lodged -= g.frames
		}
		s.endpoint.channels[g.channel].inFlight -= g.costs()
	case stateResend:
		m.resends.remove(g)
	default:
		panic("rel: a posted segment is " + g.state.String())
	}
}

// release gives every active fragment back to its owner. The owner may start new ones meanwhile;
// they do not belong to the session that ended, which cannot take any.
func (m *Module) release(now clock.Time, e *Endpoint, why error) {
	for n := len(e.fragments); n > 0; n = len(e.fragments) {
		f := e.fragments[n-1]
		f.Err, f.pieces = why, 0
		e.over(f)
		m.handler.Released(now, f)
	}
}

// know enters a peer into the table, if it is not there.
func (m *Module) know(e *Endpoint) {
	if e.nic != 0 {
		m.byNIC[e.nic] = e
		delete(m.strangers, e.nic)
	}
	if !e.known {
		e.known = true
		m.endpoints = append(m.endpoints, e)
		e.MarkChanged()
	}
	m.byAddr[e.addr] = e
}

// drop throws a half-open session away.
func (m *Module) drop(s *session) {
	e := s.endpoint
	m.sessions.remove(s)
	m.endHalfOpen(s)
	if !e.known && m.strangers[e.nic] == e && !slices.ContainsFunc(m.pending, e.has) {
		delete(m.strangers, e.nic)
	}
}

// dropPending drops the half-open sessions that the peer of e began.
func (m *Module) dropPending(e *Endpoint) {
	for i := slices.IndexFunc(m.pending, e.has); i >= 0; i = slices.IndexFunc(m.pending, e.has) {
		m.drop(m.pending[i])
	}
}

// endHalfOpen removes a session from all lists and fields for half-open ones.
func (m *Module) endHalfOpen(s *session) {
	e := s.endpoint
	if e.next == s {
		e.next = nil
	}
	if e.answering == s {
		e.answering = nil
	}
	m.unpend(s)
}

// has reports whether s is e's.
func (e *Endpoint) has(s *session) bool { return s.endpoint == e }

// unpend takes s off the list of sessions that peers began.
func (m *Module) unpend(s *session) {
	if i := slices.Index(m.pending, s); i >= 0 {
		m.pending = slices.Delete(m.pending, i, i+1)
	}
}
