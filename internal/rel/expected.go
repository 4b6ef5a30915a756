package rel

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
)

// The pieces of a long message come one after the other, so each one predicts the next: its
// number, fragment and offset. If a frame matches, its payload is put where it belongs while its
// checksum is computed, in one pass over it:
//
//	│ outer │ inner: next number │ chunk: same fragment, next offset │ payload │ tag
//	          └───────────── as expected ────────────────────┘          │        └ good? it counts
//	                                                      memory ◄──────┘          else it is lost
//
// If the tag is bad the bytes written are garbage, which is safe: they lie in segments beyond
// the newest that has arrived, and are overwritten when those arrive. Holes among the segments
// before make no difference, and on a path that loses one frame in a hundred there nearly always
// is one. The pieces that arrive in one call are noted together (settle.go).

// Placer is a Handler that says where a piece belongs.
type Placer interface {
	// Place returns memory for n bytes of a fragment from offset on, and for as many bytes after
	// them as it can. It returns nil if their chunk shall be delivered. It changes nothing.
	Place(e *Endpoint, id wire.FragmentID, offset uint64, n int) []byte

	// Placed reports that n bytes have arrived and are in place, with no other call since Place.
	// It stands for the Deliver of their chunks.
	Placed(now clock.Time, e *Endpoint, id wire.FragmentID, n int)
}

// expectAfter notes what follows the newest segment of the data space. A segment that fills a
// hole changes nothing.
func (s *session) expectAfter(h *wire.Inner, records []byte) {
	s.expected = wire.NextChunk{}
	if len(records) == 0 || s.endpoint.m.placer == nil {
		return
	}
	if r, rest := wire.NextRecord(records); r.Type() == wire.TypeChunk && r.Flags() == 0 && len(rest) == 0 {
		id, offset := r.Chunk()
		s.expected = h.After(id, offset+uint64(len(r.Payload())))
	}
}

// row is the destination of pieces that arrive one after the other.
type row struct {
	session *session
	to      []byte // memory that Place has named for the coming ones
	left    int    // how many more may come before those that arrived are noted
	placed  bool   // the payload of the frame that was opened last is in its place
}

// expects returns the row to which a frame of s may belong; nil if nothing is known.
func (m *Module) expects(s *session, k wire.Kind) *row {
	if s.expected.ID() == 0 || k != wire.KindData || !s.open {
		return nil
	}
	if r := &m.row; r.session != s || m.deferred.placed == 0 {
		m.settle()
		r.session, r.to, r.left = s, nil, 0
	}
	return &m.row
}

// place returns the memory to which the payload of a body belongs; nil if the body is not the
// expected one.
func (r *row) place(body []byte) []byte {
	if r == nil {
		return nil
	}
	s := r.session
	n := s.expected.Begins(body)
	if n == 0 {
		return nil
	}
	if len(r.to) < n || r.left == 0 {
		m := s.endpoint.m
		m.settle()
		if r.left = limits.Window - s.receive[wire.Data].depth(); !s.open || r.left <= 0 {
			return nil
		}
		r.to = m.placer.Place(s.endpoint, s.expected.ID(), s.expected.Offset(), n)
	}
	if len(r.to) < n {
		return nil
	}
	return r.to[:n]
}

// takePlaced takes a frame that was as expected, and whose payload is in its place.
func (m *Module) takePlaced(now clock.Time, s *session, o wire.Outer, body []byte, length int) {
	n := len(body) - wire.InnerLen - wire.ChunkLen
	d := &m.deferred
	if d.placed == 0 {
		d.session, d.kind, d.counter, d.frames, d.bytes = s, o.Kind, 0, 0, 0
		d.inner = wire.Inner{Space: wire.Data, Seq: s.receive[wire.Data].top}
	}
	d.at, d.counter = now, max(d.counter, o.Counter)
	d.frames++
	d.bytes += length
	d.placed += n
	m.row.to = m.row.to[n:]
	m.row.left--
	s.expected.Next(n)
	if h, _ := wire.ParseHead(body); h.Flags != 0 && !s.knows(&h) {
		m.settle()
		if s.open {
			m.receivePiggyback(now, s, &h)
		}
	}
}
