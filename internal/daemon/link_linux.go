package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/capture"
	"github.com/weftnet/weft/internal/link/udp"
	"github.com/weftnet/weft/internal/link/xdp"
	"github.com/weftnet/weft/internal/poller"
	"github.com/weftnet/weft/internal/secure"
)

// carrier is a link that explains itself.
type carrier interface {
	link.Driver
	Explain() string // sentences separated by "; "
	Offload() string // the segmentation offload in use
}

// carried is the link of a NIC, with its name and, if auto chose it, the reason.
type carried struct {
	carrier
	name   string
	choice string
	xdp    *xdp.Driver // the link itself if it is AF_XDP, else nil
}

// now returns the present kind of the link.
func (c *carried) now() string {
	if c.xdp != nil && !c.xdp.Attached() {
		return "udp (" + c.name + " has lost its interface)"
	}
	return c.name
}

// followLink keeps an AF_XDP link attached to the interface that has its address.
func (d *Daemon) followLink(ctx context.Context) {
	if d.link.xdp == nil {
		return
	}
	do := func(f func()) { d.loop.Do(func(clock.Time) { f() }) }
	d.link.xdp.Follow(ctx, do, func(text string) { d.log.Warn("link", "what", text) })
}

// why returns what the log says about the link, one sentence each.
func (c *carried) why() (said []string) {
	if c.choice != "" {
		said = append(said, c.choice)
	}
	return append(said, strings.Split(c.Explain(), "; ")...)
}

// openLink makes the link that the configuration asks for. If the configuration names the link,
// the choice says so.
func (d *Daemon) openLink() (carried, error) {
	c, err := d.openKind()
	if name := d.settings.config.called; err == nil && name != "" {
		c.choice = strings.TrimSuffix(fmt.Sprintf("%s of the configuration; %s", name, c.choice), "; ")
	}
	return c, err
}

// openKind makes a link of the kind that the configuration asks for (decision 12). It fails if a
// kind that was asked for by name cannot be made:
//
//	udp          works everywhere
//	xdp          AF_XDP, native
//	xdp-generic  the same by the kernel's emulation, for interfaces whose driver has no XDP
//	auto         prefer = "bandwidth": UDP, since XDP costs many interfaces segmentation offload
//	             prefer = "latency": AF_XDP where possible, else UDP; if listen is every address,
//	             AF_XDP at the host's only one
func (d *Daemon) openKind() (carried, error) {
	c := &d.settings.config
	switch {
	case c.Link == "xdp", c.Link == "xdp-generic":
		x, err := d.openXDP(d.settings.listen, c.Link == "xdp-generic")
		return named(c.Link, x, err, "")
	case c.Link != "auto":
		u, err := d.openUDP()
		return named("udp", u, err, "")
	case c.Prefer != preferLatency:
		u, err := d.openUDP()
		return named("udp", u, err,
			"auto: UDP rather than AF_XDP, which costs the bandwidth of segmentation offload; "+
				"prefer = \"latency\" would try it")
	}
	x, choice, err := d.openLatency()
	if err == nil {
		return named("xdp", x, nil, choice)
	}
	u, uerr := d.openUDP()
	return named("udp", u, uerr, fmt.Sprintf("auto: UDP, though latency is preferred, because of %v", err))
}

// named makes a carried from the result of an open. It returns an empty one on an error, where d
// is a nil pointer.
func named[D carrier](name string, d D, err error, choice string) (carried, error) {
	if err != nil {
		return carried{}, err
	}
	x, _ := any(d).(*xdp.Driver)
	return carried{d, name, choice, x}, nil
}

// openLatency tries AF_XDP for auto. AF_XDP needs one address: if listen is every address,
// openLatency takes the only one of this host.
func (d *Daemon) openLatency() (x *xdp.Driver, choice string, err error) {
	at, choice := d.settings.listen, "auto: AF_XDP, as latency is preferred"
	if at.Addr().IsUnspecified() {
		sole, err := xdp.Sole(at.Addr())
		if err != nil {
			return nil, "", fmt.Errorf("%w; name it by listen", err)
		}
		at = netip.AddrPortFrom(sole.Addr, at.Port())
		choice += fmt.Sprintf(", at %v and not at every address: AF_XDP needs one, and this host has no other", sole)
	}
	x, err = d.openXDP(at, false)
	return x, choice, err
}

func (d *Daemon) openXDP(at netip.AddrPort, generic bool) (*xdp.Driver, error) {
	s := &d.settings
	return xdp.Listen(xdp.Config{Addr: at, MTU: s.mtu, Generic: generic, NoOffload: s.plain, Log: d.linkSays})
}

func (d *Daemon) openUDP() (*udp.Driver, error) {
	s := &d.settings
	return udp.Listen(udp.Config{Addr: s.listen, MTU: s.mtu, NoOffload: s.plain, Log: d.linkSays})
}

// linkSays logs a message of the link. It does so in a new goroutine, since the engine's thread
// must not wait for a log.
func (d *Daemon) linkSays(text string) { go d.log.Warn("link", "what", text) }

// captured is a link whose frames are also written to a file.
type captured struct {
	*capture.Driver
	below carrier
}

var _ secure.KeyRecorder = captured{}

// Explain returns how the link below works.
func (c captured) Explain() string { return c.below.Explain() }

// Offload returns the segmentation offload of the link below.
func (c captured) Offload() string { return c.below.Offload() }

// capture begins to write the frames of the link to a file, if the configuration names one.
func (d *Daemon) capture() error {
	c := &d.settings.config
	if c.Capture == "" {
		return nil
	}
	w, err := capture.Open(d.link.carrier, c.Capture, poller.Now,
		capture.Config{Name: d.link.name, Limit: c.CaptureLimit, Snap: c.CaptureSnap,
			Secrets: c.CaptureSecrets,
			Log:     func(text string) { d.log.Info("link", "what", text) },
			Failed:  func(text string) { d.log.Warn("link", "what", text) }})
	if err == nil {
		d.link.carrier = captured{w, d.link.carrier}
	}
	return err
}
