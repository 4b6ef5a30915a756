package rel

import (
	"fmt"
)

// Stats counts events in a module: the usNIC list, and Weft's own causes. Every arriving frame
// is counted once in Receives and once by its outcome, and Check requires the two to be equal. A
// tag names the published counter to which a count adds.
type Stats struct {
	// Segments posted.

	// First postings.
	TotalSends uint64 `counter:"rel_sends"`
	// First postings of pieces of fragments.
	ChunkSends uint64 `counter:"rel_chunk_sends"`
	// First postings of coalesced records.
	FragSends uint64 `counter:"rel_frag_sends"`
	// Later postings.
	Resends uint64
	// Segments put on the resend list by the retransmit timer.
	TimeoutResends uint64 `counter:"rel_resends_timeout"`
	// Segments put on the resend list by ACKs that showed the arrival of later frames.
	FastResends uint64 `counter:"rel_resends_fast"`
	// Segments put on the resend list by silence at the end of a burst.
	TailResends uint64 `counter:"rel_resends_tail"`
	// Bytes of first postings, without the segments' headers and tags.
	SentBytes uint64 `counter:"rel_bytes_sent"`
	// Bytes of later postings.
	ResentBytes uint64 `counter:"rel_bytes_resent"`
	// Segments that are known to have arrived.
	SegmentsAcked uint64 `counter:"rel_segments_acked"`
	// Times that Reserve or Post found the window full.
	WindowFull uint64 `counter:"rel_window_full"`
	// Times that Reserve or Post found the channel without credits.
	CreditsFull uint64 `counter:"rel_credits_full"`

	// Other frames sent.

	AckSends uint64 `counter:"rel_ack_sends"`
	// Hellos, answers included.
	HelloSends uint64 `counter:"rel_hello_sends"`
	ProbeSends uint64 `counter:"rel_probe_sends"`

	// Paths (pathmtu.go).

	// Times that long frames were lost again and again, so that short ones took their place.
	PathDoubts uint64 `counter:"rel_path_doubts"`
	// Times that a path was found to carry less than both NICs take.
	PathsNarrowed uint64 `counter:"rel_paths_narrowed"`
	// Times that a narrowed path was found to carry all of it again.
	PathsWidened uint64 `counter:"rel_paths_widened"`
	// Frames with parts of segments.
	PartSends uint64 `counter:"rel_parts_sent"`

	// Datagrams (datagram.go).

	DatagramSends uint64 `counter:"rel_datagrams_sent"`
	// Not sent because they were too long.
	DatagramsTooLong uint64 `counter:"rel_datagrams_refused"`
	// Not sent because there was no session.
	DatagramsNoSession uint64 `counter:"rel_datagrams_refused"`
	// Not sent because too many waited.
	DatagramsUnsent uint64 `counter:"rel_datagrams_refused"`
	// Handed over.
	DatagramReceives uint64 `counter:"rel_datagrams_received"`
	// Given up because a piece was missing.
	DatagramsIncomplete uint64 `counter:"rel_datagrams_incomplete"`
	// Pieces of datagrams for which there was no room.
	DatagramsNoRoom uint64 `counter:"rel_datagrams_no_room"`

	// ACKs that were due and went with a segment.
	PiggybackedAcks uint64 `counter:"rel_ack_piggybacked"`

	// Arrived frames, and the outcome of each.

	Receives uint64 `counter:"rel_frames_received"`
	// Segments of the data space, delivered.
	ChunkReceives uint64 `counter:"rel_received_new"`
	// Segments of the command space, delivered.
	FragReceives  uint64 `counter:"rel_received_new"`
	AckReceives   uint64 `counter:"rel_acks_received"`
	HelloReceives uint64
	ProbeReceives uint64
	// Parts of segments, except for those that completed one.
	PartReceives    uint64 `counter:"rel_parts_received"`
	GoodbyeReceives uint64
	// Datagrams and pieces of them.
	DatagramFrames uint64
	// Segments beyond a gap that had arrived before.
	Duplicates uint64 `counter:"rel_received_duplicate"`
	// Segments before the window: old duplicates.
	OutOfWindowLow uint64 `counter:"rel_received_duplicate"`
	// Segments beyond the window.
	OutOfWindowHigh uint64 `counter:"rel_received_beyond_window"`
	// Bad fragments: well-formed outside, not inside.
	Malformed uint64 `counter:"drop_format"`
	// Too short for an outer header.
	Short uint64 `counter:"drop_short"`
	// Not a frame of Weft.
	Magic uint64 `counter:"drop_magic"`
	// Frames of an unknown kind.
	Unknown           uint64 `counter:"drop_kind"`
	VersionMismatches uint64 `counter:"drop_version"`
	// The index is of no session, or of one that is over.
	NoSession uint64 `counter:"drop_index"`
	// From another address than the session's.
	Foreign uint64 `counter:"drop_address"`
	// The tag does not fit, or is missing.
	CRCErrors uint64 `counter:"drop_tag"`
	// Packet counter taken before, or too old.
	Replays uint64 `counter:"drop_replay"`
	// Hellos of an earlier life or time of the peer.
	StaleHellos uint64 `counter:"drop_stale_hello"`
	// Hellos of NICs that are not admitted, or too many.
	Refused uint64 `counter:"drop_refused_hello"`
	// Dropped by the fault hook.
	FaultDrops uint64 `counter:"drop_fault"`
	// Handshake frames of another fabric, or damaged.
	BadMACs uint64 `counter:"drop_mac"`
	// Handshake messages that do not verify.
	Handshakes uint64 `counter:"drop_handshake"`
	// NICs whose claim to their id is not believed.
	Identities uint64 `counter:"drop_identity"`
	// Plain frames on a sealed link, and sealed ones on a plain link.
	Unsealed uint64 `counter:"drop_unsealed"`

	// Keys and addresses of sealed sessions.

	// Hellos that were answered by a Cookie.
	CookieSends uint64 `counter:"rel_cookie_sends"`
	// Phases begun.
	Rekeys uint64 `counter:"rel_rekeys"`
	// Handshakes inside sessions.
	Renewals uint64 `counter:"rel_renewals"`
	// Good frames from another address than the peer's.
	Strays uint64 `counter:"rel_strays"`
	// Times that a peer has moved to another address.
	Roams uint64 `counter:"rel_roams"`

	// Other counts.

	// Segments delivered that were beyond a gap.
	Ahead uint64 `counter:"rel_received_ahead"`
	// Segments delivered that a waiter itself took out of the link.
	FastReceives uint64
	// Acknowledgements that later ones had overtaken.
	OldAcks uint64 `counter:"rel_acks_stale"`
	// ACKs that reported a gap or a duplicate and acknowledged nothing new.
	DuplicateAcks uint64 `counter:"rel_acks_duplicate"`
	// Bytes of fragments copied into frames, in first postings and later ones.
	PieceBytes uint64 `counter:"nic_copied_out"`
	// Frames of single records, copied to the link's.
	SinglesCopied uint64 `counter:"rel_singles_copied"`

	// High-water marks, in segments.
	LargestSendWindow, LargestReceiveWindow int32
}

