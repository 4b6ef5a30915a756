package doctor

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"

	"github.com/weftnet/weft/internal/ctl"
)

// lookFilter finds out why a NIC does not answer: a packet filter of this host, a host without a
// NIC, a host that is gone, or a filter elsewhere.
func lookFilter(p *Patient) ([]Finding, error) {
	silent, seeds := p.silent(), p.silentSeeds()
	if len(silent) == 0 {
		return append(seeds, p.unknownPeer()...), nil
	}
	f, err := p.filtered(silent)
	if f != nil {
		return append(seeds, *f), nil
	}
	if err != nil && !p.Host.Root() {
		err = fmt.Errorf("%w; `sudo weft doctor` can list the packet filter", err)
	}
	return append(seeds, p.unanswered(silent)...), err
}

// silentSeeds finds seeds that have not let this NIC join the gossip.
func (p *Patient) silentSeeds() (found []Finding) {
	for _, c := range p.checks() {
		if c.Cause == ctl.CauseSeed {
			found = append(found, Finding{
				What:  fmt.Sprintf("%s: %s", c.Address, c.Text),
				Cost:  "this NIC does not find the NICs that only the gossip names",
				Mend:  "weft doctor",
				Where: hostOf(c.Address),
				Note:  "start the daemon there with --gossip if none runs; UDP and TCP must reach its gossip port",
			})
		}
	}
	return found
}

// silent returns the addresses of the NICs whose frames do not arrive, except for those that this
// NIC refuses.
func (p *Patient) silent() (all []netip.AddrPort) {
	for _, c := range p.checks() {
		n := p.node(&c)
		if c.OK || c.Cause != "" || n == nil || n.State == "up" {
			continue
		}
		if at, err := netip.ParseAddrPort(c.Address); err == nil {
			all = append(all, at)
		}
	}
	return all
}

// unknownPeer finds a host whose NIC the daemon does not know, if the user asks about one.
func (p *Patient) unknownPeer() []Finding {
	if len(p.Peers) == 0 || p.NIC == nil || len(p.checks()) > 0 {
		return nil
	}
	f := Finding{
		What: fmt.Sprintf("the NIC of this host knows no NIC at %s", p.PeerName),
		Cost: "no process of this host reaches that host, unless the NIC there calls this one",
		Note: p.restartNote(),
	}
	if p.Setup.Service == "" {
		f.Mend = p.restartWith("", "--node", p.PeerName)
	} else {
		f.Note = note("add a [[node]] with this address to the configuration, and restart "+p.Setup.Service, f.Note)
	}
	return []Finding{f}
}

// filtered returns a finding if the packet filter of this host drops the frames of silent NICs. The
// frames of an AF_XDP link do not pass the filter.
func (p *Patient) filtered(silent []netip.AddrPort) (*Finding, error) {
	if !p.Host.Has("nft") || strings.HasPrefix(p.NIC.Info.Link, "xdp") {
		return nil, nil
	}
	text, err := p.Host.Output("nft", "-j", "list", "ruleset")
	if err != nil {
		return nil, err
	}
	rules, err := parseRuleset(text)
	if err != nil {
		return nil, err
	}
	var what, mend []string
	done := make(map[string]bool)
	for _, at := range silent {
		own := p.Setup.Listen.Port()
		_, from, err := p.Host.Route(at.Addr())
		inside := err == nil && from.WithZone("") == at.Addr().Unmap().WithZone("")
		for _, way := range []packet{
			{hook: "input", local: own, remote: at, inside: inside},
			{hook: "output", local: own, remote: at, inside: inside},
		} {
			for _, c := range rules.drops(&way) {
				insert := p.asRoot(words("nft", "insert", "rule", c.Family, c.Table, c.Name,
					"udp", way.ownField(), fmt.Sprint(own), "accept"))
				if !done[insert] {
					done[insert] = true
					what = append(what, fmt.Sprintf("%s %s %s (%s)", c.Family, c.Table, c.Name, way.hook))
					mend = append(mend, insert)
				}
			}
		}
	}
	if len(mend) == 0 {
		return nil, nil
	}
	return &Finding{
		What: fmt.Sprintf("the packet filter of this host drops the frames of the NIC, UDP port %d, in: %s",
			p.Setup.Listen.Port(), strings.Join(what, ", ")),
		Cost: fmt.Sprintf("this NIC cannot reach the NICs at %s: frames go one way at most", join(silent)),
		Mend: then(mend...),
		Note: "the rules last until the filter is loaded again: add them to its configuration, " +
			"such as /etc/nftables.conf",
	}, nil
}

// mostProbed bounds the silent NICs that are probed, since each takes up to probeWithin.
const mostProbed = 8

// unanswered describes silent NICs whose frames no filter of this host is certain to drop. Beyond
// mostProbed, one finding stands for all others.
func (p *Patient) unanswered(silent []netip.AddrPort) (found []Finding) {
	probed := min(len(silent), mostProbed)
	for _, at := range silent[:probed] {
		why := p.Host.Probe(at)
		f := Finding{
			Cost:  "no process of this host reaches that host",
			Mend:  "weft doctor",
			Where: at.Addr().String(),
		}
		switch {
		case errors.Is(why, syscall.ECONNREFUSED):
			f.What = fmt.Sprintf("the host of %v answers, and no NIC listens there", at)
			f.Mend = words("weft", "nic", "--node", p.ownNode(at))
			f.Note = "with the flags or the configuration that the NIC there had"
		case errors.Is(why, syscall.EHOSTUNREACH), errors.Is(why, syscall.ENETUNREACH):
			f.What = fmt.Sprintf("no frame reaches the host of %v: %v", at, why)
			f.Note = "the host is down, or has no route here: if it does not answer `ping`, repair the network first"
		case why != nil:
			f.What = fmt.Sprintf("frames for %v do not leave this host: %v", at, why)
		default:
			f.What = fmt.Sprintf("frames for %v leave this host, and none arrives from there; no rule of this host "+
				"that nft lists is certain to drop them", at)
			f.Note = "a filter there or on the way drops them, that host is down, or the NIC there refuses this one: " +
				"the command tells which, if that NIC knows this one"
		}
		found = append(found, f)
	}
	if rest := silent[probed:]; len(rest) > 0 {
		found = append(found, Finding{
			What: fmt.Sprintf("%d more NICs do not answer: %s", len(rest), join(rest)),
			Cost: "no process of this host reaches their hosts",
			Note: "`weft doctor --peer HOST` looks at one of them; `weft nodes remove` removes one that has left",
		})
	}
	return found
}

// ownAddress returns the address by which a peer calls this NIC.
func (p *Patient) ownAddress(peer netip.AddrPort) netip.AddrPort {
	own := p.Setup.Listen
	if own.Addr().IsUnspecified() {
		if _, from, err := p.Host.Route(peer.Addr()); err == nil {
			own = netip.AddrPortFrom(from, own.Port())
		}
	}
	return own
}

// ownNode returns this NIC for the list of nodes of a peer.
func (p *Patient) ownNode(peer netip.AddrPort) string {
	own := p.ownAddress(peer)
	if own.Port() == peer.Port() {
		return own.Addr().String()
	}
	return own.String()
}

// mostNamed bounds the addresses in one finding.
const mostNamed = 16

// join names addresses, and counts those beyond mostNamed.
func join(all []netip.AddrPort) string {
	var texts []string
	for _, a := range all[:min(len(all), mostNamed)] {
		texts = append(texts, a.String())
	}
	if more := len(all) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, ", ")
}
