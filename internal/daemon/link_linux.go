package daemon

import (
	"fmt"

	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/udp"
	"github.com/weftnet/weft/internal/link/xdp"
)

// carrier is a link that explains itself, and says how much may be under way to it, in bytes.
type carrier interface {
	link.Driver
	ReceiveBuffer() int
	Explain() string
}

// carried is the link of a NIC: which one it is, and how it came to be chosen if nobody named it.
type carried struct {
	carrier
	name   string
	choice string
}

// why is what the log says of the link.
func (c *carried) why() string {
	if c.choice == "" {
		return c.Explain()
	}
	return c.choice + "; " + c.Explain()
}

// openLink makes the link that the configuration asks for (decision 12). One that was asked for by name is had or refused:
//
//	udp          works everywhere
//	xdp          AF_XDP, native
//	xdp-generic  the same by the kernel's emulation, for interfaces whose driver has no XDP
//	auto         prefer = "bandwidth": UDP, since an XDP program costs many interfaces their segmentation offload
//	             prefer = "latency": AF_XDP where it can be had, else UDP
func (d *Daemon) openLink() (carried, error) {
	c := &d.settings.config
	switch {
	case c.Link == "xdp", c.Link == "xdp-generic":
		x, err := d.openXDP(c.Link == "xdp-generic")
		return named(c.Link, x, err, "")
	case c.Link != "auto":
		u, err := d.openUDP()
		return named("udp", u, err, "")
	case c.Prefer != preferLatency:
		u, err := d.openUDP()
		return named("udp", u, err, "auto: UDP rather than AF_XDP, which costs the bandwidth of segmentation offload; prefer = \"latency\" would try it")
	}
	x, err := d.openXDP(false)
	if err == nil {
		return named("xdp", x, nil, "auto: AF_XDP, as latency is preferred")
	}
	u, uerr := d.openUDP()
	return named("udp", u, uerr, fmt.Sprintf("auto: UDP, though latency is preferred, because of %v", err))
}

// named makes a carried of what an open has returned; a failed one had no more than a nil pointer.
func named[D carrier](name string, d D, err error, choice string) (carried, error) {
	if err != nil {
		return carried{}, err
	}
	return carried{d, name, choice}, nil
}

func (d *Daemon) openXDP(generic bool) (*xdp.Driver, error) {
	s := &d.settings
	return xdp.Listen(xdp.Config{Addr: s.listen, MTU: s.mtu, Generic: generic, NoOffload: s.plain, Log: d.linkSays})
}

func (d *Daemon) openUDP() (*udp.Driver, error) {
	s := &d.settings
	return udp.Listen(udp.Config{Addr: s.listen, MTU: s.mtu, NoOffload: s.plain, Log: d.linkSays})
}

// linkSays logs what the link has to say. It does so from the engine's thread, which does not wait for a log.
func (d *Daemon) linkSays(text string) { go d.log.Warn("link", "what", text) }
