package rel

import (
	"github.com/weftnet/weft/internal/clock"
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
// has come yet, since all segments before have come and none behind. They are written again when the segment comes.

// Placer is a Handler that says where a piece belongs.
type Placer interface {
	// Place returns the memory of n bytes of a fragment from offset on, or nil if their chunk shall be delivered. It changes nothing.
	Place(e *Endpoint, id wire.FragmentID, offset uint64, n int) []byte

	// Placed says, right after Place, that those bytes have come, and are there. It stands for the Deliver of their chunk.
	Placed(now clock.Time, e *Endpoint, id wire.FragmentID, n int)
}

// expected is the piece that should come next: none if id is 0.
type expected struct {
	id     wire.FragmentID
	offset uint64
}

// expectAfter notes what follows a segment of the data space. Only if it was in order is it sure that nothing of that has come.
func (s *session) expectAfter(inOrder bool, records []byte) {
	s.expected.id = 0
	if !inOrder || len(records) == 0 {
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
	if n == 0 || h.Space != wire.Data || h.Seq != w.next || id != s.expected.id || offset != s.expected.offset {
		return false
	}
	e := s.endpoint
	to := m.placer.Place(e, id, offset, n)
	if to == nil {
		return false
	}
	if !wire.OpenInto(to, frame, s.cookie) && m.cfg.Defect != mutate.PlacedUnseen {
		e.stats.CRCErrors++
		return true
	}
	m.accept(now, s, o.Counter)
	w.add(h.Seq)
	s.countArrival(wire.Data, arrivedNew)
	s.arrived(now, wire.Data, arrivedNew, false, len(frame))
	s.expected.offset += uint64(n)
	m.placer.Placed(now, e, id, n)
	if e.live == s {
		m.receivePiggyback(now, s, &h)
	}
	return true
}
