package rel

import (
	"fmt"
)

// Stats counts what happened in a module: the usNIC list, and Weft's own causes. Every frame that came is counted once in
// Receives and once in what became of it, and Check holds the two equal. A tag names the published counter that a count adds to.
type Stats struct {
	// Segments posted.
	TotalSends     uint64 `counter:"rel_sends"`       // first postings
	ChunkSends     uint64 `counter:"rel_chunk_sends"` // of them, pieces of fragments
	FragSends      uint64 `counter:"rel_frag_sends"`  // of them, coalesced records
	Resends        uint64 // later postings
	TimeoutResends uint64 `counter:"rel_resends_timeout"` // segments put on the resend list by the retransmit timer …
	FastResends    uint64 `counter:"rel_resends_fast"`    // … by ACKs that told of later frames
	TailResends    uint64 `counter:"rel_resends_tail"`    // … by silence at the end of a burst
	SentBytes      uint64 `counter:"rel_bytes_sent"`      // of first postings, without the segments' headers and tags
	ResentBytes    uint64 `counter:"rel_bytes_resent"`    // of later ones
	SegmentsAcked  uint64 `counter:"rel_segments_acked"`  // segments that are known to have arrived
	WindowFull     uint64 `counter:"rel_window_full"`     // Reserve or Post found the window full …
	CreditsFull    uint64 `counter:"rel_credits_full"`    // … or the channel without credits

	// Other frames sent.
	AckSends   uint64 `counter:"rel_ack_sends"`
	HelloSends uint64 `counter:"rel_hello_sends"` // answers included
	ProbeSends uint64 `counter:"rel_probe_sends"`

	// Paths (pathmtu.go).
	PathDoubts    uint64 `counter:"rel_path_doubts"`    // times that long frames were lost again and again, so that short ones took their place
	PathsNarrowed uint64 `counter:"rel_paths_narrowed"` // times that a path was found to carry less than both NICs take …
	PathsWidened  uint64 `counter:"rel_paths_widened"`  // … or all of it again
	PartSends     uint64 `counter:"rel_parts_sent"`     // frames with parts of segments

	// Datagrams (datagram.go).
	DatagramSends       uint64 `counter:"rel_datagrams_sent"`
	DatagramsTooLong    uint64 `counter:"rel_datagrams_refused"`    // not sent: too long …
	DatagramsNoSession  uint64 `counter:"rel_datagrams_refused"`    // … without a session …
	DatagramsUnsent     uint64 `counter:"rel_datagrams_refused"`    // … or too many waited
	DatagramReceives    uint64 `counter:"rel_datagrams_received"`   // handed over
	DatagramsIncomplete uint64 `counter:"rel_datagrams_incomplete"` // given up since a piece was missing
	DatagramsNoRoom     uint64 `counter:"rel_datagrams_no_room"`    // pieces of those for which there was no room

	PiggybackedAcks uint64 `counter:"rel_ack_piggybacked"` // ACKs that were due and went with a segment

	// Frames that came, and what became of each.
	Receives          uint64 `counter:"rel_frames_received"`
	ChunkReceives     uint64 `counter:"rel_received_new"` // segments of the data space, delivered
	FragReceives      uint64 `counter:"rel_received_new"` // segments of the command space, delivered
	AckReceives       uint64 `counter:"rel_acks_received"`
	HelloReceives     uint64
	ProbeReceives     uint64
	PartReceives      uint64 `counter:"rel_parts_received"` // parts of segments, but for those that made one whole
	GoodbyeReceives   uint64
	DatagramFrames    uint64 // datagrams and pieces of them
	Duplicates        uint64 `counter:"rel_received_duplicate"`     // segments beyond a gap that had come before
	OutOfWindowLow    uint64 `counter:"rel_received_duplicate"`     // segments before the window: old duplicates
	OutOfWindowHigh   uint64 `counter:"rel_received_beyond_window"` // segments beyond the window
	Malformed         uint64 `counter:"drop_format"`                // bad fragments: well-formed outside, not inside
	Short             uint64 `counter:"drop_short"`                 // too short for an outer header
	Magic             uint64 `counter:"drop_magic"`                 // not Weft's
	Unknown           uint64 `counter:"drop_kind"`                  // of an unknown kind
	VersionMismatches uint64 `counter:"drop_version"`
	NoSession         uint64 `counter:"drop_index"`         // the index is of no session, or of one that is over
	Foreign           uint64 `counter:"drop_address"`       // from another address than the session's
	CRCErrors         uint64 `counter:"drop_tag"`           // the tag does not fit, or is missing
	Replays           uint64 `counter:"drop_replay"`        // packet counter taken before, or too old
	StaleHellos       uint64 `counter:"drop_stale_hello"`   // of an earlier life or time of the peer
	Refused           uint64 `counter:"drop_refused_hello"` // Hellos of NICs that are not admitted, or too many
	FaultDrops        uint64 `counter:"drop_fault"`         // by the fault hook
	BadMACs           uint64 `counter:"drop_mac"`           // handshake frames of another fabric, or damaged
	Handshakes        uint64 `counter:"drop_handshake"`     // handshake messages that do not verify
	Identities        uint64 `counter:"drop_identity"`      // NICs that are not to be believed their ids
	Unsealed          uint64 `counter:"drop_unsealed"`      // plain frames on a sealed link, and sealed ones on a plain link

	// Keys and addresses of sealed sessions.
	CookieSends uint64 `counter:"rel_cookie_sends"` // Hellos that were answered by a Cookie
	Rekeys      uint64 `counter:"rel_rekeys"`       // phases begun
	Renewals    uint64 `counter:"rel_renewals"`     // handshakes inside sessions
	Strays      uint64 `counter:"rel_strays"`       // good frames from another address than the peer's
	Roams       uint64 `counter:"rel_roams"`        // times that a peer has moved to another address

	// Besides.
	Ahead         uint64 `counter:"rel_received_ahead"` // of the segments delivered, those beyond a gap
	FastReceives  uint64 // of the segments delivered, those that a waiter took out of the link itself
	OldAcks       uint64 `counter:"rel_acks_stale"`     // acknowledgements that were overtaken by later ones
	DuplicateAcks uint64 `counter:"rel_acks_duplicate"` // ACKs that told of a gap or a duplicate and acknowledged nothing new
	PieceBytes    uint64 `counter:"nic_copied_out"`     // of fragments, copied into frames: first postings and later ones
	SinglesCopied uint64 `counter:"rel_singles_copied"` // frames of single records, copied to the link's

	// High-water marks, in segments.
	LargestSendWindow, LargestReceiveWindow int32
}

