package rel

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/wire"
)

// Over a Reliable link there is nothing to remember of a segment that was sent, and nothing to find out about one that
// comes: they come in order, each once. So both ends have a short way for what is most of the traffic there. What is not
// as it should be goes the long way, which says why.

// Reliable reports whether the session's link is.
func (e *Endpoint) Reliable() bool { return e.live != nil && e.live.reliable }

// Direct returns room for one record of n bytes in the link's own frame, if the session's link is Reliable and nothing is
// queued before it; nil otherwise, and then Reserve may do. The caller writes the record, nothing else of the Module is
// called, and Direct's frame leaves with SendDirect. Nothing is pending on the peer then, so its silence does not count.
func (e *Endpoint) Direct(space wire.Space, n int, out Frames) []byte {
	s := e.live
	if s == nil || !s.reliable || e.channels[wire.Command].queue.n+e.channels[wire.Data].queue.n > 0 || s.send[space].room() <= 0 {
		return nil
	}
	b := out.Reserve(s.addr)
	if b == nil {
		return nil
	}
	e.m.direct = b
	n += wire.OuterLen + wire.InnerLen
	return b[wire.OuterLen+wire.InnerLen : n : n]
}

// SendDirect commits the frame of Direct, with its record of n bytes.
func (e *Endpoint) SendDirect(space wire.Space, n int, out Frames) {
	m, s := e.m, e.live
	h := wire.Inner{Space: space, Seq: s.send[space].pass()}
	h.Put(m.direct[wire.OuterLen:])
	m.commitFrame(s, m.direct, wire.KindData, wire.OuterLen+wire.InnerLen+n, out)
	m.direct = nil
	st := &e.stats
	st.TotalSends++
	st.FragSends++
	st.SentBytes += uint64(n)
	st.SegmentsAcked++
}

// receiveReliable takes a data frame of a session whose link is Reliable, if it is the next of its space, as it will be.
func (m *Module) receiveReliable(now clock.Time, s *session, o wire.Outer, body []byte) bool {
	h, records, err := wire.ParseInner(body)
	if err != nil {
		return false
	}
	w := &s.receive[h.Space]
	if h.Seq != w.next || w.gap() {
		return false
	}
	w.next = w.next.Add(1)
	w.top = w.next
	s.countArrival(h.Space, arrivedNew)
	m.accept(now, s, o.Counter)
	m.deliver(now, s, records)
	return true
}
