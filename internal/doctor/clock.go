package doctor

import (
	"fmt"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/fabric"
)

// clockTolerance is the harmless difference of the clocks of two hosts: certificates count in
// seconds.
const clockTolerance = 2 * time.Second

// costOfClock is the cost of a wrong clock.
const costOfClock = "certificates and revocation lists count as expired or not yet valid, so NICs refuse one another"

// lookClock finds a wrong clock: the incarnation of a NIC is its start time, which cannot be in the
// future. It also finds certificates that are not valid now.
func lookClock(p *Patient) ([]Finding, error) {
	now := p.Host.Now()
	if n := p.NIC; n != nil {
		if f, off := p.future("the start of the daemon of this host", n.Info.Started, now); off {
			f.Note = note("the clock was set back after that start", f.Note)
			return []Finding{f}, nil
		}
		for _, node := range n.Nodes {
			what := fmt.Sprintf("the start of NIC %v at %s", node.ID, node.Address)
			if f, off := p.future(what, int64(node.Incarnation), now); off {
				f.Note = note("or the clock of that host was ahead when its daemon started: compare `date` on both",
					f.Note)
				return []Finding{f}, nil
			}
		}
	}
	found := p.refusedCertificates()
	own, err := p.ownCertificate(now)
	return append(found, own...), err
}

// future returns a finding if a time, in nanoseconds since 1970, is after now.
func (p *Patient) future(what string, at int64, now time.Time) (Finding, bool) {
	ahead := time.Unix(0, at).Sub(now)
	if ahead <= clockTolerance {
		return Finding{}, false
	}
	f := Finding{
		What: fmt.Sprintf("%s is %v in the future of this host's clock, which says %s", what,
			ahead.Round(time.Second), now.UTC().Format(time.RFC3339)),
		Cost: costOfClock,
	}
	f.Mend, f.Note = p.setClock()
	return f, true
}

// setClock returns the command that sets the clock by the time service that this host has.
func (p *Patient) setClock() (mend, note string) {
	switch {
	case p.Host.Has("chronyc"):
		return p.asRoot("chronyc makestep"), ""
	case p.Host.Has("timedatectl"):
		return p.asRoot("timedatectl set-ntp true"), "the clock is right when `timedatectl` calls it synchronized"
	}
	return "", "this host has neither chronyc nor timedatectl: install a time service such as chrony"
}

// refusedCertificates finds NICs that this one refuses because of the dates in their certificates.
func (p *Patient) refusedCertificates() (found []Finding) {
	for _, c := range p.checks() {
		if c.Cause != ctl.CauseCertificate {
			continue
		}
		f := Finding{
			What: fmt.Sprintf("%s: %s", c.Address, c.Text),
			Cost: "no process of this host reaches that NIC",
			Note: "if the clocks of both hosts are right, sign another certificate on the host of the authority",
		}
		f.Mend, _ = p.setClock()
		found = append(found, f)
	}
	return found
}

// ownCertificate finds a certificate of this NIC that is not valid now.
func (p *Patient) ownCertificate(now time.Time) ([]Finding, error) {
	if p.Setup.Certificate == "" {
		return nil, nil
	}
	c, err := fabric.ReadCertificate(p.Setup.Certificate)
	if err != nil {
		return nil, err
	}
	from, to := time.Unix(c.NotBefore, 0).UTC(), time.Unix(c.NotAfter, 0).UTC()
	f := Finding{Cost: "every NIC with the authority refuses this one"}
	switch says := now.UTC().Format(time.RFC3339); {
	case now.Before(from):
		f.What = fmt.Sprintf("the certificate %s is valid from %s on, and this host's clock says %s",
			p.Setup.Certificate, from.Format(time.RFC3339), says)
		f.Mend, f.Note = p.setClock()
	case !now.Before(to):
		f.What = fmt.Sprintf("the certificate %s has expired: it was valid until %s, and this host's clock says %s",
			p.Setup.Certificate, to.Format(time.RFC3339), says)
		f.Mend = words("weft", "fabric", "ca", "sign", c.Key.String())
		f.Where = "the host of the certificate authority"
		f.Note = "write its output to " + p.Setup.Certificate
	default:
		return nil, nil
	}
	return []Finding{f}, nil
}
