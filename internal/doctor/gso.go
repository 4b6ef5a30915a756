package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// lookGSO finds paths on which segmentation offload loses frames, although the kernel takes them.
// The NIC tests only the loopback of its own host, which no network card serves.
func lookGSO(p *Patient) (found []Finding, err error) {
	if p.NIC == nil || p.Setup.NoGSO || p.NIC.Info.Link != "udp" {
		return nil, nil
	}
	tried := make(map[netip.Addr]bool)
	for _, c := range p.checks() {
		at, err := netip.ParseAddrPort(c.Address)
		if !c.OK || err != nil || tried[at.Addr()] {
			continue
		}
		if len(tried) == mostTried {
			break
		}
		tried[at.Addr()] = true
		lost, err := p.Host.Offload(at.Addr())
		if err != nil {
			return found, fmt.Errorf("segmentation offload to %v: %w", at.Addr(), err)
		}
		if lost {
			found = append(found, p.withoutGSO(at.Addr()))
		}
	}
	return found, nil
}

// mostTried bounds the hosts that are tested for segmentation offload. Hosts on the same interface
// share the network card.
const mostTried = 3

// withoutGSO returns the finding for a path that loses batches.
func (p *Patient) withoutGSO(to netip.Addr) Finding {
	f := Finding{
		What: fmt.Sprintf("the system takes sends with segmentation offload for %v, and their datagrams do not "+
			"arrive; single ones do", to),
		Cost: "the first bursts to each peer are lost until the NIC detects the loss and sends frames one by one",
		Note: note("`gso = false` in the configuration does the same; a newer driver of the network card may be a "+
			"better cure", p.restartNote()),
	}
	if p.Setup.Service != "" || p.Setup.GSO {
		f.Note = note("write `gso = false` into the configuration, and restart the daemon", p.restartNote())
		return f
	}
	if !p.restarts() {
		return f
	}
	without := *p
	without.Setup.Env = slices.DeleteFunc(slices.Clone(p.Setup.Env), func(e string) bool {
		return strings.HasPrefix(e, "WEFT_GSO=")
	})
	f.Mend = "export WEFT_GSO=false && " + without.restart("")
	return f
}
