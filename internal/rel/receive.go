package rel

import (
	"errors"
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// Receive takes one frame that came from the given address; it is not kept. Nothing of it is believed before its index,
// address, tag and packet counter are found good, in that order, and nothing is allocated for one that is not. It never
// fails: a frame of no use is counted by cause.
func (m *Module) Receive(now clock.Time, from netip.AddrPort, frame []byte) {
	m.received++
	if hit(m.cfg.Faults.DropReceived) {
		m.stray.FaultDrops++
		return
	}
	m.settleFast()
	if index, counter, ok := wire.ParsePlain(frame); ok && m.receivePlain(now, from, index, counter, frame[wire.OuterLen:]) {
		return
	}
	if m.fastOK && m.receiveFrag(now, from, frame) {
		return
	}
	o, _, err := wire.ParseOuter(frame)
	if err != nil {
		m.countUnparsed(err)
		return
	}
	if o.Kind == wire.KindHello {
		m.receiveHello(now, from, o, frame)
		return
	}
	s := m.sessions.find(o.Index)
	if s == nil || !s.bound && o.Kind != wire.KindHelloAck {
		m.stray.NoSession++
		m.callBack(now, from)
		return
	}
	if !m.foreign(s, from, o) && !m.receiveExpected(now, s, o, frame) {
		m.receiveSealed(now, s, o, frame)
	}
}

// countUnparsed counts a frame whose outer header is no good.
func (m *Module) countUnparsed(err error) {
	switch {
	case errors.Is(err, wire.ErrVersion):
		m.stray.VersionMismatches++
	case errors.Is(err, wire.ErrFormat):
		m.stray.Malformed++
	case errors.Is(err, wire.ErrShort):
		m.stray.Short++
	case errors.Is(err, wire.ErrMagic):
		m.stray.Magic++
	default:
		m.stray.Unknown++
	}
}

// foreign reports whether a frame with the index of s cannot be the peer's, or has been seen before.
func (m *Module) foreign(s *session, from netip.AddrPort, o wire.Outer) bool {
	st := &s.endpoint.stats
	st.Receives++
	switch {
	case from != s.addr:
		st.Foreign++
	case !s.replay.fresh(o.Counter):
		st.Replays++
	default:
		return false
	}
	return true
}

// receiveSealed takes a frame of s if its tag is good.
func (m *Module) receiveSealed(now clock.Time, s *session, o wire.Outer, frame []byte) {
	body, ok := m.unseal(frame, o, s.cookie)
	if !ok {
		s.endpoint.stats.CRCErrors++
		return
	}
	m.receiveFrame(now, s, o, body, len(frame))
}

// unseal checks the tag, where frames have one, and returns what lies between it and the outer header.
func (m *Module) unseal(frame []byte, o wire.Outer, cookie uint64) (body []byte, ok bool) {
	if o.Flags&wire.FlagTagged == 0 {
		return frame[wire.OuterLen:], !m.cfg.Tagged
	}
	n, err := wire.Open(frame, cookie)
	if err != nil {
		if m.cfg.Defect != mutate.TagIgnored || len(frame) < wire.OuterLen+wire.TagLen {
			return nil, false
		}
		n = len(frame) - wire.TagLen
	}
	return frame[wire.OuterLen:n], true
}

// receiveFrame handles an authentic frame.
func (m *Module) receiveFrame(now clock.Time, s *session, o wire.Outer, body []byte, length int) {
	if s.retired {
		m.receiveRetired(now, s, o, body)
		return
	}
	if o.Kind == wire.KindHelloAck {
		s.replay.take(o.Counter)
		s.endpoint.heard = now
		m.receiveHelloAck(now, s, body)
		s.acks.note(now, o.Counter)
		return
	}
	if !s.open {
		m.opens(now, s) // the peer knows what only our answer told it
		if !s.open {
			s.endpoint.stats.NoSession++
			return
		}
	}
	if o.Kind == wire.KindData {
		m.receiveSegment(now, s, o, body, length)
		return
	}
	m.accept(now, s, o.Counter)
	switch o.Kind {
	case wire.KindPlain:
		if !s.reliable || m.cfg.Tagged || wire.CheckRecords(body) != nil {
			s.endpoint.stats.Malformed++
			return
		}
		m.takePlain(now, s, body)
	case wire.KindAck:
		m.receiveAck(now, s, body)
	case wire.KindProbe:
		m.receiveProbe(s, body)
	case wire.KindProbeReply:
		m.receiveProbeReply(now, s, body)
	case wire.KindPart:
		m.receivePart(now, s, body, length)
	case wire.KindGoodbye:
		s.endpoint.stats.GoodbyeReceives++
		m.ends(now, s.endpoint, ErrGoodbye)
		s.endpoint.mute = true
	}
}

// accept notes that a frame of the peer's came.
func (m *Module) accept(now clock.Time, s *session, counter uint64) {
	s.replay.take(counter)
	s.acks.note(now, counter)
	s.confirmed = true
	s.endpoint.heard = now
}

// receiveSegment handles a segment by the shortest way that it may go.
func (m *Module) receiveSegment(now clock.Time, s *session, o wire.Outer, body []byte, length int) {
	h, records, err := wire.ParseInner(body)
	switch {
	case err != nil:
		m.accept(now, s, o.Counter)
		s.endpoint.stats.Malformed++
	case s.reliable && m.receiveReliable(now, s, o, &h, records):
	case !s.reliable && m.fastOK && m.receiveFast(now, s, o, &h, records, length):
	default:
		m.accept(now, s, o.Counter)
		m.receiveData(now, s, &h, records, length)
	}
}

// receiveData handles a segment: deliver what is new, schedule its acknowledgement, take those that it brought.
func (m *Module) receiveData(now clock.Time, s *session, h *wire.Inner, records []byte, length int) {
	w := &s.receive[h.Space]
	hadGap := w.gap()
	what := w.add(h.Seq)
	s.countArrival(h.Space, what)
	if h.Space == wire.Data && what == arrivedNew && h.Seq.Add(1) == w.top {
		s.expectAfter(records)
	}
	if what == arrivedHigh {
		return
	}
	s.arrived(now, h.Space, what, hadGap, 1, length)
	if what == arrivedNew && !m.deliver(now, s, records) {
		return
	}
	m.receivePiggyback(now, s, h)
}

// deliver hands the records of a segment to the owner. It returns false if that ended the session.
func (m *Module) deliver(now clock.Time, s *session, records []byte) bool {
	for len(records) > 0 {
		var r wire.Record
		r, records = wire.NextRecord(records)
		if r.Type() == wire.TypeVoid {
			continue
		}
		m.handler.Deliver(now, s.endpoint, r)
		if s.endpoint.live != s {
			return false
		}
	}
	return true
}

// countArrival counts a segment by what the window said of it.
func (s *session) countArrival(space wire.Space, what arrival) {
	st := &s.endpoint.stats
	switch what {
	case arrivedOld:
		st.OutOfWindowLow++
	case arrivedDup:
		st.Duplicates++
	case arrivedHigh:
		st.OutOfWindowHigh++
	case arrivedNew:
		if space == wire.Command {
			st.FragReceives++
		} else {
			st.ChunkReceives++
		}
		if s.receive[space].gap() {
			st.Ahead++
		}
		st.LargestReceiveWindow = max(st.LargestReceiveWindow, s.receive[space].depth())
	}
}

// receiveRetired is mutate.OldIncarnation: a late frame of a session that is over is delivered as if it were not.
func (m *Module) receiveRetired(now clock.Time, s *session, o wire.Outer, body []byte) {
	s.replay.take(o.Counter)
	s.endpoint.stats.NoSession++
	h, records, err := wire.ParseInner(body)
	if o.Kind != wire.KindData || err != nil || s.receive[h.Space].add(h.Seq) != arrivedNew {
		return
	}
	for len(records) > 0 {
		var r wire.Record
		r, records = wire.NextRecord(records)
		if r.Type() != wire.TypeVoid {
			m.handler.Deliver(now, s.endpoint, r)
		}
	}
}
