package rel

import (
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// A datagram is admitted and opened as every frame of its session, and that is all: it has no number, is not acknowledged and not sent
// again. One that is longer than a frame of its path goes in pieces. The receiver puts them together, and gives the datagram up whole
// when one is missing for too long:
//
//	Datagram ─► waiting ─► Progress: frames of the session ═══► whole in one frame ──────────► Handler.Datagram
//	                                                       ═══► a piece: joining ─► whole ───►
//	                                                                        └─ DatagramPatience: incomplete, forgotten
//
// A datagram that arrives twice does not exist: each of its frames has a packet counter, which is taken once.

// waitingDatagram is a datagram that has yet to leave.
type waitingDatagram struct {
	session *session
	id      uint32
	service uint8
	buf     []byte
	sent    int // bytes that have left in pieces
	piece   int // how long these are, once one has left
}

// Datagram returns room for a datagram of n bytes to a service of the peer, which the caller writes at once; it leaves with the next
// Progress. Datagram returns nil if n is more than wire.MaxDatagram, if there is no session, which it does not open, or if too many wait
// already; each is counted.
func (e *Endpoint) Datagram(service uint8, n int) []byte {
	m := e.m
	switch {
	case n > wire.MaxDatagram:
		e.m.stats.DatagramsTooLong++
		return nil
	case e.live == nil:
		e.m.stats.DatagramsNoSession++
		return nil
	case m.waitingFor(e.live) >= limits.DatagramsWaiting || len(m.waiting) >= limits.DatagramsWaitingInAll:
		e.m.stats.DatagramsUnsent++
		return nil
	}
	m.datagramID++
	m.waiting = append(m.waiting, waitingDatagram{session: e.live, id: m.datagramID, service: service, buf: m.pool.buffer(n)[:n]})
	return m.waiting[len(m.waiting)-1].buf
}

// waitingFor is how many datagrams wait for the peer of a session.
func (m *Module) waitingFor(s *session) (n int) {
	for i := range m.waiting {
		if m.waiting[i].session == s {
			n++
		}
	}
	return n
}

// sendDatagrams lets the datagrams leave that wait, as far as the driver takes them.
func (m *Module) sendDatagrams(out Frames) {
	left := m.waiting[:0]
	for i := range m.waiting {
		d := &m.waiting[i]
		switch {
		case !d.session.open:
			m.stats.DatagramsNoSession++
		case !m.sendDatagram(d, out):
			m.choked = true
			left = append(left, *d) // others may go on: perhaps only this peer's queue is full
			continue
		default:
			m.stats.DatagramSends++
			m.work++
		}
		m.pool.putBuffer(d.buf)
	}
	clear(m.waiting[len(left):])
	m.waiting = left
}

// sendDatagram sends what is left of a datagram, in as many frames as its path needs. It returns false if the driver takes no more.
func (m *Module) sendDatagram(w *waitingDatagram, out Frames) bool {
	s := w.session
	most := (s.path.size - wire.OuterLen - wire.DatagramLen - s.packets.tagLen()) / wire.PartUnit * wire.PartUnit
	piece := wire.DatagramPiece(len(w.buf), most)
	if w.sent > 0 {
		piece = min(piece, w.piece) // the path may carry more by now: zeros make no piece longer than those before it
	}
	w.piece = piece
	for {
		b := frame(out, s.addr)
		if b == nil {
			return false
		}
		n := min(piece, len(w.buf)-w.sent)
		d := wire.Datagram{ID: w.id, Offset: uint32(w.sent), Length: uint32(len(w.buf)), Service: w.service}
		d.Put(b[wire.OuterLen:], n)
		at, payload := wire.OuterLen+wire.DatagramLen, w.buf[w.sent:w.sent+n]
		if n < piece {
			clear(b[at+copy(b[at:], payload) : at+piece])
			at, payload = at+piece, nil
		}
		out.Commit(s.packets.seal(wire.KindDatagram, b, at, payload))
		if w.sent += n; w.sent == len(w.buf) {
			return true
		}
	}
}

// joining is a datagram of which some pieces have come.
type joining struct {
	assembly
	id      uint32
	service uint8
	until   clock.Time // given up then
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
	switch {
	case j == nil:
		m.stats.DatagramFrames++
		m.stats.DatagramsNoRoom++
		return
	case len(j.buf) != int(d.Length) || j.service != d.Service:
		m.stats.Malformed++ // a datagram has one length, and one service
		return
	}
	m.stats.DatagramFrames++
	if j.take(int(d.Offset), payload); j.units > 0 && m.cfg.Defect != mutate.DatagramUnfinished {
		return
	}
	m.forgetJoining(slices.Index(m.joinings, j))
	m.handOver(now, s, j.service, j.buf)
	m.pool.putBuffer(j.buf)
	m.spareJoinings = append(m.spareJoinings, j)
}

// handOver gives the owner a datagram.
func (m *Module) handOver(now clock.Time, s *session, service uint8, payload []byte) {
	m.stats.DatagramReceives++
	m.handler.Datagram(now, s.endpoint, service, payload)
}

// joiningOf finds what has come of a datagram, or begins with it. A peer that begins too many loses its oldest one. Where all peers
// together have too many, the one that has most of them loses its oldest, if that leaves it as many as this one has then; else there is no room.
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
	var j *joining
	if n := len(m.spareJoinings); n > 0 {
		j, m.spareJoinings = m.spareJoinings[n-1], m.spareJoinings[:n-1]
	} else {
		j = new(joining)
	}
	*j = joining{id: d.ID, service: d.Service, until: now.Add(limits.DatagramPatience)}
	j.begin(s, m.pool.buffer(int(d.Length))[:d.Length])
	m.joinings = append(m.joinings, j)
	s.joining++
	return j
}

// greediest finds the oldest datagram of the peer that has most of those which are put together.
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
	m.spareJoinings = append(m.spareJoinings, j)
}

func (m *Module) forgetJoining(i int) {
	m.joinings[i].session.joining--
	m.joinings = slices.Delete(m.joinings, i, i+1)
}

// expireDatagrams gives up what has waited too long for a piece.
func (m *Module) expireDatagrams(now clock.Time) {
	for len(m.joinings) > 0 && now >= m.joinings[0].until {
		m.giveUpJoining(0)
	}
}

// datagramsUntil is when the first of them is given up.
func (m *Module) datagramsUntil() clock.Time {
	if len(m.joinings) == 0 {
		return clock.Never
	}
	return m.joinings[0].until
}

// forgetDatagrams forgets what has come in a session: none of its datagrams is handed over when it is over.
func (m *Module) forgetDatagrams(s *session) {
	for i := len(m.joinings) - 1; i >= 0; i-- {
		if m.joinings[i].session == s {
			m.giveUpJoining(i)
		}
	}
}
