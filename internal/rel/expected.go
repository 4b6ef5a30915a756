package rel

import (
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// The pieces of a long message come one after the other, so that after one it is known what the next will say: number, fragment and
// offset. If a frame says just that, its payload is put where it belongs while its checksum is made, in one pass over it:
//
//	frame   │ outer │ inner: next number │ chunk: same fragment, next offset │ payload │ tag
//	                  └───────────── as expected ────────────────────┘          │        └ good? it counts
//	                                                              memory ◄──────┘          else it never came
//
// If the frame turns out to be damaged then, or forged, what was written is of no meaning, as what lay there was: nothing of those bytes
// has come yet, since they are in segments behind the newest that has. They are written again when the segment comes. Holes among
// those before make no difference, and on a path that loses one frame in a hundred there nearly always is one.

// Placer is a Handler that says where a piece belongs.
type Placer interface {
	// Place returns the memory of n bytes of a fragment from offset on, and of as many behind them as it can, or nil if their chunk
	// shall be delivered. It changes nothing.
	Place(e *Endpoint, id wire.FragmentID, offset uint64, n int) []byte

	// Placed says, right after Place, that n bytes have come, and are there. It stands for the Deliver of their chunks.
	Placed(now clock.Time, e *Endpoint, id wire.FragmentID, n int)
}

// expected is the piece that should come next: none if id is 0.
type expected struct {
	id     wire.FragmentID
	offset uint64
}

// expectAfter notes what follows the newest segment of the data space. One that fills a hole changes nothing.
func (s *session) expectAfter(records []byte) {
	s.expected.id = 0
	if len(records) == 0 {
		return
	}
	if r, rest := wire.NextRecord(records); r.Type() == wire.TypeChunk && r.Flags() == 0 && len(rest) == 0 {
		s.expected.id, s.expected.offset = r.Chunk()
		s.expected.offset += uint64(len(r.Payload()))
	}
}

// receiveExpected takes a frame of s if it says what is expected; false leaves it to be looked at as any other. Where it comes from and its
// packet counter are good.
func (m *Module) receiveExpected(now clock.Time, s *session, o wire.Outer, frame []byte) bool {
	if s.expected.id == 0 || o.Kind != wire.KindData || !s.open || m.placer == nil || m.cfg.Defect == mutate.TagIgnored {
		return false
	}
	w := &s.receive[wire.Data]
	h, id, offset, n := wire.LoneChunk(frame)
	if n == 0 || h.Space != wire.Data || h.Seq != w.top || w.depth() >= limits.Window || id != s.expected.id || offset != s.expected.offset {
		return false
	}
	e := s.endpoint
	to := m.placer.Place(e, id, offset, n)
	if to == nil {
		return false
	}
	if !wire.OpenInto(to[:n], frame, s.cookie) && m.cfg.Defect != mutate.PlacedUnseen {
		e.stats.CRCErrors++
		return true
	}
	m.accept(now, s, o.Counter)
	m.placed(now, s, 1, n, len(frame))
	if e.live == s {
		m.receivePiggyback(now, s, &h)
	}
	return true
}

// placed notes that so many segments of the data space have come as expected, with pieces of n bytes in frames of size bytes.
func (m *Module) placed(now clock.Time, s *session, frames, n, size int) {
	w, st := &s.receive[wire.Data], &s.endpoint.stats
	w.extend(frames)
	st.ChunkReceives += uint64(frames)
	if w.gap() {
		st.Ahead += uint64(frames)
		st.LargestReceiveWindow = max(st.LargestReceiveWindow, w.depth())
	}
	s.arrived(now, wire.Data, arrivedNew, false, frames, size)
	s.expected.offset += uint64(frames * n)
	m.placer.Placed(now, s.endpoint, s.expected.id, frames*n)
}

// ReceiveRun takes frames of size bytes each, the last perhaps fewer, that came one behind the other from the given address
// (link.RunReceiver).
func (m *Module) ReceiveRun(now clock.Time, from netip.AddrPort, frames []byte, size int) {
	for len(frames) > 0 {
		n := m.receiveRow(now, from, frames, size)
		if n == 0 {
			m.Receive(now, from, frames[:min(size, len(frames))])
			n = 1
		}
		frames = frames[min(n*size, len(frames)):]
	}
}

// receiveRow takes the first frames of a run if they say what is expected, and nothing that is to be noted of each by itself, and
// returns how many they are. The rest goes the long way, or the next one does.
func (m *Module) receiveRow(now clock.Time, from netip.AddrPort, frames []byte, size int) (n int) {
	if len(frames) < size || m.cfg.Faults.DropReceived != nil || m.cfg.Defect != mutate.None && m.cfg.Defect != mutate.PlacedUnseen {
		return 0
	}
	m.settleFast()
	o, _, err := wire.ParseOuter(frames[:size])
	if err != nil || o.Kind != wire.KindData {
		return 0
	}
	s := m.sessions.find(o.Index)
	if s == nil || !s.open || s.expected.id == 0 || s.addr != from || o.Counter <= s.replay.top || m.placer == nil {
		return 0
	}
	w := &s.receive[wire.Data]
	h, id, offset, length := wire.LoneChunk(frames[:size])
	if length == 0 || h.Space != wire.Data || h.Seq != w.top || id != s.expected.id || offset != s.expected.offset || !s.knows(&h) {
		return 0
	}
	to := m.placer.Place(s.endpoint, id, offset, length)
	first, most := frames, limits.Window-w.depth()
	for n < most && len(to) >= length && len(frames) >= size && (n == 0 || wire.Follows(frames, first, n, length)) {
		if !wire.OpenInto(to[:length], frames[:size], s.cookie) && m.cfg.Defect != mutate.PlacedUnseen {
			break
		}
		s.replay.take(o.Counter + uint64(n))
		to, frames = to[length:], frames[size:]
		n++
	}
	if n > 0 {
		m.received += uint64(n)
		s.endpoint.stats.Receives += uint64(n)
		s.acks.note(now, o.Counter+uint64(n-1))
		s.confirmed = true
		s.endpoint.heard = now
		m.placed(now, s, n, length, size)
	}
	return n
}
