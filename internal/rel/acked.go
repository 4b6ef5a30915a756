package rel

import (
	"math/bits"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// news is what one acknowledgement, explicit or piggybacked, told the sender.
type news struct {
	echo     uint64        // packet counter that the peer echoed; 0 in a piggyback
	delay    time.Duration // for how long the peer held the echo back
	progress bool          // something was acknowledged
	newest   uint64        // highest packet counter that surely arrived
	newestAt clock.Time    // when that frame was posted
	rtt      time.Duration // sample, 0 if none
}

// receivePiggyback takes the acknowledgements of a data segment (USNIC-35). Without selective bits they cannot tell a
// segment that is missing from one that came beyond a gap, so they cause no retransmission; the ACK that the gap itself
// causes does.
func (m *Module) receivePiggyback(now clock.Time, s *session, h *wire.Inner) {
	if h.Flags == 0 || s.reliable {
		return
	}
	var n news
	for i := range wire.Space(wire.Spaces) {
		if h.Flags&(wire.AckCommand<<i) != 0 {
			m.cumulative(now, s, i, h.Ack[m.ackedSpace(i)], &n)
		}
	}
	if n.progress { // nearly every frame of a stream says what the one before said
		m.learn(now, s, &n)
	}
}

// receiveAck takes an explicit acknowledgement.
func (m *Module) receiveAck(now clock.Time, s *session, body []byte) {
	e, a := s.endpoint, &m.ackIn
	if a.Parse(body) != nil {
		e.stats.Malformed++
		return
	}
	e.stats.AckReceives++
	if s.reliable {
		return
	}
	n := news{echo: a.EchoCounter, delay: time.Duration(a.DelayNanos)}
	whole := n.echo != 0 // the ACK tells of every frame that came before the echoed one
	for i := range wire.Space(wire.Spaces) {
		from := m.ackedSpace(i)
		if a.Flags&(wire.AckCommand<<i) == 0 || !m.cumulative(now, s, i, a.Ack[from], &n) {
			whole = false
			continue
		}
		m.selective(now, s, i, a.Ack[from], a.Selective[from][:a.Words[from]], &n)
	}
	if !n.progress && (a.Reason == wire.AckGap || a.Reason == wire.AckDuplicate) {
		e.stats.DuplicateAcks++
	}
	if n.echo > n.newest && n.echo <= s.counter {
		n.newest = n.echo // it arrived, whatever it was; when it was posted is known only of segments
	}
	if !whole {
		n.newest = 0 // what it leaves out may have come all the same
	}
	if n.echo == s.answered {
		n.rtt = max(now.Sub(s.toldAt)-n.delay, 1)
	}
	m.learn(now, s, &n)
	if whole {
		m.detectLoss(s)
	}
}

// ackedSpace is the space whose acknowledgement counts for space i: i itself.
func (m *Module) ackedSpace(i wire.Space) wire.Space {
	if m.cfg.Defect == mutate.WrongSpaceAcked {
		return 1 - i
	}
	return i
}

// cumulative takes "every segment up to and with ack has arrived" (USNIC-43). It reports whether the acknowledgement is
// of the present window: an older one was reordered and is ignored (USNIC-51), one beyond what was sent is nonsense.
func (m *Module) cumulative(now clock.Time, s *session, i wire.Space, ack wire.Seq, n *news) bool {
	w := &s.send[i]
	count := ack.Sub(w.base) + 1
	if count < 0 || count > w.used() {
		if count < 0 {
			s.endpoint.stats.OldAcks++
		} else {
			s.endpoint.stats.BadAcks++
		}
		return false
	}
	if count == 0 {
		return true
	}
	for range count {
		if g := w.take(w.base); g != nil {
			m.segmentAcked(now, s, g, n)
		}
		w.base = w.base.Add(1)
	}
	w.settle()
	return true
}

// selective takes the bits for segments beyond the first one missing.
func (m *Module) selective(now clock.Time, s *session, i wire.Space, ack wire.Seq, words []uint64, n *news) {
	w := &s.send[i]
	for j, x := range words {
		for ; x != 0; x &= x - 1 {
			if g := w.take(ack.Add(2 + 64*j + bits.TrailingZeros64(x))); g != nil {
				m.segmentAcked(now, s, g, n)
			}
		}
	}
	w.settle()
}

// segmentAcked ends the life of a segment that arrived.
func (m *Module) segmentAcked(now clock.Time, s *session, g *segment, n *news) {
	n.progress = true
	// Of a segment that was sent again, only the echo tells which transmission arrived.
	if g.sends == 1 || g.counter == n.echo {
		if g.counter > n.newest {
			n.newest, n.newestAt = g.counter, g.sentAt
			if n.echo == 0 {
				n.rtt = now.Sub(g.sentAt)
			}
		}
		if g.counter == n.echo {
			n.rtt = max(now.Sub(g.sentAt)-n.delay, 1)
		}
	}
	s.endpoint.stats.SegmentsAcked++
	if g.cost > limits.LeastFrame+limits.FrameCost {
		s.path.lost = 0
	}
	if s.endpoint.congestion.acked(now, g.cost, g.counter, s.counter+1) {
		m.doubt(s, DoubtBatches)
	}
	m.unlist(s, g)
	if g.fragment != nil {
		m.pieceDone(s.endpoint, g)
	}
	m.pool.put(g)
}

// learn draws the conclusions of an acknowledgement, then tells the owner.
func (m *Module) learn(now clock.Time, s *session, n *news) {
	e := s.endpoint
	if n.rtt > 0 {
		s.rtt.add(n.rtt)
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
	if e.channels[wire.Command].queue.n+e.channels[wire.Data].queue.n > 0 {
		e.toSend()
	}
	m.tellFinished(now)
	e.writable(now)
}

// tellFinished releases the fragments whose last piece was acknowledged. Owners may post more meanwhile.
func (m *Module) tellFinished(now clock.Time) {
	for i := 0; i < len(m.finished); i++ {
		f := m.finished[i]
		m.finished[i] = nil
		m.handler.Released(now, f)
	}
	m.finished = m.finished[:0]
}
