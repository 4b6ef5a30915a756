package nic

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
)

// A copy of the counts writes a bounded number of rows. A row costs about 300 ns, so a busy NIC
// with many peers spends half a percent of its time on them. If 4,096 peers are busy, each row is
// current after 256 ms. Before the NIC rests for a millisecond or longer, it writes more rows:
// another wake-up would cost more.
const (
	rowsPerPublish = 16
	rowsAtRest     = 256
)

// peerRows publishes the counters of the peers. It writes only rows of peers that have had events.
// A NIC that is mostly idle writes them all at once, so the table costs no wake-up.
type peerRows struct {
	of  []*peer  // by row
	row vni.Peer // too large to make for each row
}

// add gives a new peer a row.
func (r *peerRows) add(pr *peer) {
	pr.row = len(r.of)
	r.of = append(r.of, pr)
}

// remove moves the last peer to the row of a removed one. Until that row is published, readers may
// meet the moved peer twice or not at all.
func (r *peerRows) remove(pr *peer) {
	last := len(r.of) - 1
	moved := r.of[last]
	r.of[pr.row], moved.row = moved, pr.row
	r.of[last], r.of = nil, r.of[:last]
	moved.ep.MarkChanged()
}

// publish writes at most n rows of peers that have had events. It reports whether rows are left.
func (r *peerRows) publish(e *Engine, n int) (more bool) {
	if e.cfg.Peers == (vni.PeerTable{}) {
		return false
	}
	e.cfg.Peers.SetLen(len(r.of))
	for range n {
		ep := e.rel.NextChanged()
		if ep == nil {
			return false
		}
		if pr := peerWith(ep); pr != nil {
			stats := r.fill(pr)
			e.cfg.Peers.Store(pr.row, &r.row, &stats.RTT)
		}
	}
	return e.rel.AnyChanged()
}

// fill sets the row to the counts of a peer, except for the round trips. The result holds these.
func (r *peerRows) fill(pr *peer) *rel.PeerStats {
	ep, p := pr.ep, &r.row
	s := ep.Stats()
	p.NIC, p.Incarnation, p.Addr = pr.nic, ep.Incarnation(), ep.Addr()
	c := &p.Counts
	c[vni.PeerUpNow] = 0
	if ep.Up() {
		c[vni.PeerUpNow] = 1
	}
	c[vni.PeerSessions] = s.Sessions
	c[vni.PeerOpenedAt], c[vni.PeerHandshakeAt] = instant(s.OpenedAt), instant(s.HandshakeAt)
	c[vni.PeerHeardAt] = instant(ep.Heard())
	c[vni.PeerFramesOut], c[vni.PeerBytesOut] = s.Out.Frames, s.Out.Bytes
	c[vni.PeerFramesIn], c[vni.PeerBytesIn] = s.In.Frames, s.In.Bytes
	c[vni.PeerSends], c[vni.PeerResends], c[vni.PeerResentBytes] = s.Sends, s.Resends, s.ResentBytes
	for cause := range rel.Causes {
		c[vni.PeerLostTimeout+vni.PeerCounter(cause)] = s.Lost[cause]
		c[vni.PeerUnnoticedTimeout+vni.PeerCounter(cause)] = uint64(s.Unnoticed[cause])
	}
	c[vni.PeerDuplicates] = s.Duplicates
	c[vni.PeerRTTNow], c[vni.PeerRTTLeastNow] = uint64(ep.RTT()), uint64(ep.LeastRTT())
	window, inFlight := ep.Window()
	c[vni.PeerWindowNow], c[vni.PeerInFlightNow] = uint64(window), uint64(inFlight)
	frame, whole, _ := ep.FrameLengths()
	c[vni.PeerFrameNow], c[vni.PeerWholeFrameNow] = uint64(frame), uint64(whole)
	c[vni.PeerPathNow] = uint64(ep.PathState())
	c[vni.PeerGuardNow] = 0
	if ep.Sealed() {
		c[vni.PeerGuardNow] = 1
	}
	return s
}

// instant returns an instant as a counter.
func instant(t clock.Time) uint64 { return uint64(max(t, 0)) }
