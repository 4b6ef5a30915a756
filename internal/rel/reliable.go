package rel

import (
	"fmt"
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// Over a Reliable link there is nothing to remember of a segment that was sent, and nothing to find out about one that
// comes: they come in order, each once. So both ends have a short way for what is most of the traffic there, and a segment of
// the command space needs no header of its own (wire.KindPlain). What is not as it should be goes the long way, which says why.

// Reliable reports whether the session's link is.
func (e *Endpoint) Reliable() bool { return e.live != nil && e.live.reliable }

// plainly reports whether segments of space leave as Plains, when they leave by Direct. On a Checked link alone: a tag at the end of
// a frame would cost more than the header.
func (m *Module) plainly(space wire.Space) bool { return space == wire.Command && !m.cfg.Tagged }

// directHead is what stands before the record in a frame of Direct.
func (m *Module) directHead(space wire.Space) int {
	if m.plainly(space) {
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
	b := out.Reserve(s.addr)
	if b == nil {
		return nil
	}
	e.m.direct = b
	head := e.m.directHead(space)
	return b[head : head+n : head+n]
}

// SendDirect lets the frame of Direct leave, with its record of n bytes.
func (e *Endpoint) SendDirect(now clock.Time, space wire.Space, n int, out Flusher) {
	m, s := e.m, e.live
	e.countDirect(n)
	seq, length := s.send[space].pass(1), m.directHead(space)+n
	if m.plainly(space) {
		s.counter++
		wire.PutPlain(m.direct, s.peer.Index, s.counter)
		out.Commit(length)
	} else {
		h := wire.Inner{Space: space, Seq: seq}
		h.Put(m.direct[wire.OuterLen:])
		m.commitFrame(s, m.direct, wire.KindData, length, out)
	}
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

// receivePlain takes a Plain of an open session, if nothing is wrong with it.
func (m *Module) receivePlain(now clock.Time, from netip.AddrPort, index uint32, counter uint64, records []byte) bool {
	s := m.sessions.find(index)
	if s == nil || !s.open || !s.reliable || m.cfg.Tagged || counter <= s.replay.top || from != s.addr {
		return false
	}
	lone := wire.LoneFrag(records) // as it mostly is
	if !lone && wire.CheckRecords(records) != nil {
		return false
	}
	s.endpoint.stats.Receives++
	s.replay.takeNext(counter)
	if lone {
		m.countPlain(now, s)
		m.handler.Deliver(now, s.endpoint, wire.Record(records))
	} else {
		m.takePlain(now, s, records)
	}
	return true
}

// takePlain delivers the records of the segment that is the next of its space.
func (m *Module) takePlain(now clock.Time, s *session, records []byte) {
	m.countPlain(now, s)
	m.deliver(now, s, records)
}

// countPlain notes that the segment has come.
func (m *Module) countPlain(now clock.Time, s *session) {
	if w := &s.receive[wire.Command]; m.cfg.Defect != mutate.PlainUncounted {
		w.add(w.next)
	}
	st := &s.endpoint.stats
	st.FragReceives++
	s.confirmed = true
	s.endpoint.heard = now
}

// receiveReliable takes a data frame of a session whose link is Reliable, if it is the next of its space, as it will be.
func (m *Module) receiveReliable(now clock.Time, s *session, o wire.Outer, h *wire.Inner, records []byte) bool {
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
