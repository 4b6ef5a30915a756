package rel

import (
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// A datagram is admitted and opened as every frame of its session, and that is all: it has no
// number, is not acknowledged and not retransmitted. One that is longer than a frame of its path
// goes in pieces. The receiver joins them, and gives the whole datagram up if one is missing for
// too long:
//
//	SendDatagram ───────► frames of the session ═══► whole in one frame ────────► Handler.Datagram
//	   │ driver takes no more  ▲                ═══► a piece: joining ─► whole ─►
//	   ▼                       │                             └─ DatagramPatience: given up
//	Datagram ─► waiting ─► SendDatagrams, Progress
//
// No datagram arrives twice: each of its frames has a packet counter, which is taken once.

// waitingDatagram is a datagram that has not left yet.
type waitingDatagram struct {
	session *session
	id      uint32
	service uint8
	buf     [1][]byte
	n       int // bytes
	sent    int // bytes that have left in pieces
	piece   int // length of these pieces, once one has left
}

// Datagram returns room for a datagram of n bytes to a service of the peer, which the caller
// writes at once. It leaves with SendDatagrams or the next Progress. Datagram returns nil if n
// is more than wire.MaxDatagram, if there is no session (it does not open one), or if too many
// datagrams wait already. Each cause is counted.
func (e *Endpoint) Datagram(service uint8, n int) []byte {
	if !e.mayDatagram(n) {
		return nil
	}
	w := e.m.newDatagram(e.live, service, n)
	return e.m.awaitDriver(&w)
}

// SendDatagram is Datagram for data in parts, n bytes together. It copies them straight into the
// driver's frames, which leave with SendDatagrams or the next Progress. If the driver does not
// take the datagram, it waits in a copy. SendDatagram reports whether the datagram leaves.
func (e *Endpoint) SendDatagram(service uint8, n int, parts [][]byte, out Frames) bool {
	if !e.mayDatagram(n) {
		return false
	}
	m := e.m
	w := m.newDatagram(e.live, service, n)
	if len(m.waiting) > 0 || !m.sendDatagram(&w, parts, out) {
		b := m.awaitDriver(&w)
		for _, p := range parts {
			b = b[copy(b, p):]
		}
		return true
	}
	m.staged++
	return true
}

// mayDatagram reports whether a datagram of n bytes may leave, and counts why not.
func (e *Endpoint) mayDatagram(n int) bool {
	m := e.m
	switch {
	case n > wire.MaxDatagram:
		m.stats.DatagramsTooLong++
	case e.live == nil:
		m.stats.DatagramsNoSession++
	case e.Crowded():
		m.stats.DatagramsUnsent++
	default:
		return true
	}
	return false
}

// Crowded reports whether so many datagrams wait, to this peer or to all, that no more are
// taken. SendDatagrams or Progress may make room.
func (e *Endpoint) Crowded() bool {
	m := e.m
	return e.live != nil && len(m.waiting) > 0 &&
		(len(m.waiting) >= limits.DatagramsWaitingInAll || m.waitingFor(e.live) >= limits.DatagramsWaiting)
}

func (m *Module) newDatagram(s *session, service uint8, n int) waitingDatagram {
	m.datagramID++
	return waitingDatagram{session: s, id: m.datagramID, service: service, n: n}
}

// awaitDriver queues a datagram until the driver takes it, and returns the room for its bytes.
func (m *Module) awaitDriver(w *waitingDatagram) []byte {
	w.buf[0] = m.pool.buffer(w.n)[:w.n]
	m.waiting = append(m.waiting, *w)
	return w.buf[0]
}

// waitingFor returns how many datagrams wait for the peer of a session.
func (m *Module) waitingFor(s *session) (n int) {
	for i := range m.waiting {
		if m.waiting[i].session == s {
			n++
		}
	}
	return n
}

// SendDatagrams sends the waiting datagrams and nothing else, as far as the driver takes them,
// and returns how many have left or were dropped.
func (m *Module) SendDatagrams(now clock.Time, out Flusher) (work int) {
	if m.staged+len(m.waiting) == 0 { // the usual case, inlined so that it costs no call
		return 0
	}
	return m.flushDatagrams(now, out)
}

func (m *Module) flushDatagrams(now clock.Time, out Flusher) (work int) {
	work = m.staged + len(m.waiting)
	m.staged = 0
	m.sendDatagrams(out)
	out.Flush(now)
	return work - len(m.waiting)
}

// sendDatagrams sends the waiting datagrams, as far as the driver takes them.
func (m *Module) sendDatagrams(out Frames) {
	left := m.waiting[:0]
	for i := range m.waiting {
		d := &m.waiting[i]
		switch {
		case !d.session.open:
			m.stats.DatagramsNoSession++
		case !m.sendDatagram(d, d.buf[:], out):
			m.choked = true
			left = append(left, *d) // others may go on: perhaps only this peer's queue is full
			continue
		}
		m.pool.putBuffer(d.buf[0])
	}
	clear(m.waiting[len(left):])
	m.waiting = left
}

// sendDatagram sends the rest of a datagram, whose bytes lie in parts, in as many frames as its
// path needs. It returns false if the driver takes no more.
func (m *Module) sendDatagram(w *waitingDatagram, parts [][]byte, out Frames) bool {
	s := w.session
	if !m.finishes(s, out) {
		return false
	}
	most := (s.path.size - wire.OuterLen - wire.DatagramLen - s.packets.tagLen()) / wire.PartUnit * wire.PartUnit
	piece := wire.DatagramPiece(w.n, most)
	if w.sent > 0 {
		// The path may carry more by now, and then the last piece would be filled up with zeros to
		// more than the length of those before it.
		piece = min(piece, w.piece)
	}
	w.piece = piece
	from := Fragment{Parts: parts}
	for {
		b := s.frame(out)
		if b == nil {
			return false
		}
		n := min(piece, w.n-w.sent)
		d := wire.Datagram{ID: w.id, Offset: uint32(w.sent), Length: uint32(w.n), Service: w.service}
		d.Put(b[wire.OuterLen:], n)
		at, payload := from.payload(b, wire.OuterLen+wire.DatagramLen, uint64(w.sent), n)
		if n < piece {
			at += copy(b[at:], payload)
			clear(b[at : at+piece-n])
			at, payload = at+piece-n, nil
		}
		out.Commit(s.sealDatagram(b, at, payload, w.service))
		if w.sent += n; w.sent == w.n {
			m.stats.DatagramSends++
			m.work++
			return true
		}
	}
}

// joining is a datagram of which some pieces have arrived.
type joining struct {
	assembly
	id      uint32
	service uint8
	until   clock.Time // it is given up then
}

// receiveDatagram takes a datagram or a piece of one.
func (m *Module) receiveDatagram(now clock.Time, s *session, body []byte) {
	d, payload, err := wire.ParseDatagram(body)
	if err != nil {
		m.stats.Malformed++
		return
	}
	if len(payload) == int(d.Length) {
		m.stats.DatagramFrames++
		m.handOver(now, s, d.Service, payload)
		return
	}
	j := m.joiningOf(now, s, &d)
	if j != nil && (len(j.buf) != int(d.Length) || j.service != d.Service) {
		m.stats.Malformed++ // a datagram has one length, and one service
		return
	}
	if m.stats.DatagramFrames++; j == nil {
		m.stats.DatagramsNoRoom++
		return
	}
	if j.take(int(d.Offset), payload); j.units > 0 && m.cfg.Defect != mutate.DatagramUnfinished {
		return
	}
	m.forgetJoining(slices.Index(m.joinings, j))
	m.handOver(now, s, j.service, j.buf)
	m.pool.putBuffer(j.buf)
	m.spareJoinings.Give(j)
}

// handOver gives the owner a datagram.
func (m *Module) handOver(now clock.Time, s *session, service uint8, payload []byte) {
	m.stats.DatagramReceives++
	m.handler.Datagram(now, s.endpoint, service, payload)
}

// joiningOf returns the arrived part of a datagram, and begins it if d is its first piece. A
// peer that begins too many loses its oldest one. If all peers together have too many, the peer
// that has most of them loses its oldest, if that still leaves it as many as this peer has then.
// Otherwise there is no room.
func (m *Module) joiningOf(now clock.Time, s *session, d *wire.Datagram) *joining {
	oldest := -1
	for i, j := range m.joinings {
		if j.session != s {
			continue
		}
		if j.id == d.ID || m.cfg.Defect == mutate.DatagramMixed && len(j.buf) == int(d.Length) {
			return j
		}
		if oldest < 0 {
			oldest = i
		}
	}
	switch {
	case s.joining == limits.DatagramsJoining:
		m.giveUpJoining(oldest)
	case len(m.joinings) == limits.DatagramsJoiningInAll:
		most := m.greediest()
		if m.joinings[most].session.joining < s.joining+2 {
			return nil
		}
		m.giveUpJoining(most)
	}
	j := m.spareJoinings.Take()
	*j = joining{id: d.ID, service: d.Service, until: now.Add(limits.DatagramPatience)}
	j.begin(s, m.pool.buffer(int(d.Length))[:d.Length])
	m.joinings = append(m.joinings, j)
	s.joining++
	return j
}

// greediest returns the index of the oldest joining of the peer that has most of them.
func (m *Module) greediest() (most int) {
	for i, j := range m.joinings {
		if j.session.joining > m.joinings[most].session.joining {
			most = i
		}
	}
	return most
}

// giveUpJoining forgets a datagram that is not whole.
func (m *Module) giveUpJoining(i int) {
	j := m.joinings[i]
	m.forgetJoining(i)
	m.stats.DatagramsIncomplete++
	m.pool.putBuffer(j.buf)
	m.spareJoinings.Give(j)
}

func (m *Module) forgetJoining(i int) {
	m.joinings[i].session.joining--
	m.joinings = slices.Delete(m.joinings, i, i+1)
}

// expireDatagrams gives up the datagrams that have waited too long for a piece.
func (m *Module) expireDatagrams(now clock.Time) {
	for len(m.joinings) > 0 && now >= m.joinings[0].until {
		m.giveUpJoining(0)
	}
}

// datagramsUntil returns when the first of them is given up.
func (m *Module) datagramsUntil() clock.Time {
	if len(m.joinings) == 0 {
		return clock.Never
	}
	return m.joinings[0].until
}

// forgetDatagrams forgets the pieces that arrived in a session: when it is over, none of its
// datagrams is handed over.
func (m *Module) forgetDatagrams(s *session) {
	for i := len(m.joinings) - 1; i >= 0; i-- {
		if m.joinings[i].session == s {
			m.giveUpJoining(i)
		}
	}
}
