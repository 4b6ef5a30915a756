package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/metrics"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/registry"
)

// openMetrics opens the listener of the metrics, so that a port in use is an error at start.
func (h *door) openMetrics() error {
	first := h.links[0]
	c := first.settings.metrics
	if c.Address.Off() {
		return nil
	}
	c.Log = first.log
	var err error
	if h.metrics, err = metrics.Listen(c); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// serveMetrics answers visitors of the metrics until ctx is done. When it returns, all answers have
// ended: answers read memory that the daemon then unmaps. The loops must be running.
func (h *door) serveMetrics(ctx context.Context) error {
	if h.metrics == nil {
		<-ctx.Done()
		return nil
	}
	served := &metrics.Daemon{Accepts: h.accepts}
	for _, d := range h.links {
		all := d.known()
		d.seen.CompareAndSwap(nil, &all)
		served.NICs = append(served.NICs, d.measured())
	}
	h.links[0].log.Info("metrics are served", "at", h.links[0].settings.metrics.Address, "address", h.metrics.Addr())
	err := h.metrics.Serve(served)
	if err != nil {
		h.stop()
	}
	<-ctx.Done()
	return errors.Join(err, h.closeMetrics())
}

// closeMetrics ends the metrics. A second call changes nothing.
func (h *door) closeMetrics() error {
	m := h.metrics
	if h.metrics = nil; m == nil {
		return nil
	}
	return m.Close()
}

// accepts returns the reason why processes cannot attach, or nil.
func (h *door) accepts() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing || h.ctx.Err() != nil {
		return ctl.ErrNICGone
	}
	return nil
}

// measured returns the NIC of this link, as the metrics read it.
func (d *Daemon) measured() metrics.NIC {
	i := d.info()
	return metrics.NIC{
		Link: i.Network, ID: d.id.String(), Address: i.Address, Guard: i.Guard, Version: i.Version, Commit: i.Commit,
		Started: d.started, Page: d.page, MostProcesses: d.settings.config.maxProcesses(),
		Peers:  d.lastPeers,
		Job:    func() { d.loop.Do(func(clock.Time) {}) },
		LinkUp: func() error { return linkUp(d.Addr().Addr(), net.Interfaces) },
	}
}

// lastPeers returns the other NICs as watchPeers last saw them. watchPeers looks whenever a session
// begins or ends, and when a path changes, so the metrics need not ask the engine.
func (d *Daemon) lastPeers() []metrics.Peer {
	seen := d.seen.Load()
	if seen == nil {
		return nil
	}
	all := make([]metrics.Peer, 0, len(*seen))
	for i := range *seen {
		all = append(all, peerOf(&(*seen)[i]))
	}
	return all
}

func peerOf(n *nic.NodeInfo) metrics.Peer {
	p := metrics.Peer{Address: n.Addr.String(), Up: n.Up, Narrow: n.Up && n.Narrow > 0}
	if n.ID != 0 {
		p.ID = registry.NICID(n.ID).String()
	}
	if n.Up {
		p.Frame, p.WholeFrame = n.Frame, n.WholeFrame
	}
	return p
}

// linkUp returns the reason why no frame can leave from an address: its interface is down or gone.
// For the unspecified address, an interface other than loopback must be up, if the host has any.
func linkUp(at netip.Addr, interfaces func() ([]net.Interface, error)) error {
	all, err := interfaces()
	if err != nil {
		return fmt.Errorf("interfaces: %w", err)
	}
	const carries = net.FlagUp | net.FlagRunning
	others := false
	for _, i := range all {
		loopback := i.Flags&net.FlagLoopback != 0
		others = others || !loopback
		switch up := i.Flags&carries == carries; {
		case at.IsUnspecified() && up && !loopback:
			return nil
		case at.IsUnspecified() || !has(i, at):
		case !up:
			return fmt.Errorf("interface %s, which has the address %v of the link, is down", i.Name, at)
		default:
			return nil
		}
	}
	switch {
	case !at.IsUnspecified():
		return fmt.Errorf("no interface has the address %v of the link", at)
	case others:
		return errors.New("no interface of the host is up")
	}
	return nil
}

// has reports whether an interface has an address. All addresses of 127.0.0.0/8 belong to
// loopback.
func has(i net.Interface, at netip.Addr) bool {
	if i.Flags&net.FlagLoopback != 0 && at.Unmap().IsLoopback() {
		return true
	}
	all, _ := i.Addrs() // an interface that has just gone has none
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap() == at.Unmap().WithZone("") {
			return true
		}
	}
	return false
}
