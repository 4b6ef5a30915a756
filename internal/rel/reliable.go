package rel

import (
	"fmt"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/wire"
)

// Over a Reliable link there is nothing to remember of a segment that was sent, and nothing to find out about one that
// comes: they come in order, each once. So both ends have a short way for what is most of the packets there, and a segment of
// the command space needs no header of its own (wire.KindPlain). What is not as it should be goes the long way, which says why.

// Reliable reports whether the session's link is.
func (e *Endpoint) Reliable() bool { return e.live != nil && e.live.reliable }

// bareFrames reports whether segments of the command space leave as Plains, when they leave by Direct. On a Checked link alone: a tag at
// the end of a frame would cost more than the header.
func (s *session) bareFrames() bool { return s.reliable && s.packets.tagLen() == 0 }

// directHead is what stands before the record in a frame of Direct.
func (s *session) directHead(space wire.Space) int {
	if s.bareFrames() && space == wire.Command {
		return wire.OuterLen
	}
	return wire.OuterLen + wire.InnerLen
}

// Direct returns room for one record of n bytes in the link's own frame, if the session's link is Reliable, it fits and nothing is
// queued before it; nil otherwise, and then Reserve may do. The caller writes the record, nothing else of the Module is
// called, and Direct's frame leaves with SendDirect. Nothing is pending on the peer then, so its silence does not count.
func (e *Endpoint) Direct(space wire.Space, n int, out Frames) []byte {
	s := e.live
	if s == nil || !s.reliable || e.channels[wire.Command].queue.n+e.channels[wire.Data].queue.n > 0 || s.send[space].room() <= 0 {
		return nil
	}
	if n > e.MaxRecord(space) {
		return nil
	}
	b := frame(out, s.addr)
	if b == nil {
		return nil
	}
	e.m.direct = b
	head := s.directHead(space)
	return b[head : head+n : head+n]
}

// SendDirect lets the frame of Direct leave, with its record of n bytes.
func (e *Endpoint) SendDirect(now clock.Time, space wire.Space, n int, out Flusher) {
	m, s := e.m, e.live
	e.countDirect(n)
	kind, seq, n := wire.KindPlain, s.send[space].pass(1), s.directHead(space)+n
	if s.directHead(space) == dataHead {
		h := wire.Inner{Space: space, Seq: seq}
		h.Put(m.direct[wire.OuterLen:])
		kind = wire.KindData
	}
	out.Commit(s.packets.seal(kind, m.direct, n, nil))
	out.Flush(now)
}

// countDirect counts a segment of one record of n bytes, of which nothing is kept.
func (e *Endpoint) countDirect(n int) {
	st := &e.stats
	st.TotalSends++
	st.FragSends++
	st.SentBytes += uint64(n)
	st.SegmentsAcked++
}

// Gaps says in which session a segment is missing though its link loses none: then the two ends do not count alike.
func (m *Module) Gaps() error {
	for _, e := range m.endpoints {
		s := e.live
		if s == nil || !s.reliable {
			continue
		}
		for i := range s.receive {
			if w := &s.receive[i]; w.gap() {
				return fmt.Errorf("rel: NIC %d: %v segment %d has not come, and %d has, over a link that keeps order", e.nic, wire.Space(i), w.next, w.top.Add(-1))
			}
		}
	}
	return nil
}
