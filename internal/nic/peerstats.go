package nic

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
)

// rowsPerPublish is the number of rows of the table of peers that each publication checks. A row
// that has changed costs about 300 ns, so a busy NIC with many peers spends half a percent of its
// time on them. A table of 4,096 peers is current after 256 ms.
const rowsPerPublish = 16

// peerRows publishes the counters of the peers. Row i is the peer at e.peers.list[i]. When a peer
// is removed, the rows after it move, and readers may meet a peer twice or not at all.
type peerRows struct {
	next int      // the row to check next
	left int      // rows to check until all rows show the last change
	row  vni.Peer // reused: it is too large to make for each row
}

// changed makes all rows due.
func (r *peerRows) changed(e *Engine) { r.left = len(e.peers.list) }

// publish writes some rows. It reports whether rows are left.
func (r *peerRows) publish(e *Engine) (more bool) {
	all := e.peers.list
	e.cfg.Peers.SetLen(len(all))
	r.left = min(r.left, len(all))
	for range min(r.left, rowsPerPublish) {
		if r.next >= len(all) {
			r.next = 0
		}
		stats := r.fill(all[r.next])
		e.cfg.Peers.Store(r.next, &r.row, &stats.RTT)
		r.next++
		r.left--
	}
	return r.left > 0
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
