package rel

import (
	"math/bits"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// news is the information that one acknowledgement, explicit or piggybacked, gave the sender.
type news struct {
	echo     uint64        // packet counter that the peer echoed; 0 in a piggyback
	delay    time.Duration // how long the peer held the echo back
	progress bool          // something was acknowledged
	newest   uint64        // highest packet counter that certainly arrived
	newestAt clock.Time    // when that frame was posted
	rtt      time.Duration // sample, 0 if none
}

// receivePiggyback takes the acknowledgements of a data segment (USNIC-35). Without selective
// bits they cannot distinguish a missing segment from one that arrived beyond a gap, so they
// cause no retransmission. The ACK that the gap itself causes does.
func (m *Module) receivePiggyback(now clock.Time, s *session, h *wire.Inner) {
	if h.Flags == 0 || s.reliable || h.Flags == wire.AckCommand|wire.AckData && s.knows(h) {
		return
	}
	var n news
	for i := range wire.Space(wire.Spaces) {
		if h.Flags&(wire.AckCommand<<i) != 0 {
			m.cumulative(now, s, i, h.Ack[m.ackedSpace(i)], &n)
		}
	}
	if n.progress {
		m.learn(now, s, &n)
		m.judge(now, s)
	}
}

// knows reports whether a segment's acknowledgements are known already: nearly every frame of a
// stream repeats those of the frame before.
func (s *session) knows(h *wire.Inner) bool {
	return h.Ack[wire.Command].Add(1) == s.send[wire.Command].base && h.Ack[wire.Data].Add(1) == s.send[wire.Data].base
}

// receiveAck takes an explicit acknowledgement.
func (m *Module) receiveAck(now clock.Time, s *session, body []byte) {
	a := &m.ackIn
	if a.Parse(body) != nil {
		m.stats.Malformed++
		return
	}
	m.stats.AckReceives++
	if s.reliable {
		return
	}
	n := news{echo: a.EchoCounter, delay: time.Duration(a.DelayNanos)}
	whole := n.echo != 0 // the ACK covers every frame that arrived before the echoed one
	for i := range wire.Space(wire.Spaces) {
		from := m.ackedSpace(i)
		if a.Flags&(wire.AckCommand<<i) == 0 || !m.cumulative(now, s, i, a.Ack[from], &n) {
			whole = false
			continue
		}
		m.selective(now, s, i, a.Ack[from], a.Selective[from][:a.Words[from]], &n)
	}
	if !n.progress && (a.Reason == wire.AckGap || a.Reason == wire.AckDuplicate) {
		m.stats.DuplicateAcks++
	}
	if n.echo > n.newest && n.echo <= s.packets.counter {
		// It arrived, whatever it was. Its posting time is known only if it was a segment.
		n.newest = n.echo
	}
	if !whole {
		n.newest = 0 // the frames that it leaves out may have arrived all the same
	}
	if rtt := s.markTold(now, n.echo, n.delay); rtt > 0 {
		n.rtt = rtt
	}
	m.learn(now, s, &n)
	if whole {
		m.detectLoss(now, s)
	}
	m.judge(now, s)
}

// judge adapts the congestion window to an acknowledgement and the losses that it showed, and
// warns the driver after a bad start.
func (m *Module) judge(now clock.Time, s *session) {
	if s.endpoint.congestion.judge(now, s.packets.counter+1) && m.cfg.DoubtBatches != nil && !s.doubted {
		s.doubted = true
		m.cfg.DoubtBatches(s.addr)
	}
}

// ackedSpace returns the space whose acknowledgement counts for space i: i itself.
func (m *Module) ackedSpace(i wire.Space) wire.Space {
	if m.cfg.Defect == mutate.WrongSpaceAcked {
		return 1 - i
	}
	return i
}

// cumulative takes "every segment up to and including ack has arrived" (USNIC-43). It reports
// whether the acknowledgement is of the present window. An older one was reordered and is
// ignored (USNIC-51); one beyond the last segment sent is nonsense.
func (m *Module) cumulative(now clock.Time, s *session, i wire.Space, ack wire.Seq, n *news) bool {
	w := &s.send[i]
	count := ack.Sub(w.base) + 1
	if count < 0 || count > w.used() {
		if count < 0 {
			m.stats.OldAcks++
		}
		return false
	}
	if count == 0 {
		return true
	}
	m.acked(now, s, w, w.base, count, n)
	w.settle()
	return true
}

// selective takes the bits for segments beyond the first missing one.
func (m *Module) selective(now clock.Time, s *session, i wire.Space, ack wire.Seq, words []uint64, n *news) {
	w := &s.send[i]
	for j, x := range words {
		for x != 0 {
			at := bits.TrailingZeros64(x)
			row := bits.TrailingZeros64(^(x >> at))
			m.acked(now, s, w, ack.Add(2+64*j+at), row, n)
			x &^= (1<<row - 1) << at
		}
	}
	w.settle()
}

// acked ends the lives of count segments from number q on, except for those that have ended
// already.
func (m *Module) acked(now clock.Time, s *session, w *sendWindow, q wire.Seq, count int, n *news) {
	for count > 0 {
		took := 1
		if g := w.find(q); g != nil {
			if before := q.Sub(g.seq); before > 0 {
				m.part(s, g, before)
			}
			took = min(count, g.frames)
			w.forget(q, took)
			m.segmentAcked(now, s, g, took, n)
		}
		q, count = q.Add(took), count-took
	}
}

// segmentAcked ends the life of a segment that arrived, or of the first packets of a run: frames
// of them.
func (m *Module) segmentAcked(now clock.Time, s *session, g *segment, frames int, n *news) {
	n.progress = true
	last := g.counter + uint64(frames-1)
	echoed := g.counter <= n.echo && n.echo <= last
	// If a segment was retransmitted, only the echo tells which transmission arrived.
	if g.sends == 1 || echoed {
		if last > n.newest {
			n.newest, n.newestAt = last, g.sentAt
			if n.echo == 0 {
				n.rtt = now.Sub(g.sentAt)
			}
		}
		if echoed {
			n.rtt = max(now.Sub(g.sentAt)-n.delay, 1)
		}
	}
	m.stats.SegmentsAcked += uint64(frames)
	if g.cost >= s.path.suspect {
		s.path.trust()
	}
	s.endpoint.congestion.acked(g.cost*frames, last)
	if frames < g.frames {
		f, offset := g.fragment, g.offset
		m.shorten(s, g, frames)
		m.piecesDone(s.endpoint, f, offset, g.length, frames)
		return
	}
	s.refused(g)
	m.unlist(s, g)
	m.piecesDone(s.endpoint, g.fragment, g.offset, g.length, frames)
	m.pool.put(g)
}

// learn draws the conclusions from an acknowledgement, then tells the owner.
func (m *Module) learn(now clock.Time, s *session, n *news) {
	e := s.endpoint
	if n.rtt > 0 {
		s.measured(n.rtt)
		e.congestion.sample(now, n.rtt)
	}
	if n.echo != 0 && n.newest > s.recovery.newest {
		s.recovery.newest = n.newest
		s.recovery.newestAt = max(s.recovery.newestAt, n.newestAt)
	}
	if !n.progress {
		return
	}
	s.recovery.progress(now, s)
	if !e.clear() {
		e.toSend()
	}
	m.tellFinished(now)
	e.writable(now)
}

// tellFinished releases the fragments whose last piece was acknowledged. Their owners may post
// more meanwhile.
func (m *Module) tellFinished(now clock.Time) {
	for i := 0; i < len(m.finished); i++ {
		f := m.finished[i]
		m.finished[i] = nil
		m.handler.Released(now, f)
	}
	m.finished = m.finished[:0]
}
