package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/internal/ctl"
)

// The bytes of the IP and UDP headers before a frame.
const (
	headers4 = 20 + 8
	headers6 = 40 + 8
)

// leastMTU6 is the smallest MTU at which IPv6 works, in bytes. Linux takes the IPv6 addresses off
// an interface with a smaller one.
const leastMTU6 = 1280

// lookMTU finds paths that drop long frames, although the interfaces of both ends permit them. The
// NIC has searched for the longest frame that arrives. The cure makes the interface permit only
// such frames.
func lookMTU(p *Patient) ([]Finding, error) {
	var holes []*hole
	for _, c := range p.checks() {
		n := p.node(&c)
		if c.OK || c.Cause != "" || n == nil || n.State != "up" || n.Narrow == 0 || n.Narrow >= n.WholeFrame {
			continue
		}
		at, err := netip.ParseAddrPort(n.Address)
		if err != nil {
			continue
		}
		name, _, err := p.Host.Route(at.Addr())
		if err != nil {
			return nil, err
		}
		mtu := n.Narrow + headers4
		if at.Addr().Unmap().Is6() {
			mtu = n.Narrow + headers6
		}
		i := slices.IndexFunc(holes, func(h *hole) bool { return h.name == name })
		if i < 0 {
			i, holes = len(holes), append(holes, &hole{name: name, mtu: mtu})
		}
		h := holes[i]
		h.mtu = min(h.mtu, mtu)
		h.nodes = append(h.nodes, fmt.Sprintf("%s (%d bytes of %d)", n.Address, n.Narrow, n.WholeFrame))
	}
	var found []Finding
	for _, h := range holes {
		found = append(found, p.narrow(h))
	}
	return found, nil
}

// hole is an interface behind which paths drop long frames.
type hole struct {
	name  string
	mtu   int // that the narrowest path carries
	nodes []string
}

// narrow returns the finding for a hole. It has no command if the interface would lose IPv6.
func (p *Patient) narrow(h *hole) Finding {
	f := Finding{
		What: "the path drops long frames that the MTU of " + h.name + " permits; it carries frames of at most: " +
			strings.Join(h.nodes, ", "),
		Cost: "TCP and other programs on this path may hang; Weft uses shorter frames, and searches for their " +
			"length again in each session",
		Mend: then(p.asRoot(fmt.Sprintf("ip link set dev %s mtu %d", quote(h.name), h.mtu)), p.restart("")),
		Note: note("the better cure is a larger MTU in the network between the hosts; "+
			"the command lasts until the next reboot", p.restartNote()),
	}
	if h.mtu < leastMTU6 {
		f.Mend = ""
		f.Note = fmt.Sprintf("the cure is a larger MTU in the network between the hosts; the path carries packets of "+
			"%d bytes, and an interface with an MTU below %d bytes has no IPv6", h.mtu, leastMTU6)
	}
	return f
}

// node returns the NIC of a check, or nil if the daemon has forgotten it.
func (p *Patient) node(c *ctl.Check) *ctl.Node {
	for i := range p.NIC.Nodes {
		if n := &p.NIC.Nodes[i]; n.Address == c.Address && n.ID == c.ID {
			return n
		}
	}
	return nil
}
