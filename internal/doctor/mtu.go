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

// lookMTU finds paths that drop long frames, although the interfaces of both ends permit them. The
// NIC has searched for the longest frame that arrives. The cure makes the interface permit only
// such frames.
func lookMTU(p *Patient) ([]Finding, error) {
	var holes []*hole
	for _, c := range p.checks() {
		n := p.node(&c)
		if c.OK || c.Cause != "" || n == nil || n.State != "up" || n.Frame == 0 || n.Frame >= n.WholeFrame {
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
		mtu := n.Frame + headers4
		if at.Addr().Unmap().Is6() {
			mtu = n.Frame + headers6
		}
		i := slices.IndexFunc(holes, func(h *hole) bool { return h.name == name })
		if i < 0 {
			i, holes = len(holes), append(holes, &hole{name: name, mtu: mtu})
		}
		h := holes[i]
		h.mtu = min(h.mtu, mtu)
		h.nodes = append(h.nodes, fmt.Sprintf("%s (%d bytes of %d)", n.Address, n.Frame, n.WholeFrame))
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

// narrow returns the finding for a hole.
func (p *Patient) narrow(h *hole) Finding {
	return Finding{
		What: "the path drops long frames that the MTU of " + h.name + " permits; it carries frames of at most: " +
			strings.Join(h.nodes, ", "),
		Cost: "TCP and other programs on this path may hang; Weft uses shorter frames, and searches for their " +
			"length again in each session",
		Mend: then(p.asRoot(fmt.Sprintf("ip link set dev %s mtu %d", quote(h.name), h.mtu)), p.restart("")),
		Note: note("the better cure is a larger MTU in the network between the hosts; "+
			"the command lasts until the next reboot", p.restartNote()),
	}
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
