package nic

import (
	"fmt"

	"github.com/weftnet/weft/internal/nicid"
)

// Leaks returns what an engine still holds, given that its processes have no operation in progress
// and every message has been received. Tables, memory, permission and credit must be as they were
// at the start. The simulator calls it after every run.
func (e *Engine) Leaks() []string {
	e.begin()
	l := leaks{e: e}
	kept := 0
	for p := range e.procs.all {
		kept += p.stray.n
		l.process(p)
		l.memory(p)
	}
	for _, pr := range e.peers.list {
		l.peer(pr)
	}
	_, open := e.names.Len()
	l.unless(open == 0, "%d claims are open", open)
	l.unless(e.waiting.n == 0, "%d sends wait for names", e.waiting.n)
	l.unless(e.inbounds.InUse() == kept, "%d inbounds in use, %d messages waiting", e.inbounds.InUse(), kept)
	l.unless(kept > 0 || e.staging.inUse == 0, "%d bytes of staging in use", e.staging.inUse)
	l.unless(e.groups.Leaks() == nil, "%v", e.groups.Leaks())
	l.unless(e.transit.inUse == 0, "%d bytes in transit", e.transit.inUse)
	l.unless(e.multicasts.InUse() == 0 && e.copies.InUse() == 0 &&
		e.resumed.n == 0, "%d multicasts with %d copies, %d of them to go on",
		e.multicasts.InUse(), e.copies.InUse(), e.resumed.n)
	l.unless(e.transit.sends.InUse() == 0 && e.transit.kept == 0, "%d messages kept, of %d bytes",
		e.transit.sends.InUse(), e.transit.kept)
	l.unless(e.refills.InUse() == 0, "%d stretches of memory", e.refills.InUse())
	l.unless(e.relays.Leaks() == nil, "%v", e.relays.Leaks())
	l.unless(e.programs.Leaks() == nil, "%v", e.programs.Leaks())
	l.unless(e.serves.InUse() == 0, "%d GETs being answered", e.serves.InUse())
	l.unless(e.expiry.doomed.n == 0, "%d receives from processes that have gone", e.expiry.doomed.n)
	l.unless(e.grants.outstanding == 0 &&
		e.grants.waiting.n == 0, "permissions for %d bytes outstanding, %d waiting", e.grants.outstanding,
		e.grants.waiting.n)
	return l.found
}

// leaks collects the findings of Leaks.
type leaks struct {
	e     *Engine
	found []string
}

func (l *leaks) unless(ok bool, format string, args ...any) {
	if !ok {
		l.found = append(l.found, fmt.Sprintf("NIC %v: ", nicid.ID(l.e.cfg.ID))+fmt.Sprintf(format, args...))
	}
}

// process checks for operations.
func (l *leaks) process(p *process) {
	l.unless(p.sched.n == 0, "%v: %d sends scheduled", p, p.sched.n)
	l.unless(len(p.free) == len(p.copies) && p.held.n == 0, "%v: %d copies of multicasts, %d multicasts held",
		p, len(p.copies)-len(p.free), p.held.n)
	l.unless(p.rooms.Segments() == 0, "%v: %d segments of its sends", p, p.rooms.Segments())
	for i := range p.sends {
		l.unless(p.sends[i].state == sendIdle, "%v: send context %d in state %d", p, i, p.sends[i].state)
	}
	for r := range p.receives {
		l.unless(r.state == recvIdle, "%v: receive context %d in state %d", p, r.ctx, r.state)
	}
	for _, src := range sorted(p.sources) {
		if first := src.early.front(); first != nil {
			l.unless(false, "%v: %d envelopes of slot %d of NIC %v parked, the first %d, expected %d",
				p, src.early.n, src.key.slot, nicid.ID(src.nic), first.env.Number, src.expected)
		}
	}
}

// memory checks for staging and credit.
func (l *leaks) memory(p *process) {
	for _, c := range p.credits {
		l.unless(p.stray.n > 0 || c.out == c.handed-c.spent,
			"%v: credit of NIC %v: %d of quota, but %d unspent", p, nicid.ID(c.pr.nic), c.out, c.handed-c.spent)
		l.unless(c.voids == 0, "%v: %d numbers of withdrawn messages of NIC %v parked", p, c.voids, nicid.ID(c.pr.nic))
	}
	l.unless(p.stray.n >= p.unstaged.n, "%v: %d messages wait for staging, %d for receives", p, p.unstaged.n, p.stray.n)
	l.unless(p.stray.n > 0 || p.staged == 0, "%v: %d bytes staged, but no message waits", p, p.staged)
}

// peer checks for fragments and for waiting sends.
func (l *leaks) peer(pr *peer) {
	l.unless(pr.out.n == 0 && pr.in.n == 0 && pr.gets.n == 0 &&
		pr.serving.n == 0, "peer %v: fragments out %d, in %d, gets %d, serving %d",
		nicid.ID(pr.nic), pr.out.n, pr.in.n, pr.gets.n, pr.serving.n)
	l.unless(pr.granted == 0 && pr.writtenOff == 0,
		"peer %v: permissions for %d bytes, and for %d that are written off", nicid.ID(pr.nic), pr.granted,
		pr.writtenOff)
	l.unless(pr.relays.Leaks() == nil, "%v", pr.relays.Leaks())
	l.unless(pr.programs.Leaks() == nil, "%v", pr.programs.Leaks())
	l.unless(pr.blocked.n == 0, "peer %v: %d sends blocked", nicid.ID(pr.nic), pr.blocked.n)
	requests, waiting, long := 0, 0, 0
	for _, r := range pr.remotes {
		requests += r.requests
		long += r.long
		if waiting += r.waiting.n; r.admitted != nil {
			waiting++
		}
	}
	l.unless(requests == 0 && waiting == 0 &&
		long == 0, "peer %v: %d requests open, %d sends waiting for credit, %d long ones under way",
		nicid.ID(pr.nic), requests, waiting, long)
}
