package rel

import (
	"errors"
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// Receive takes one frame that arrived from the given address, and does not keep it. Nothing in
// it is believed before its index, address, packet counter and tag are found good, in that
// order, and nothing is allocated for a bad one. Receive never fails: a discarded frame is
// counted by cause.
func (m *Module) Receive(now clock.Time, from netip.AddrPort, frame []byte) {
	m.receive(now, from, frame)
	if m.deferred.placed > 0 {
		m.settle()
	}
}

// ReceiveRun takes frames of size bytes each, the last perhaps shorter, that arrived one after
// the other from the given address (link.Receiver).
func (m *Module) ReceiveRun(now clock.Time, from netip.AddrPort, frames []byte, size int) {
	for len(frames) > 0 {
		n := min(size, len(frames))
		m.receive(now, from, frames[:n])
		frames = frames[n:]
	}
	m.settle()
}

func (m *Module) receive(now clock.Time, from netip.AddrPort, frame []byte) {
	if m.deferred.placed == 0 {
		m.settle()
	}
	m.stats.Receives++
	if hit(m.cfg.Faults.DropReceived) {
		m.stats.FaultDrops++
		return
	}
	if s, o := m.admit(now, from, frame); s != nil {
		m.take(now, from, s, o, frame)
	}
}

// admit returns the session of a frame; nil if there is none, or if the frame cannot be the
// peer's or was received before. Usually it is the session of the last frame.
func (m *Module) admit(now clock.Time, from netip.AddrPort, frame []byte) (*session, wire.Outer) {
	if s := m.latest; s != nil {
		if o, ok := wire.ParseNext(frame, s.word()); ok && o.Counter > s.replay.top && from == s.addr {
			return s, o
		}
	}
	return m.admitAny(now, from, frame)
}

// admitAny is admit for any frame. A Hello belongs to no session, and is taken here.
func (m *Module) admitAny(now clock.Time, from netip.AddrPort, frame []byte) (*session, wire.Outer) {
	m.settle()
	o, _, err := wire.ParseOuter(frame)
	if err != nil {
		m.countUnparsed(err)
		return nil, o
	}
	if m.security != nil && o.Flags == wire.FlagSealed && o.Kind.OfHandshake() {
		m.receiveHandshake(now, from, o, frame)
		return nil, o
	}
	if o.Kind == wire.KindHello {
		m.receiveHello(now, from, o, frame)
		return nil, o
	}
	s := m.sessions.find(o.Index &^ wire.ResidentBit)
	if s == nil || !s.ready && (o.Kind != wire.KindHelloAck || m.security != nil) ||
		ofDriver(o) && !s.takesOfDriver(o) {
		m.stats.NoSession++
		if s == nil {
			m.callBack(now, from, len(frame))
		}
		return nil, o
	}
	switch {
	case from != s.addr && (s.sealed == nil || !s.open || s.apart(o)):
		m.stats.Foreign++
		m.notesElsewhere(now, from, s, o, frame)
	case !m.sessions.fresh(s, o):
		m.stats.Replays++
	case !s.takes(o):
		m.unsealed(now, from, o)
	default:
		if s.open && from == s.addr {
			m.latest = s
		}
		return s, o
	}
	return nil, o
}

// takes reports whether a frame has the flags of the frames of s.
func (s *session) takes(o wire.Outer) bool {
	flags := o.Flags
	if s.sealed != nil {
		flags &^= wire.FlagPhase | wire.FlagClear
	}
	if s.sealed != nil && o.Flags == wire.FlagTagged && s.endpoint.m.cfg.Defect == mutate.PlainTaken {
		return true
	}
	return flags == s.packets.expects || s.takesPlain(o)
}

// countUnparsed counts a frame with a bad outer header.
func (m *Module) countUnparsed(err error) {
	switch {
	case errors.Is(err, wire.ErrVersion):
		m.stats.VersionMismatches++
	case errors.Is(err, wire.ErrFormat):
		m.stats.Malformed++
	case errors.Is(err, wire.ErrShort):
		m.stats.Short++
	case errors.Is(err, wire.ErrMagic):
		m.stats.Magic++
	default:
		m.stats.Unknown++
	}
}

// take takes a frame that was admitted, if its tag is good.
func (m *Module) take(now clock.Time, from netip.AddrPort, s *session, o wire.Outer, frame []byte) {
	m.row.placed = false
	if s.sealed != nil && m.cfg.Defect == mutate.ReplayEarly {
		m.sessions.window(s, o).take(o.Counter)
	}
	r, body := m.expects(s, o.Kind), frame[wire.OuterLen:]
	if s.packets.tag > 0 { // else there is nothing to check, and no call
		body = m.open(now, &s.packets, o, frame, r)
	}
	if body == nil {
		m.stats.CRCErrors++
		return
	}
	if o.Kind != wire.KindDatagram || m.cfg.Defect != mutate.DatagramReplayed {
		m.sessions.window(s, o).take(o.Counter)
	}
	s.in.count(len(frame))
	s.endpoint.MarkChanged()
	if s.apart(o) {
		m.receiveApart(now, s, o, body)
		return
	}
	if o.Counter == s.replay.top {
		if from != s.addr { // admit takes such frames of sealed sessions only
			m.strays(now, s, from, len(frame))
		} else if m.cfg.Reached != nil {
			m.noteLocal(s)
		}
	}
	if m.row.placed {
		m.takePlaced(now, s, o, body, len(frame))
		return
	}
	m.settle()
	if o.Kind == wire.KindHelloAck {
		s.endpoint.heard = now
		m.receiveHelloAck(now, s, body)
		s.acks.note(now, o.Counter)
		return
	}
	if !s.open && !s.retired {
		m.confirm(now, s)
	}
	if !s.open && !(s.retired && o.Kind == wire.KindData) {
		m.stats.NoSession++
		return
	}
	if o.Kind == wire.KindData || o.Kind == wire.KindPlain {
		m.receiveSegment(now, s, o, body, len(frame))
		return
	}
	m.hear(now, s, o.Counter)
	m.receiveControl(now, from, s, o.Kind, body, len(frame))
}

// receiveControl takes a frame that is not a segment.
func (m *Module) receiveControl(now clock.Time, from netip.AddrPort, s *session, k wire.Kind, body []byte, length int) {
	switch k {
	case wire.KindAck:
		m.receiveAck(now, s, body)
	case wire.KindProbe:
		m.receiveProbe(s, body)
	case wire.KindProbeReply:
		m.receiveProbeReply(now, from, s, body)
	case wire.KindRekey:
		m.receiveRekey(now, s, body)
	case wire.KindPart:
		m.receivePart(now, s, body, length)
	case wire.KindDatagram:
		m.receiveDatagram(now, s, body)
	case wire.KindGoodbye:
		m.stats.GoodbyeReceives++
		m.ends(now, s.endpoint, ErrGoodbye)
		s.endpoint.mute = true
	}
}

// receiveSegment takes a segment: it notes the arrival, delivers a new segment, and takes the
// acknowledgements in it. A lone short message is delivered first.
func (m *Module) receiveSegment(now clock.Time, s *session, o wire.Outer, body []byte, length int) {
	h, records, err := m.parseSegment(s, o.Kind, body)
	if err != nil {
		m.hear(now, s, o.Counter)
		m.stats.Malformed++
		return
	}
	if s.alone(&h, records) {
		m.deferred = deferred{session: s, at: now, counter: o.Counter, kind: o.Kind, inner: h, frames: 1, bytes: length}
		m.deliver(now, s, records)
		return
	}
	w := &s.receive[h.Space]
	what := m.arrive(now, s, o.Kind, o.Counter, &h, 1, length)
	if h.Space == wire.Data && what == arrivedNew && h.Seq.Add(1) == w.top {
		s.expectAfter(&h, records)
	}
	if what == arrivedNew && !m.deliver(now, s, records) {
		return
	}
	if what != arrivedHigh {
		m.receivePiggyback(now, s, &h)
	}
}

// alone reports whether a segment holds one short message, and is the next one with nothing
// missing. Usually its receiver is waiting for it, so it is delivered before it is noted
// (settle.go).
func (s *session) alone(h *wire.Inner, records []byte) bool {
	w := &s.receive[wire.Command]
	return h.Space == wire.Command && h.Seq == w.next && !w.gap() && s.open && !s.reliable && wire.LoneFrag(records)
}

// parseSegment reads the body of a Data frame, or of a Plain. The segment of a Plain is the next
// one of the command space.
func (m *Module) parseSegment(s *session, k wire.Kind, body []byte) (h wire.Inner, records []byte, err error) {
	if k == wire.KindData {
		return wire.ParseInner(body)
	}
	if !s.bareFrames() {
		return h, nil, wire.ErrFormat
	}
	return wire.Inner{Space: wire.Command, Seq: s.receive[wire.Command].next}, body, wire.CheckRecords(body)
}

// deliver hands the records of a segment to the owner. It returns false if that ended the
// session.
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

// countNew counts segments that are delivered.
func (m *Module) countNew(space wire.Space, n int) {
	if space == wire.Command {
		m.stats.FragReceives += uint64(n)
	} else {
		m.stats.ChunkReceives += uint64(n)
	}
}

// countArrival counts segments of s by the window's verdict on the last of them.
func (m *Module) countArrival(s *session, space wire.Space, what arrival, n int) {
	switch what {
	case arrivedOld:
		m.stats.OutOfWindowLow++
		s.endpoint.stats.Duplicates++
	case arrivedDup:
		m.stats.Duplicates++
		s.endpoint.stats.Duplicates++
	case arrivedHigh:
		m.stats.OutOfWindowHigh++
	case arrivedNew:
		m.countNew(space, n)
		if s.receive[space].gap() {
			m.stats.Ahead += uint64(n)
		}
		m.stats.LargestReceiveWindow = max(m.stats.LargestReceiveWindow, int32(s.receive[space].depth()))
	}
}
