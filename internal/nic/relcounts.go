package nic

import (
	"errors"

	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
)

// relCounts says which counter each of rel's statistics adds to.
var relCounts = []struct {
	counter vni.Counter
	of      func(*rel.Stats) uint64
}{
	{vni.RelSends, func(s *rel.Stats) uint64 { return s.TotalSends }},
	{vni.RelResendsTimeout, func(s *rel.Stats) uint64 { return s.TimeoutResends }},
	{vni.RelResendsFast, func(s *rel.Stats) uint64 { return s.FastResends }},
	{vni.RelResendsTail, func(s *rel.Stats) uint64 { return s.TailResends }},
	{vni.RelBytesSent, func(s *rel.Stats) uint64 { return s.SentBytes }},
	{vni.RelBytesResent, func(s *rel.Stats) uint64 { return s.ResentBytes }},
	{vni.RelWindowFull, func(s *rel.Stats) uint64 { return s.WindowFull }},
	{vni.RelCreditsFull, func(s *rel.Stats) uint64 { return s.CreditsFull }},
	{vni.RelSegmentsAcked, func(s *rel.Stats) uint64 { return s.SegmentsAcked }},
	{vni.RelFragSends, func(s *rel.Stats) uint64 { return s.FragSends }},
	{vni.RelChunkSends, func(s *rel.Stats) uint64 { return s.ChunkSends }},
	{vni.RelAckSends, func(s *rel.Stats) uint64 { return s.AckSends }},
	{vni.RelAckPiggybacked, func(s *rel.Stats) uint64 { return s.PiggybackedAcks }},
	{vni.RelProbeSends, func(s *rel.Stats) uint64 { return s.ProbeSends }},
	{vni.RelHelloSends, func(s *rel.Stats) uint64 { return s.HelloSends }},
	{vni.RelFramesReceived, func(s *rel.Stats) uint64 { return s.Receives }},
	{vni.RelReceivedNew, func(s *rel.Stats) uint64 { return s.ChunkReceives + s.FragReceives }},
	{vni.RelReceivedAhead, func(s *rel.Stats) uint64 { return s.Ahead }},
	{vni.RelReceivedDuplicate, func(s *rel.Stats) uint64 { return s.Duplicates + s.OutOfWindowLow }},
	{vni.RelReceivedBeyondWindow, func(s *rel.Stats) uint64 { return s.OutOfWindowHigh }},
	{vni.RelAcksReceived, func(s *rel.Stats) uint64 { return s.AckReceives }},
	{vni.RelAcksDuplicate, func(s *rel.Stats) uint64 { return s.DuplicateAcks }},
	{vni.RelAcksStale, func(s *rel.Stats) uint64 { return s.OldAcks }},
	{vni.RelPathDoubts, func(s *rel.Stats) uint64 { return s.PathDoubts }},
	{vni.RelPathsNarrowed, func(s *rel.Stats) uint64 { return s.PathsNarrowed }},
	{vni.RelPathsWidened, func(s *rel.Stats) uint64 { return s.PathsWidened }},
	{vni.RelPartsSent, func(s *rel.Stats) uint64 { return s.PartSends }},
	{vni.RelPartsReceived, func(s *rel.Stats) uint64 { return s.PartReceives }},
	{vni.RelDatagramsSent, func(s *rel.Stats) uint64 { return s.DatagramSends }},
	{vni.RelDatagramsReceived, func(s *rel.Stats) uint64 { return s.DatagramReceives }},
	{vni.RelDatagramsIncomplete, func(s *rel.Stats) uint64 { return s.DatagramsIncomplete }},
	{vni.RelDatagramsNoRoom, func(s *rel.Stats) uint64 { return s.DatagramsNoRoom }},
	{vni.RelDatagramsRefused, func(s *rel.Stats) uint64 { return s.DatagramsTooLong + s.DatagramsNoSession + s.DatagramsUnsent }},
	{vni.DropShort, func(s *rel.Stats) uint64 { return s.Short }},
	{vni.DropMagic, func(s *rel.Stats) uint64 { return s.Magic }},
	{vni.DropKind, func(s *rel.Stats) uint64 { return s.Unknown }},
	{vni.DropVersion, func(s *rel.Stats) uint64 { return s.VersionMismatches }},
	{vni.DropFormat, func(s *rel.Stats) uint64 { return s.Malformed }},
	{vni.DropTag, func(s *rel.Stats) uint64 { return s.CRCErrors }},
	{vni.DropIndex, func(s *rel.Stats) uint64 { return s.NoSession }},
	{vni.DropAddress, func(s *rel.Stats) uint64 { return s.Foreign }},
	{vni.DropReplay, func(s *rel.Stats) uint64 { return s.Replays }},
	{vni.DropStaleHello, func(s *rel.Stats) uint64 { return s.StaleHellos }},
	{vni.DropRefusedHello, func(s *rel.Stats) uint64 { return s.Refused }},
	{vni.DropFault, func(s *rel.Stats) uint64 { return s.FaultDrops }},
}

// collectRel adds what rel has counted since it was last asked. The engine itself adds to some of these counters, so
// they cannot just be set.
func (e *Engine) collectRel() {
	now := e.rel.Stats()
	for _, r := range relCounts {
		e.counts[r.counter] += r.of(now) - r.of(&e.publisher.rel)
	}
	e.publisher.rel = *now
	copied := e.rel.Copied()
	e.counts[vni.NICCopiedOut] += copied.PieceBytes - e.publisher.pieceBytes
	e.publisher.pieceBytes = copied.PieceBytes
	e.counts[vni.RelSinglesCopied] = copied.Singles
}

// countDown counts the end of a session by its reason.
func (e *Engine) countDown(why error) {
	switch {
	case errors.Is(why, rel.ErrUnreachable):
		e.counts[vni.RelDownUnreachable]++
	case errors.Is(why, rel.ErrRestarted):
		e.counts[vni.RelDownRestarted]++
	case errors.Is(why, rel.ErrGoodbye):
		e.counts[vni.RelDownGoodbye]++
	default:
		e.counts[vni.RelDownLost]++
	}
}