// Check returns an error if the counts contradict each other: frames received and the sum of
// their outcomes, segments sent and the sum of their kinds.
func (s *Stats) Check() error {
	outcomes := s.ChunkReceives + s.FragReceives + s.AckReceives + s.HelloReceives + s.ProbeReceives +
		s.PartReceives + s.GoodbyeReceives + s.DatagramFrames +
		s.Duplicates + s.OutOfWindowLow + s.OutOfWindowHigh + s.Malformed + s.Short + s.Magic + s.Unknown +
		s.VersionMismatches + s.NoSession + s.Foreign + s.CRCErrors + s.Replays + s.StaleHellos + s.Refused +
		s.FaultDrops + s.BadMACs + s.Handshakes + s.Identities + s.Unsealed
	if s.Receives != outcomes {
		return fmt.Errorf("rel: %d frames received, but %d outcomes counted", s.Receives, outcomes)
	}
	if s.TotalSends != s.ChunkSends+s.FragSends {
		return fmt.Errorf("rel: %d segments sent, but %d pieces and %d of records",
			s.TotalSends, s.ChunkSends, s.FragSends)
	}
	if s.SegmentsAcked > s.TotalSends {
		return fmt.Errorf("rel: %d segments sent, but %d acknowledged", s.TotalSends, s.SegmentsAcked)
	}
	if s.Resends > s.TimeoutResends+s.FastResends+s.TailResends {
		return fmt.Errorf("rel: %d segments sent again, but only %d + %d + %d had a cause",
			s.Resends, s.TimeoutResends, s.FastResends, s.TailResends)
	}
	return nil
}

// Stats returns the module's counts. They are live; copy them to keep them. Check holds for them
// between polls.
func (m *Module) Stats() *Stats {
	m.settle()
	return &m.stats
}

// sent notes how far a send window is open.
func (s *Stats) sent(w *sendWindow) { s.LargestSendWindow = max(s.LargestSendWindow, int32(w.used())) }

// countSend counts a segment that was posted, with n bytes of records, or all segments of a run.
func (e *Endpoint) countSend(g *segment, n int) {
	st, of, frames := &e.m.stats, e.stats, uint64(g.frames)
	if g.fragment != nil {
		st.PieceBytes += frames * uint64(g.length)
	}
	if g.sends > 1 {
		st.Resends++
		st.ResentBytes += uint64(n)
		of.Resends++
		of.ResentBytes += uint64(n)
		return
	}
	st.TotalSends += frames
	of.Sends += frames
	st.SentBytes += uint64(n)
	if g.fragment != nil {
		st.ChunkSends += frames
	} else {
		st.FragSends++
	}
}