// Check returns an error if the counts contradict each other: frames received and the sum of their outcomes, segments
// sent and the sum of their kinds.
func (s *Stats) Check() error {
	outcomes := s.ChunkReceives + s.FragReceives + s.AckReceives + s.HelloReceives + s.ProbeReceives + s.PartReceives + s.GoodbyeReceives + s.DatagramFrames +
		s.Duplicates + s.OutOfWindowLow + s.OutOfWindowHigh + s.Malformed + s.Short + s.Magic + s.Unknown + s.VersionMismatches + s.NoSession +
		s.Foreign + s.CRCErrors + s.Replays + s.StaleHellos + s.Refused + s.FaultDrops +
		s.BadMACs + s.Handshakes + s.Identities + s.Unsealed
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

// Stats returns what the module has counted. It is live; copy it to keep it. Check holds for it between polls.
func (m *Module) Stats() *Stats {
	m.settle()
	return &m.stats
}

// sent notes how far a send window is open.
func (s *Stats) sent(w *sendWindow) { s.LargestSendWindow = max(s.LargestSendWindow, int32(w.used())) }

// countSend counts a segment that was posted, with n bytes of records, or all segments of a run.
func (e *Endpoint) countSend(g *segment, n int) {
	st, frames := &e.m.stats, uint64(g.frames)
	if g.fragment != nil {
		st.PieceBytes += frames * uint64(g.length)
	}
	if g.sends > 1 {
		st.Resends++
		st.ResentBytes += uint64(n)
		return
	}
	st.TotalSends += frames
	st.SentBytes += uint64(n)
	if g.fragment != nil {
		st.ChunkSends += frames
	} else {
		st.FragSends++
	}
}
