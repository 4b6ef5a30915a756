package nic

import (
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/limits"
)

// Limits says what does not add up: limits that the engine does not keep, and accounts that differ from what they count.
// It is cheap enough to be asked now and then during a run. Leaks asks more, of a NIC at rest.
func (e *Engine) Limits() error {
	e.catchUp()
	return errors.Join(e.auditQuotas(), e.auditRelays(), e.grants.limits(e), e.names.audit(), e.auditHomes(), e.groups.limits(), e.rel.Gaps(), e.rel.Paths())
}

// auditQuotas looks at what messages that nobody has asked for may take: for each process within its quota, and together
// no less than what they do take. Staging comes in powers of two, so that may be twice what is accounted for.
func (e *Engine) auditQuotas() error {
	accounted := 0
	for _, p := range e.procs {
		if p == nil {
			continue
		}
		if p.staged < 0 || p.credited < 0 || p.staged+p.credited > e.cfg.StagingBytes {
			return fmt.Errorf("%v has %d bytes of staging and %d of credit in a quota of %d", p, p.staged, p.credited, e.cfg.StagingBytes)
		}
		out := uint64(0)
		for _, c := range p.credits {
			if out += c.out; c.spent > c.handed || c.announced > c.handed {
				return fmt.Errorf("%v: NIC %d has spent %d bytes of credit and was told of %d, of %d", p, c.pr.nic, c.spent, c.announced, c.handed)
			}
		}
		if out != uint64(p.credited) {
			return fmt.Errorf("%v: credits of %d bytes are counted as %d", p, out, p.credited)
		}
		if inb := p.unstaged.front(); inb != nil && p.served() && int(stagedCost(inb.length)) <= e.stagingLeft(p) {
			return fmt.Errorf("%v: a message of %d bytes waits for staging, and %d bytes are free", p, inb.length, e.stagingLeft(p))
		}
		accounted += p.staged + p.credited
	}
	if e.staging.inUse > 2*accounted {
		return fmt.Errorf("%d bytes of staging are in use, and %d are accounted for", e.staging.inUse, accounted)
	}
	return nil
}

// auditRelays looks at what the relays of each peer take.
func (e *Engine) auditRelays() error {
	for _, pr := range e.nodes.list {
		if max(pr.relayed, pr.assembling) > limits.RelayBytes || min(pr.relayed, pr.assembling) < 0 {
			return fmt.Errorf("peer %d has relays for %d bytes to answer and %d coming, at most %d", pr.nic, pr.relayed, pr.assembling, limits.RelayBytes)
		}
	}
	return nil
}

// audit looks whether the parts of the name table agree.
func (t *nameTable) audit() error {
	count := make(map[uint64]int)
	for _, n := range t.all {
		switch {
		case n.out:
			continue
		case t.byAddr[n.address] != n:
			return fmt.Errorf("%v at slot %d of NIC %d is not found by its address", n.name, n.slot, n.nic)
		case n.live() && t.byName[n.name] == nil:
			return fmt.Errorf("%v at slot %d of NIC %d is not found by its name", n.name, n.slot, n.nic)
		}
		count[n.nic]++
	}
	for name, n := range t.byName {
		if n.out || n.dead || n.state != claimHeld || n.name != name {
			return fmt.Errorf("%v leads to slot %d of NIC %d, which does not have it", name, n.slot, n.nic)
		}
	}
	for nic, n := range count {
		if t.count[nic] != n || n > limits.NamesPerNIC {
			return fmt.Errorf("NIC %d has %d names, counted as %d", nic, n, t.count[nic])
		}
	}
	for _, n := range t.open {
		if !n.out && !n.dead && n.state != claimWaiting && n.state != claimAsked {
			return fmt.Errorf("the claim of slot %d of NIC %d to %v is open, and decided", n.slot, n.nic, n.name)
		}
	}
	return nil
}
