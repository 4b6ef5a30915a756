package names

import (
	"slices"
	"strings"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
)

// Package rel watches a peer only while something is pending on it. If a NIC dies while nothing
// is pending, it would seem to be up for ever, and its names to lead somewhere. So the table
// watches the others too, at long intervals:
//
//	up ── silent for lookAfter ──► looked at: asked whether it is there ── it answers ──► up
//	▲                                │ silent for UnreachableAfter more: its names lead nowhere,
//	│                                │ and after FailureTimeout of silence they are forgotten
//	│                                ▼
//	└──────── it comes back ─────── down ── for FailureTimeout, unnamed by the owner ──► forgotten
//	                                 │ ▲
//	                                 └─┘ one that the owner named is called again, ever less often

// lookAfter returns how long a peer may be silent before it is probed. A peer that does not
// answer is then down before it has been silent for FailureTimeout.
func (t *Table) lookAfter() clock.Time {
	d := t.cfg.FailureTimeout - t.cfg.UnreachableAfter - 4*t.cfg.ProbeEvery
	return clock.Time(max(d, t.cfg.ProbeEvery))
}

// checkLook begins to probe a silent peer, and stops when the peer has been heard.
func (t *Table) checkLook(p *Peer) {
	if !p.Up() || t.cfg.Defect == mutate.IdleUnattended {
		return
	}
	now, heard := t.nic.Now(), p.Heard()
	switch {
	case p.looked && heard > p.lookedAt:
		p.probe(&p.looked, false)
		t.nic.CheckAt(heard + t.lookAfter())
	case p.looked:
		t.nic.CheckAt(now.Add(t.cfg.ProbeEvery))
	case heard+t.lookAfter() <= now:
		p.lookedAt = now
		p.probe(&p.looked, true)
		t.nic.CheckAt(now.Add(2 * t.cfg.ProbeEvery))
	default:
		t.nic.CheckAt(heard + t.lookAfter())
	}
}

// doubt probes a peer because another NIC says hello with its id. If the peer does not answer, it
// has moved, and is admitted at its new address once the old one is given up.
func (t *Table) doubt(p *Peer) {
	p.probe(&p.doubted, true)
	p.doubtedTill = t.nic.Now().Add(t.cfg.UnreachableAfter + t.cfg.ProbeEvery)
	t.nic.CheckAt(p.doubtedTill)
}

// checkDoubt ends the doubt about a peer that has answered for long enough.
func (t *Table) checkDoubt(p *Peer) {
	switch {
	case !p.doubted:
	case p.doubtedTill <= t.nic.Now():
		p.probe(&p.doubted, false)
	default:
		t.nic.CheckAt(p.doubtedTill)
	}
}

// checkRetry reopens a pair that was lost, or has never been open. After each attempt without an
// answer it waits twice as long.
func (t *Table) checkRetry(p *Peer) {
	if !p.added || p.Up() {
		return
	}
	switch now := t.nic.Now(); {
	case p.retryAt <= now:
		if p.pause > 0 {
			t.turn(p)
		}
		p.Connect(now)
		p.pause = min(max(2*p.pause, limits.HelloEvery), limits.RetryAtMost)
		p.retryAt = now.Add(t.cfg.UnreachableAfter + p.pause) // Down comes first
		p.turnAt = now.Add(t.callTime())
	case p.turns > 0 && p.turnAt <= now:
		p.turns--
		t.turn(p)
		p.turnAt = now.Add(t.callTime())
	}
	t.nic.CheckAt(p.retryAt)
	if p.turns > 0 {
		t.nic.CheckAt(p.turnAt)
	}
}

// A NIC may be at one of several addresses. A name may have addresses of both families, and a NIC
// may listen at only one of them. Or the NIC was up at an address that was not named. The table
// tries the addresses in turn (RFC 8305 does so, too):
//
//	first attempt  Connect ── two Hellos ──► turn ── two Hellos ──► turn … the rest of the attempt
//	later attempts turn ── a whole attempt ──► a pause, ever longer ──► turn ── a whole attempt …
//
// So an address that does not answer delays the next one by half a second at most, and a slower
// path has all the time of an attempt. The search begins where the NIC was up: it may be back
// after a partition.

// turn moves the search for a peer to the next of its addresses at which no other NIC is.
func (t *Table) turn(p *Peer) {
	if !p.named {
		return
	}
	all := p.places
	if !slices.Contains(all, p.lastAt) {
		all = append(slices.Clone(all), p.lastAt)
	}
	i := slices.Index(all, p.Addr())
	for k := 1; k < len(all); k++ {
		to := all[(i+k)%len(all)]
		if slices.ContainsFunc(t.peers, func(other *Peer) bool { return other.Addr() == to }) {
			continue
		}
		if !slices.Contains(p.silentAt, p.Addr()) {
			p.silentAt = append(p.silentAt, p.Addr())
		}
		p.Move(t.nic.Now(), to)
		return
	}
}

// NoAnswerAt returns the addresses of the peer's host, except its current one, at which it has
// not answered since it was last up.
func (p *Peer) NoAnswerAt() string {
	var all []string
	for _, a := range p.silentAt {
		if a != p.Addr() {
			all = append(all, a.String())
		}
	}
	return strings.Join(all, ", ")
}

// checkForget forgets a peer that has been down for long, unless the owner of this NIC has named
// it.
func (t *Table) checkForget(p *Peer) {
	switch {
	case p.named || !p.failed || p.Up():
	case p.forgetAt <= t.nic.Now():
		p.added, p.removed = false, true // forgetRemoved does the rest
	default:
		t.nic.CheckAt(p.forgetAt)
	}
}
