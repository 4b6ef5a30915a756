package daemon

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/registry/file"
)

// answerNode serves a tool that adds a node to the list, or removes one. It does not change the
// configuration file, so the next reload or start undoes the change.
func (d *Daemon) answerNode(c *ctl.Client, change *ctl.NodeChange) error {
	if !d.owner(c) {
		return fmt.Errorf("%w: user %d may not change the nodes of this daemon; expected the daemon's user or root",
			ctl.ErrRefused, c.Peer.UID)
	}
	n, err := unlessEnding(d.ctx, func() (registry.Node, error) {
		return file.EntryOf(change.Node).Node(registry.Torus{})
	})
	switch {
	case errors.Is(err, ctl.ErrNICGone):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", ctl.ErrBadRequest, err)
	}
	err = d.listed.Change(func(now []registry.Node) ([]registry.Node, error) {
		if change.Do == ctl.NodeAdd {
			return d.withNode(now, n)
		}
		return d.withoutNode(now, n)
	})
	if err != nil {
		return err
	}
	d.log.Info("the list of nodes has changed", "what", change.Do, "node", n, "pid", c.Peer.PID)
	return c.Reply(&ctl.Reply{})
}

// withNode returns a list with one more node.
func (d *Daemon) withNode(now []registry.Node, n registry.Node) ([]registry.Node, error) {
	switch {
	case d.isOwn()(n):
		return nil, fmt.Errorf("%w: node %v is this NIC itself; expected another one", ctl.ErrBadRequest, n)
	case slices.ContainsFunc(now, func(o registry.Node) bool { return sharesPlace(o, n) || n.ID != 0 && o.ID == n.ID }):
		return nil, fmt.Errorf("%w: node %v is in the list already", ctl.ErrInUse, n)
	case len(now) >= limits.Peers:
		return nil, fmt.Errorf("%w: the list has %d nodes, as many as a NIC may know", ctl.ErrNoMemory, len(now))
	}
	return append(now, n), nil
}

// withoutNode returns a list without the node at an address. If an id is given, the node must have
// it.
func (d *Daemon) withoutNode(now []registry.Node, n registry.Node) ([]registry.Node, error) {
	i := slices.IndexFunc(now, func(o registry.Node) bool {
		return sharesPlace(o, n) && (n.ID == 0 || o.ID == 0 || o.ID == n.ID)
	})
	if i < 0 {
		return nil, fmt.Errorf("%w: the list of nodes has no %v; NICs that this one knows by gossip, "+
			"or from other NICs, are not in the list", ctl.ErrNoNIC, n)
	}
	return slices.Delete(now, i, i+1), nil
}

// sharesPlace reports whether two nodes have an address in common.
func sharesPlace(a, b registry.Node) bool {
	return slices.ContainsFunc(a.Addrs(), func(at netip.AddrPort) bool { return slices.Contains(b.Addrs(), at) })
}
