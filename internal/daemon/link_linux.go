package daemon

import (
	"fmt"
	"net/netip"
	"strings"

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
	Explain() string // sentences with "; " between them
	Offload() string // the segmentation offload that is in use
}

// carried is the link of a NIC: which one it is, and how it came to be chosen if it was not named.
type carried struct {
	carrier
	name   string
	choice string
	xdp    *xdp.Driver // the link itself, if it is AF_XDP; nil: it is not
}

// why is what the log says of the link, a sentence each.
func (c *carried) why() (said []string) {
	if c.choice != "" {
		said = append(said, c.choice)
	}
	return append(said, strings.Split(c.Explain(), "; ")...)
}

// openLink makes the link that the configuration asks for, and says by which name of the configuration's own if by any.
func (d *Daemon) openLink() (carried, error) {
	c, err := d.openKind()
	if name := d.settings.config.called; err == nil && name != "" {
		c.choice = strings.TrimSuffix(fmt.Sprintf("%s of the configuration; %s", name, c.choice), "; ")
	}
	return c, err
}

// openKind makes a link of the kind that the configuration asks for (decision 12). One that was asked for by name is had or refused:
//
//	udp          works everywhere
//	xdp          AF_XDP, native
//	xdp-generic  the same by the kernel's emulation, for interfaces whose driver has no XDP
//	auto         prefer = "bandwidth": UDP, since an XDP program costs many interfaces their segmentation offload
//	             prefer = "latency": AF_XDP where it can be had, else UDP; where listen is every address, at the only one if there is one
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
		return named("udp", u, err, "auto: UDP rather than AF_XDP, which costs the bandwidth of segmentation offload; prefer = \"latency\" would try it")
	}
	x, choice, err := d.openLatency()
	if err == nil {
		return named("xdp", x, nil, choice)
	}
	u, uerr := d.openUDP()
	return named("udp", u, uerr, fmt.Sprintf("auto: UDP, though latency is preferred, because of %v", err))
}

// named makes a carried of what an open has returned; a failed one had no more than a nil pointer.
func named[D carrier](name string, d D, err error, choice string) (carried, error) {
	if err != nil {
		return carried{}, err
	}
	x, _ := any(d).(*xdp.Driver)
	return carried{d, name, choice, x}, nil
}

// openLatency makes AF_XDP without having been told to. It needs one address, and takes the only one of this host for every one.
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

// linkSays logs what the link has to say. It does so from the engine's thread, which does not wait for a log.
func (d *Daemon) linkSays(text string) { go d.log.Warn("link", "what", text) }

// captured is a link whose frames are written to a file as well.
type captured struct {
	*capture.Driver
	below carrier
}

var _ secure.KeyRecorder = captured{}

// Explain says how the link below works.
func (c captured) Explain() string { return c.below.Explain() }

// Offload says what the link below has.
func (c captured) Offload() string { return c.below.Offload() }

// capture has the frames of the link written to a file, if the configuration names one.
func (d *Daemon) capture() error {
	c := &d.settings.config
	if c.Capture == "" {
		return nil
	}
	w, err := capture.Open(d.link.carrier, c.Capture, poller.Now, capture.Config{Name: d.link.name, Limit: c.CaptureLimit, Snap: c.CaptureSnap,
		Secrets: c.CaptureSecrets,
		Log:     func(text string) { d.log.Info("link", "what", text) },
		Failed:  func(text string) { d.log.Warn("link", "what", text) }})
	if err == nil {
		d.link.carrier = captured{w, d.link.carrier}
	}
	return err
}
