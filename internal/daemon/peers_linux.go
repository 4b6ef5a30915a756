package daemon

import (
	"context"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/vni"
)

// lookAtPeersEvery is how often the log may have news of peers.
const lookAtPeersEvery = time.Second

// sessionCounters grow whenever a session with a peer begins or ends, or its path is found to be another than before.
var sessionCounters = []vni.Counter{vni.RelUpSessions, vni.RelDownUnreachable, vni.RelDownRestarted, vni.RelDownLost, vni.RelDownGoodbye,
	vni.RelPathsNarrowed, vni.RelPathsWidened}

// watchPeers logs which peers come and go. It reads the counters page, which costs the engine nothing, and asks the
// engine only when they say that something happened.
func (d *Daemon) watchPeers(ctx context.Context) {
	tick := time.NewTicker(lookAtPeersEvery)
	defer tick.Stop()
	var seen uint64
	up := map[nic.NodeInfo]int{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		sum := uint64(0)
		for _, c := range sessionCounters {
			sum += d.page.Load(c)
		}
		if sum != seen {
			seen = sum
			up = d.logPeers(up)
		}
	}
}

// logPeers logs how the peers that are up differ from those that were, and returns those that are. A peer that restarted
// has another incarnation, and so went and came.
func (d *Daemon) logPeers(were map[nic.NodeInfo]int) map[nic.NodeInfo]int {
	var all []nic.NodeInfo
	d.loop.Do(func(clock.Time) { all = d.engine.Nodes() })
	are := map[nic.NodeInfo]int{} // with the longest frame that reaches it, if its path is narrow
	for _, n := range all {
		if n.Up {
			are[nic.NodeInfo{ID: n.ID, Incarnation: n.Incarnation, Addr: n.Addr, WholeFrame: n.WholeFrame}] = n.Narrow
		}
	}
	for n := range were {
		if _, is := are[n]; !is {
			d.log.Info("peer is down", "nic", registry.NICID(n.ID), "address", n.Addr)
		}
	}
	for n, narrow := range are {
		was, old := were[n]
		if !old {
			d.log.Info("peer is up", "nic", registry.NICID(n.ID), "address", n.Addr, "incarnation", n.Incarnation)
		}
		switch {
		case narrow == was:
		case narrow > 0:
			d.log.Warn("the path to a peer carries less than both ends", "nic", registry.NICID(n.ID), "address", n.Addr,
				"frame", narrow, "of", n.WholeFrame, "mend", "a network with the MTU of the hosts, or an MTU of the hosts that it carries")
		default:
			d.log.Info("the path to a peer carries whole frames again", "nic", registry.NICID(n.ID), "address", n.Addr, "frame", n.WholeFrame)
		}
	}
	return are
}
