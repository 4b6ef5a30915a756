package nic

import (
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nicid"
)

// Limits returns what is inconsistent: limits that the engine exceeds, and counts that differ from
// what they count. It is cheap enough to call from time to time during a run. Leaks checks more,
// on a NIC at rest.
func (e *Engine) Limits() error {
	e.begin()
	return errors.Join(e.auditQuotas(), e.auditDests(), e.auditWatches(), e.auditOrder(), e.auditRuns(),
		e.auditRelays(), e.grants.limits(e), e.names.Audit(), e.programs.Audit(), e.groups.Audit(), e.rel.Audit(e.now))
}

// auditQuotas checks the memory of unexpected messages. Each process stays within its quota, or
// one message beyond it for a filter. The staging in use is at most twice the sum of these
// accounts, since staging is allocated in powers of two.
func (e *Engine) auditQuotas() error {
	accounted := 0
	gaveUp := make(map[*peer]int)
	for p := range e.procs.all {
		quota := e.cfg.StagingBytes
		if p.judged {
			quota += int(stagedCost(limits.StagedMessage))
		}
		if p.staged < 0 || p.credited < 0 || p.staged+p.credited > quota {
			return fmt.Errorf("%v has %d bytes of staging and %d of credit in a quota of %d", p, p.staged,
				p.credited, quota)
		}
		sources := make(map[*credit]int, len(p.credits))
		for _, src := range p.sources {
			sources[src.credit]++
		}
		out, givenUp := uint64(0), 0
		for _, c := range p.credits {
			if gaveUp[c.pr] += c.givenUp.count(); p.gaveUp[c.pr] != c && c.givenUp.count() > 0 {
				return fmt.Errorf("%v: NIC %v has given up calls that no reply would find", p, nicid.ID(c.pr.nic))
			}
			if givenUp += c.givenUp.count(); c.givenUp.count() > limits.CallsGivenUp {
				return fmt.Errorf("%v: %d calls of NIC %v are noted as given up; expected at most %d", p,
					c.givenUp.count(), nicid.ID(c.pr.nic), limits.CallsGivenUp)
			}
			if c.sources != sources[c] {
				return fmt.Errorf("%v: %d processes of NIC %v are remembered, counted as %d", p, sources[c],
					nicid.ID(c.pr.nic), c.sources)
			}
			if c.handed-c.spent > c.out {
				return fmt.Errorf("%v: NIC %v has %d bytes of credit to spend, and %d are out", p,
					nicid.ID(c.pr.nic), c.handed-c.spent, c.out)
			}
			if c.out > uint64(max(e.cfg.InitialCreditBytes, 0)) {
				return fmt.Errorf("%v: NIC %v has %d bytes of its staging as credit, of %d that one NIC may have", p,
					nicid.ID(c.pr.nic), c.out, e.cfg.InitialCreditBytes)
			}
			if out += c.out; c.spent > c.handed || c.announced > c.handed {
				return fmt.Errorf("%v: NIC %v has spent %d bytes of credit and was told of %d, of %d", p,
					nicid.ID(c.pr.nic), c.spent, c.announced, c.handed)
			}
		}
		if givenUp != p.givenUp {
			return fmt.Errorf("%v: %d calls that were given up are counted as %d", p, givenUp, p.givenUp)
		}
		if out != uint64(p.credited) {
			return fmt.Errorf("%v: credits of %d bytes are counted as %d", p, out, p.credited)
		}
		if inb := p.unstaged.front(); inb != nil && p.served() && int(stagedCost(inb.length)) <= e.stagingLeft(p) {
			return fmt.Errorf("%v: a message of %d bytes waits for staging, and %d bytes are free", p,
				inb.length, e.stagingLeft(p))
		}
		if inb := e.overdrawer(p); inb != nil && p.served() {
			return fmt.Errorf("%v: a message of %d bytes waits to be judged, and a receive for it", p, inb.length)
		}
		if err := p.auditRings(); err != nil {
			return err
		}
		accounted += p.staged + p.credited
	}
	for _, pr := range e.peers.list {
		if pr.givenUp != gaveUp[pr] {
			return fmt.Errorf("NIC %v: %d calls that its processes gave up are counted as %d", nicid.ID(pr.nic),
				gaveUp[pr], pr.givenUp)
		}
	}
	if e.staging.inUse > 2*accounted {
		return fmt.Errorf("%d bytes of staging are in use, and %d are accounted for", e.staging.inUse, accounted)
	}
	return nil
}

// auditDests checks that the engine does not remember too much about receivers of its processes.
// It must not keep many to which no message has left. It must not keep a process of another NIC
// that has given no credit and to which no process of this NIC has sent.
func (e *Engine) auditDests() error {
	users := 0
	for p := range e.procs.all {
		if len(p.dests) > limits.Destinations || p.blanks.n > limits.BlankDestinations {
			return fmt.Errorf("%v has sent to %d processes, and knows nothing of %d but where they are", p,
				len(p.dests), p.blanks.n)
		}
		for _, d := range p.dests {
			if d.sends == 0 && d.blank() && d.node.in != &p.blanks {
				return fmt.Errorf("%v has sent no message to slot %d of NIC %v, and does not forget it", p,
					d.key.Slot, nicid.ID(d.key.NIC))
			}
			if d.peer != nil && d.peer.remotes[d.remote.key] == d.remote {
				users++
			}
		}
	}
	counted := 0
	for _, pr := range e.peers.list {
		for _, rm := range pr.remotes {
			if rm.unused() {
				return fmt.Errorf("slot %d of NIC %v is remembered, which no process has sent to", rm.key.slot,
					nicid.ID(pr.nic))
			}
			counted += rm.users
		}
	}
	if users != counted {
		return fmt.Errorf("%d users are counted of other NICs' processes, and there are %d", counted, users)
	}
	return nil
}

// auditWatches checks that each peer is probed if it owes bytes or an answer. Nothing else may be
// pending on it, and if the peer dies, the waiting operation must end (decision 7).
func (e *Engine) auditWatches() (err error) {
	for _, pr := range e.peers.list {
		pr.in.all(func(inb *inbound) {
			if due := inb.recv != nil || inb.limit > 0 || inb.kind != inboundRequest; due &&
				!inb.done && !inb.watch.Of(pr.ep) {
				err = fmt.Errorf(
					"%d of %d bytes of fragment %d have come from NIC %v, and nothing looks whether it lives", inb.got,
					inb.length, inb.id, nicid.ID(pr.nic))
			}
		})
		pr.serving.all(func(s *send) {
			if !s.watch.Of(pr.ep) {
				err = fmt.Errorf("a GET of NIC %v is answered, and nothing looks whether it lives", nicid.ID(pr.nic))
			}
		})
	}
	for p := range e.procs.all {
		for s := range p.underWay {
			if s.dest == nil || s.dest.peer == nil {
				continue
			}
			answer := s.state == sendPermission || s.state == sendPosted && s.released
			if pr := s.dest.peer; answer && !s.watch.Of(pr.ep) {
				err = fmt.Errorf("%v: a send waits for an answer of NIC %v, and nothing looks whether it lives",
					p, nicid.ID(pr.nic))
			}
		}
	}
	return err
}

// auditRelays checks what the relays of each peer take, and the messages to programs.
func (e *Engine) auditRelays() error {
	for _, pr := range e.peers.list {
		if err := errors.Join(pr.relays.Audit(), pr.programs.Audit()); err != nil {
			return err
		}
	}
	return nil
}
