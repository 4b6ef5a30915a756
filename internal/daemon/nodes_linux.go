package daemon

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/registry/gossip"
)

// joinGossip starts the gossip if the configuration asks for it. The configuration's nodes
// precede those that the gossip finds.
func (d *Daemon) joinGossip() (err error) {
	d.registry = d.listed
	if d.settings.gossip == nil {
		return nil
	}
	c := *d.settings.gossip
	c.ID, c.Incarnation, c.Addr, c.Log = d.id, d.incarnation, d.Addr(), d.log
	c.Keys = gossip.Keys(d.live.Load().keys.keys)
	if d.gossip, err = gossip.New(c); err != nil {
		return err
	}
	d.registry = registry.Merge(d.listed, d.gossip)
	return nil
}

// leaveGossip says goodbye to the other members of the gossip, so that they need not wait for a
// timeout. It may be called twice.
func (d *Daemon) leaveGossip() error {
	if d.gossip == nil {
		return nil
	}
	return d.gossip.Close()
}

// others returns a list that all hosts share without this NIC.
func (d *Daemon) others(all []registry.Node) (others []registry.Node) {
	own := d.isOwn()
	for _, n := range all {
		if !own(n) {
			others = append(others, n)
		}
	}
	return others
}

// nameNodes tells programs the names of the NICs of a list, this one included.
func (d *Daemon) nameNodes(all []registry.Node) {
	own := d.isOwn()
	d.loop.Do(func(clock.Time) {
		t := d.engine.Programs()
		t.ForgetNodes()
		for _, n := range all {
			if own(n) {
				n.ID = d.id
			}
			if n.Name != "" {
				t.NameNode(n.Name, uint64(n.ID), n.Addrs()...)
			}
		}
	})
}

// isOwn returns a function that reports whether a node of a list is this NIC itself.
func (d *Daemon) isOwn() func(registry.Node) bool {
	own := ownAddrs(d.link.Addr())
	return func(n registry.Node) bool {
		return n.ID == d.id || slices.ContainsFunc(n.Addrs(), func(a netip.AddrPort) bool { return own[a] })
	}
}

// positionIn returns the place of this NIC on the torus (QNIX-52), from the configuration or from
// the list that all hosts share.
func (d *Daemon) positionIn(s *settings) nic.Position {
	at, own := s.position, d.isOwn()
	for _, n := range s.nodes.Nodes() {
		if !at.Known && own(n) {
			at = n.At
		}
	}
	if !at.Known {
		return nic.Position{}
	}
	t := s.torus
	return nic.Position{X: uint16(at.X), Y: uint16(at.Y), Width: uint16(t.Width), Height: uint16(t.Height)}
}

// ownAddrs returns the addresses at which a link is reached: all those of the host if the link is
// bound to none.
func ownAddrs(a netip.AddrPort) map[netip.AddrPort]bool {
	own := map[netip.AddrPort]bool{a: true}
	if !a.Addr().IsUnspecified() {
		return own
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return own
	}
	for _, i := range interfaces {
		all, _ := i.Addrs() // an interface that has just gone has none
		for _, at := range all {
			p, err := netip.ParsePrefix(at.String())
			if err != nil {
				continue
			}
			ip := p.Addr().Unmap()
			zones := []string{""}
			// It is reached with the zone only, which has two names.
			if ip.Is6() && ip.IsLinkLocalUnicast() {
				zones = append(zones, i.Name, strconv.Itoa(i.Index))
			}
			for _, zone := range zones {
				own[netip.AddrPortFrom(ip.WithZone(zone), a.Port())] = true
			}
		}
	}
	return own
}

// retryNodesEvery is the interval at which a node that the engine has refused is offered again.
const retryNodesEvery = time.Second

// watchNodes keeps the engine's nodes equal to those of the registry.
func (d *Daemon) watchNodes(ctx context.Context) {
	f := follower{d: d, have: make(map[registry.Node]bool), refused: make(map[registry.Node]bool)}
	for _, n := range d.others(d.settings.nodes.Nodes()) { // these the engine has from the start
		f.have[n] = true
	}
	d.nameNodes(d.settings.nodes.Nodes())
	var again sync.WaitGroup
	defer again.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	again.Go(func() { f.retry(ctx) })
	if err := d.registry.Watch(ctx, f.follow); err != nil {
		d.log.Error("the registry can be watched no more", "error", err)
	}
}

// follower brings a list of nodes to the engine.
type follower struct {
	d *Daemon

	mu      sync.Mutex
	want    []registry.Node
	have    map[registry.Node]bool // nodes that the engine has
	refused map[registry.Node]bool // nodes that it refused; logged once
}

// follow makes all the list of the nodes that the engine should have.
func (f *follower) follow(all []registry.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.want = f.d.others(all)
	f.d.nameNodes(all)
	f.apply()
}

// retry offers the engine its refused nodes again. The engine takes no NIC at a new address while
// it has a session with that NIC at the old one.
func (f *follower) retry(ctx context.Context) {
	tick := time.NewTicker(retryNodesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		f.mu.Lock()
		if len(f.refused) > 0 {
			f.apply()
		}
		f.mu.Unlock()
	}
}

// apply tells the engine the changes. It first removes NICs that are gone, since another NIC may
// have the id or the address now.
func (f *follower) apply() {
	want := make(map[registry.Node]bool, len(f.want))
	for _, n := range f.want {
		want[n] = true
	}
	for n := range f.have {
		if !want[n] {
			f.d.loop.Do(func(clock.Time) { f.d.engine.RemoveNode(uint64(n.ID), n.Addr) })
			f.d.log.Info("node is gone", "node", n)
			delete(f.have, n)
		}
	}
	for n := range f.refused {
		if !want[n] {
			delete(f.refused, n)
		}
	}
	for _, n := range f.want {
		if !f.have[n] {
			f.add(n)
		}
	}
}

func (f *follower) add(n registry.Node) {
	var err error
	f.d.loop.Do(func(clock.Time) { err = f.d.addNode(n) })
	switch {
	case err == nil:
		f.d.log.Info("node is known", "node", n)
		f.have[n] = true
		delete(f.refused, n)
	case !f.refused[n]:
		f.d.log.Warn("node refused; it is tried again", "node", n, "error", err)
		f.refused[n] = true
	}
}
