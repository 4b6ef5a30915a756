package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

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
	u := &uplink{interfaces: net.Interfaces, addrs: (*net.Interface).Addrs}
	return metrics.NIC{
		Link: i.Network, ID: d.id.String(), Address: i.Address, Guard: i.Guard, Version: i.Version, Commit: i.Commit,
		Started: d.started, Page: d.page, MostProcesses: d.settings.config.maxProcesses(),
		Peers:  d.lastPeers,
		Job:    func() { d.loop.Do(func(clock.Time) {}) },
		LinkUp: func() error { return u.up(d.Addr().Addr()) },
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

// uplink is the interface that has the address of a link. It is not safe for concurrent use.
type uplink struct {
	interfaces func() ([]net.Interface, error)
	addrs      func(*net.Interface) ([]net.Addr, error)

	last int // index of the interface that had the address at the last check
}

// carriesFrames holds the flags of an interface that carries frames.
const carriesFrames = net.FlagUp | net.FlagRunning

// up returns why no frame can leave from an address: its interface is down or gone. For the
// unspecified address, an interface other than loopback must be up, if the host has any.
//
// The addresses of each interface cost a dump of all addresses of the host. So the interface that
// had the address comes first.
func (u *uplink) up(at netip.Addr) error {
	all, err := u.interfaces()
	if err != nil {
		return fmt.Errorf("interfaces: %w", err)
	}
	if at.IsUnspecified() {
		return anyUp(all)
	}
	if k := slices.IndexFunc(all, func(i net.Interface) bool { return i.Index == u.last }); k > 0 {
		all[0], all[k] = all[k], all[0]
	}
	for i := range all {
		if !u.has(&all[i], at) {
			continue
		}
		if u.last = all[i].Index; all[i].Flags&carriesFrames != carriesFrames {
			return fmt.Errorf("interface %s, which has the address %v of the link, is down", all[i].Name, at)
		}
		return nil
	}
	return fmt.Errorf("no interface has the address %v of the link", at)
}

// anyUp returns an error if there are interfaces other than loopback and all of them are down.
func anyUp(all []net.Interface) error {
	others := false
	for _, i := range all {
		if i.Flags&net.FlagLoopback != 0 {
			continue
		}
		if others = true; i.Flags&carriesFrames == carriesFrames {
			return nil
		}
	}
	if others {
		return errors.New("no interface of the host is up")
	}
	return nil
}

// has reports whether an interface has an address. All addresses of 127.0.0.0/8 belong to
// loopback.
func (u *uplink) has(i *net.Interface, at netip.Addr) bool {
	if i.Flags&net.FlagLoopback != 0 && at.Unmap().IsLoopback() {
		return true
	}
	all, _ := u.addrs(i) // an interface that has just gone has none
	return slices.ContainsFunc(all, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().Unmap() == at.Unmap().WithZone("")
	})
}
