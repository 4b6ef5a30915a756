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

// sessionCounters grow whenever a session with a peer begins or ends.
var sessionCounters = []vni.Counter{vni.RelUpSessions, vni.RelDownUnreachable, vni.RelDownRestarted, vni.RelDownLost, vni.RelDownGoodbye}

// watchPeers logs which peers come and go. It reads the counters page, which costs the engine nothing, and asks the
// engine only when they say that something happened.
func (d *Daemon) watchPeers(ctx context.Context) {
	tick := time.NewTicker(lookAtPeersEvery)
	defer tick.Stop()
	var seen uint64
	up := map[nic.NodeInfo]bool{}
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
func (d *Daemon) logPeers(were map[nic.NodeInfo]bool) map[nic.NodeInfo]bool {
	var all []nic.NodeInfo
	d.loop.Do(func(clock.Time) { all = d.engine.Nodes() })
	are := map[nic.NodeInfo]bool{}
	for _, n := range all {
		if n.Up {
			are[nic.NodeInfo{ID: n.ID, Incarnation: n.Incarnation, Addr: n.Addr}] = true
		}
	}
	for n := range were {
		if !are[n] {
			d.log.Info("peer is down", "nic", registry.NICID(n.ID), "address", n.Addr)
		}
	}
	for n := range are {
		if !were[n] {
			d.log.Info("peer is up", "nic", registry.NICID(n.ID), "address", n.Addr, "incarnation", n.Incarnation)
		}
	}
	return are
}
