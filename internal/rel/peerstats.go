package rel

import (
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/histogram"
)

// Cause is the reason why a segment was put on the resend list; see retransmit.go.
type Cause uint8

// The causes. The statistics of the module count CausePath as a timeout.
const (
	CauseTimeout Cause = iota // its stay in the hotel ended
	CauseFast                 // an ACK showed the arrival of later frames
	CauseTail                 // silence at the end of a burst
	CausePath                 // its path was found to have become narrow
	Causes
)

// resends returns the module's count of a cause.
func (s *Stats) resends(c Cause) *uint64 {
	switch c {
	case CauseFast:
		return &s.FastResends
	case CauseTail:
		return &s.TailResends
	}
	return &s.TimeoutResends
}

// Traffic counts frames and their bytes.
type Traffic struct{ Frames, Bytes uint64 }

func (t *Traffic) count(bytes int) {
	t.Frames++
	t.Bytes += uint64(bytes)
}

func (t Traffic) plus(u Traffic) Traffic { return Traffic{t.Frames + u.Frames, t.Bytes + u.Bytes} }

// PeerStats counts the events of one endpoint, over all its sessions.
type PeerStats struct {
	// Frames of sessions. On a plain link, they include the answer to a Hello; on a sealed link,
	// they include renewals of keys. Hellos and all other frames of handshakes are not counted, and
	// neither are frames that the peer has not made.
	Out, In Traffic

	Sessions    uint64     // opened
	OpenedAt    clock.Time // when the last session opened
	HandshakeAt clock.Time // when the last handshake gave keys; on a plain link, OpenedAt

	Sends       uint64 // first postings of segments
	Resends     uint64 // later postings of segments
	ResentBytes uint64 // of records in later postings
	// Duplicates counts segments, and parts of segments, that had arrived before.
	Duplicates uint64
	// Lost counts segments put on the resend list, by cause.
	Lost [Causes]uint64
	// Unnoticed is the time from the last posting of each such segment until it was put there.
	Unnoticed [Causes]time.Duration

	// RTT has each measured round trip, less the time for which the peer held the ACK back. If an
	// acknowledgement travels with an answer, the round trip includes the time until the answer.
	RTT histogram.Histogram

	past [2]Traffic // Out and In of the sessions that have ended
}

// Stats returns the endpoint's counts, which are all 0 before its first session. They are live;
// copy them to keep them.
func (e *Endpoint) Stats() *PeerStats {
	e.m.settle()
	p := e.stats
	if p == nil {
		return &e.m.none
	}
	p.Out, p.In = p.past[0], p.past[1]
	if s := e.live; s != nil {
		p.Out, p.In = p.Out.plus(s.packets.out), p.In.plus(s.in)
	}
	return p
}

// countSession counts a session that opens. A NIC hears from many peers that never open one, so the
// first session allocates the counts.
func (e *Endpoint) countSession(now clock.Time, s *session) {
	if e.stats == nil {
		e.stats = new(PeerStats)
	}
	e.MarkChanged()
	e.stats.Sessions++
	e.stats.OpenedAt, e.stats.HandshakeAt = now, now
	if s.rtt.smooth > 0 { // by the handshake
		e.stats.RTT.Record(s.rtt.smooth)
	}
}

// add adds the traffic of a session that has ended.
func (p *PeerStats) add(s *session) {
	p.past[0], p.past[1] = p.past[0].plus(s.packets.out), p.past[1].plus(s.in)
}

// lose counts a segment that is about to be retransmitted.
func (e *Endpoint) lose(now clock.Time, g *segment, why Cause) {
	*e.m.stats.resends(why)++
	e.stats.Lost[why]++
	e.stats.Unnoticed[why] += now.Sub(g.sentAt)
	e.MarkChanged()
}

// measured records a round trip of an open session.
func (s *session) measured(d time.Duration) {
	s.rtt.add(d)
	s.endpoint.stats.RTT.Record(d)
}

// Window returns the congestion window and the bytes of frames in flight to the peer; 0 without a
// session. Bytes in queues are not in flight.
func (e *Endpoint) Window() (window, inFlight int) {
	if e.live == nil {
		return 0, 0
	}
	for i := range e.channels {
		inFlight += e.channels[i].inFlight
	}
	return e.congestion.window, inFlight
}

// LeastRTT returns the shortest round trip of the last ten seconds or more; 0 if there is none.
func (e *Endpoint) LeastRTT() time.Duration {
	if e.live == nil {
		return 0
	}
	return e.congestion.least
}
