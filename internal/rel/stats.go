package rel

import (
	"fmt"
	"reflect"
)

// Stats counts what happened, of one endpoint or of a whole module: the usNIC list, and Weft's own causes. Every frame
// that came is counted once in Receives and once in what became of it, and Check holds the two equal.
type Stats struct {
	// Segments posted.
	TotalSends     uint64 // first postings
	ChunkSends     uint64 // of them, pieces of fragments
	FragSends      uint64 // of them, coalesced records
	Resends        uint64 // later postings
	TimeoutResends uint64 // segments put on the resend list by the retransmit timer …
	FastResends    uint64 // … by ACKs that told of later frames
	TailResends    uint64 // … by silence at the end of a burst
	SentBytes      uint64 // of first postings, without the segments' headers and tags
	ResentBytes    uint64 // of later ones
	SegmentsAcked  uint64 // segments that are known to have arrived
	WindowFull     uint64 // Reserve or Post found the window full …
	CreditsFull    uint64 // … or the channel without credits

	// Other frames sent.
	AckSends, HelloSends, ProbeSends, GoodbyeSends uint64

	// Paths (pathmtu.go).
	PathDoubts    uint64 // times that long frames were lost again and again, so that short ones took their place
	PathsNarrowed uint64 // times that a path was found to carry less than both NICs take …
	PathsWidened  uint64 // … or all of it again
	PartSends     uint64 // frames with parts of segments

	// Datagrams (datagram.go): sent; not sent since they were too long, without a session, or too many waited; handed over; given up since a
	// piece was missing; pieces of those for which there was no room.
	DatagramSends, DatagramsTooLong, DatagramsNoSession, DatagramsUnsent, DatagramReceives, DatagramsIncomplete, DatagramsNoRoom uint64

	PiggybackedAcks uint64 // ACKs that were due and went with a segment

	// Frames that came, and what became of each.
	Receives          uint64
	ChunkReceives     uint64 // segments of the data space, delivered
	FragReceives      uint64 // segments of the command space, delivered
	AckReceives       uint64
	HelloReceives     uint64
	ProbeReceives     uint64
	PartReceives      uint64 // parts of segments, but for those that made one whole
	GoodbyeReceives   uint64
	DatagramFrames    uint64 // datagrams and pieces of them
	Duplicates        uint64 // segments beyond a gap that had come before
	OutOfWindowLow    uint64 // segments before the window: old duplicates
	OutOfWindowHigh   uint64 // segments beyond the window
	Malformed         uint64 // bad fragments: well-formed outside, not inside
	Short             uint64 // too short for an outer header
	Magic             uint64 // not Weft's
	Unknown           uint64 // of an unknown kind
	VersionMismatches uint64
	NoSession         uint64 // the index is of no session, or of one that is over
	Foreign           uint64 // from another address than the session's
	CRCErrors         uint64 // the tag does not fit, or is missing
	Replays           uint64 // packet counter taken before, or too old
	StaleHellos       uint64 // of an earlier life or time of the peer
	Refused           uint64 // Hellos of NICs that are not admitted, or too many
	FaultDrops        uint64 // by the fault hook

	// Besides.
	Ahead          uint64 // of the segments delivered, those beyond a gap
	FastReceives   uint64 // of the segments delivered, those that a waiter took out of the link itself
	OldAcks        uint64 // acknowledgements that were overtaken by later ones
	BadAcks        uint64 // acknowledgements of what was never sent
	DuplicateAcks  uint64 // ACKs that told of a gap or a duplicate and acknowledged nothing new
	PendingDropped uint64 // half-open sessions that gave way to others

	// High-water marks, in segments.
	LargestSendWindow, LargestReceiveWindow int32
}

// Check returns an error if the counts contradict each other: frames received and the sum of their outcomes, segments
// sent and the sum of their kinds.
func (s *Stats) Check() error {
	outcomes := s.ChunkReceives + s.FragReceives + s.AckReceives + s.HelloReceives + s.ProbeReceives + s.PartReceives + s.GoodbyeReceives + s.DatagramFrames +
		s.Duplicates + s.OutOfWindowLow + s.OutOfWindowHigh + s.Malformed + s.Short + s.Magic + s.Unknown + s.VersionMismatches + s.NoSession +
		s.Foreign + s.CRCErrors + s.Replays + s.StaleHellos + s.Refused + s.FaultDrops
	if s.Receives != outcomes {
		return fmt.Errorf("rel: %d frames received, but %d outcomes counted", s.Receives, outcomes)
	}
	if s.TotalSends != s.ChunkSends+s.FragSends {
		return fmt.Errorf("rel: %d segments sent, but %d pieces and %d of records", s.TotalSends, s.ChunkSends, s.FragSends)
	}
	if s.SegmentsAcked > s.TotalSends {
		return fmt.Errorf("rel: %d segments sent, but %d acknowledged", s.TotalSends, s.SegmentsAcked)
	}
	if s.Resends > s.TimeoutResends+s.FastResends+s.TailResends {
		return fmt.Errorf("rel: %d segments sent again, but only %d + %d + %d had a cause", s.Resends, s.TimeoutResends, s.FastResends, s.TailResends)
	}
	return nil
}

// add adds what t counted; of high-water marks the higher stays.
func (s *Stats) add(t *Stats) {
	a, b := reflect.ValueOf(s).Elem(), reflect.ValueOf(t).Elem()
	for i := range a.NumField() {
		if f := a.Field(i); f.Kind() == reflect.Uint64 {
			f.SetUint(f.Uint() + b.Field(i).Uint())
		} else {
			f.SetInt(max(f.Int(), b.Field(i).Int()))
		}
	}
}

// Stats returns the totals of the module: of its endpoints, present and forgotten, and of frames that belong to none. The
// value is the module's and is computed anew by the next call. Check holds for it between polls.
func (m *Module) Stats() *Stats {
	m.settle()
	m.total = m.stray
	for _, e := range m.endpoints {
		m.total.add(&e.stats)
	}
	for _, e := range m.strangers {
		m.total.add(&e.stats)
	}
	m.total.Receives = m.received
	return &m.total
}

// Copied counts copies of what was sent, of the whole module.
type Copied struct {
	PieceBytes uint64 // of fragments, into frames: first postings and later ones
	Singles    uint64 // frames of single records, to the link's
}

// Copied returns the counts.
func (m *Module) Copied() Copied { return m.copied }

// sent notes how far a send window is open.
func (s *Stats) sent(w *sendWindow) { s.LargestSendWindow = max(s.LargestSendWindow, int32(w.used())) }

// countSend counts a segment that was posted, with n bytes of records, or all segments of a run.
func (e *Endpoint) countSend(g *segment, n int) {
	frames := uint64(g.frames)
	if g.sends > 1 {
		e.stats.ResentBytes += uint64(n)
	} else {
		e.stats.SentBytes += uint64(n)
	}
	if g.fragment != nil {
		e.m.copied.PieceBytes += frames * uint64(g.length)
	}
	switch {
	case g.sends > 1:
		e.stats.Resends++
	case g.fragment != nil:
		e.stats.TotalSends += frames
		e.stats.ChunkSends += frames
	default:
		e.stats.TotalSends++
		e.stats.FragSends++
	}
}
