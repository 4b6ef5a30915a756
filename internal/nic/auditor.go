package nic

import (
	"fmt"
	"maps"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/vni"
)

// Auditor judges an engine poll by poll: it checks that everything that waits is served in its
// turn and in time. Limits checks one state. An Auditor checks what became of the state before.
type Auditor struct {
	e        *Engine
	patience time.Duration // a recalled credit must be returned within this time
	now      clock.Time
	held     uint64 // NICRequestsHeld at the last look
	lines    map[*process]line
	waits    map[*remote]wait
	lent     map[*credit]time.Duration // credits that are recalled, and for how long
	// Rings that are aside though all their messages were read, and for how long.
	aside map[*msgRing]time.Duration
}

// line holds the message at the head of the line for the staging of its process, and the credit
// given out by then.
type line struct {
	first   *inbound
	number  uint32
	handed  uint64
	lenders int
}

// wait holds the send at the head of those that wait for credit, and the credit used by then.
type wait struct {
	first *send
	token uint32
	used  uint64
}

// NewAuditor returns an auditor of e.
func NewAuditor(e *Engine, patience time.Duration) *Auditor {
	return &Auditor{e: e, patience: patience, lines: map[*process]line{}, waits: map[*remote]wait{},
		lent: map[*credit]time.Duration{}, aside: map[*msgRing]time.Duration{}}
}

// longestStep limits how much time between two looks counts as time in which the NIC was at work.
const longestStep = 10 * time.Millisecond

// Poll judges the engine's last poll.
func (a *Auditor) Poll() error {
	step := min(a.e.now.Sub(a.now), longestStep)
	a.now = a.e.now
	for p := range a.e.procs.all {
		if err := a.line(p); err != nil {
			return err
		}
		if err := a.credits(p, step); err != nil {
			return err
		}
		if err := a.rings(p, step); err != nil {
			return err
		}
		if err := unmatched(p); err != nil {
			return err
		}
	}
	return a.remotes()
}

// mostUnmatched is the number of waiting messages that unmatched looks at.
const mostUnmatched = 32

// unmatched checks that no message waits for a receive while a receive that takes it is posted. A
// later message would overtake it.
func unmatched(p *process) error {
	n := 0
	for inb := range p.stray.all {
		if r := p.findPosted(inb.src, &inb.env); r != nil && r.takes(inb) {
			return fmt.Errorf("%v: message %d of slot %d waits for a receive, and one is posted that takes it",
				p, inb.env.Number, inb.env.SrcSlot)
		}
		if n++; n == mostUnmatched {
			break
		}
	}
	return nil
}

// asidePatience is the time from when a process has read a whole ring until its Refill must be
// read. The process posts the Refill at once.
const asidePatience = 2 * longestStep

// rings checks that the contents of each ring have been shown to its process, and that a ring is
// posted again after it was read.
func (a *Auditor) rings(p *process, step time.Duration) error {
	if !p.served() {
		return nil
	}
	for _, r := range p.ringed {
		rg := r.ring
		switch {
		case rg.w.Unpublished() > 0 && rg.fresh:
			return fmt.Errorf("%v: %d bytes in a ring are not shown to it", p, rg.w.Unpublished())
		case r.state == recvAside && rg.w.AllRead() && !r.coming():
			if a.aside[rg] += step; a.aside[rg] > asidePatience {
				return fmt.Errorf("%v: a ring of it that was read has stood aside for %v", p, a.aside[rg])
			}
		default:
			delete(a.aside, rg)
		}
	}
	return nil
}

// line checks that no credit was given out while a message waited for staging.
func (a *Auditor) line(p *process) error {
	first := p.unstaged.front()
	if first == nil {
		delete(a.lines, p)
		return nil
	}
	now := line{first: first, number: first.env.Number, lenders: len(p.credits)}
	for _, c := range p.credits {
		now.handed += c.handed
	}
	before, ok := a.lines[p]
	a.lines[p] = now
	if ok && before.first == now.first && before.number == now.number && before.lenders == now.lenders &&
		now.handed > before.handed {
		return fmt.Errorf("%v: %d bytes of credit were handed out while message %d of NIC %v waits for staging",
			p, now.handed-before.handed, first.env.Number, nicid.ID(first.src.nic))
	}
	return nil
}

// credits checks that recalled credit is returned.
func (a *Auditor) credits(p *process, step time.Duration) error {
	for _, c := range p.credits {
		if !c.recalled || c.handed == c.spent || !c.pr.ep.Up() {
			delete(a.lent, c)
			continue
		}
		if a.lent[c] += step; a.lent[c] > a.patience {
			return fmt.Errorf("%v: %d bytes of credit of NIC %v are recalled, and have not come back for %v", p,
				c.handed-c.spent, nicid.ID(c.pr.nic), a.lent[c])
		}
	}
	return nil
}

// remotes checks that no send has used credit while an older send waits for credit.
func (a *Auditor) remotes() error {
	held := a.e.counts[vni.NICRequestsHeld]
	if held == a.held && len(a.waits) == 0 {
		return nil
	}
	a.held = held
	for _, pr := range a.e.peers.list {
		for _, rm := range pr.remotes {
			first := rm.waiting.front()
			if first == nil {
				continue
			}
			now := wait{first, first.env.Token, rm.used - rm.returned}
			before, ok := a.waits[rm]
			a.waits[rm] = now
			used := now.used - before.used
			switch {
			case ok && before.first == now.first && before.token == now.token && now.used > before.used &&
				first.goesOnCredit(rm.credit()+used):
				return fmt.Errorf(
					"%d bytes of credit for slot %d of NIC %v were used while an older send of %v waits for as much",
					used, rm.key.slot, nicid.ID(pr.nic), first.p)
			case rm.admitted == nil && a.e.first(rm) != nil:
				return fmt.Errorf("a send of %v to slot %d of NIC %v waits for credit, and there is some",
					first.p, rm.key.slot, pr.nic)
			}
		}
	}
	maps.DeleteFunc(a.waits, func(rm *remote, _ wait) bool { return rm.waiting.n == 0 })
	return nil
}

// auditOrder checks that each parked message has a reason to be parked, and a turn that will come.
// Its number is unique and not before the expected one. If the first parked message is the
// expected one, it waits for bytes that are on their way, or for room for them.
func (e *Engine) auditOrder() error {
	for p := range e.procs.all {
		for _, src := range p.sources {
			next := src.expected
			for inb := range src.early.all {
				if int32(inb.env.Number-next) < 0 {
					return fmt.Errorf("%v: message %d of slot %d of NIC %v is parked, and none before %d is due", p,
						inb.env.Number, src.key.slot, nicid.ID(src.nic), next)
				}
				next = inb.env.Number + 1
			}
			first := src.early.front()
			if first == nil || !src.named || first.env.Number != src.expected {
				continue
			}
			switch {
			case !first.lacksBytes():
				return fmt.Errorf("%v: message %d of slot %d of NIC %v is parked, and is the one expected", p,
					src.expected, src.key.slot, nicid.ID(src.nic))
			case first.grant.in == nil && first.staging == nil && p.served():
				return fmt.Errorf(
					"%v: message %d of slot %d of NIC %v waits to be judged, and its bytes have no place", p,
					src.expected, src.key.slot, nicid.ID(src.nic))
			}
		}
	}
	return nil
}
