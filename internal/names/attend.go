package names

import (
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
)

// rel looks after a peer only while something is pending on it. A NIC that dies while nothing is would seem to be up for ever,
// and its names to lead somewhere; so the table looks after the others, seldom:
//
//	up ── silent for lookAfter ──► looked at: asked whether it is there ── it answers ──► up
//	▲                                        │ silent for UnreachableAfter more: its names lead nowhere,
//	│                                        │ and when it has been silent for FailureTimeout they are forgotten
//	│                                        ▼
//	└──────────────── it comes back ─────── down ── for FailureTimeout, and the owner did not name it ──► forgotten
//	                                         │ ▲
//	                                         └─┘ one that is to be there is called again, ever less often

// lookAfter is how long a peer may be silent before it is asked whether it is there: one that is not is down before it has
// been silent for FailureTimeout.
func (t *Table) lookAfter() clock.Time {
	d := t.cfg.FailureTimeout - t.cfg.UnreachableAfter - 4*t.cfg.ProbeEvery
	return clock.Time(max(d, t.cfg.ProbeEvery))
}

// checkLook begins to look at a peer, and ends it when the peer has been heard.
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

// doubt has a peer probed because another NIC says hello with its id: if it does not answer, it has moved, and is admitted at
// its new address once the old one is given up.
func (t *Table) doubt(p *Peer) {
	p.probe(&p.doubted, true)
	p.doubtedTill = t.nic.Now().Add(t.cfg.UnreachableAfter + t.cfg.ProbeEvery)
	t.nic.CheckAt(p.doubtedTill)
}

// checkDoubt trusts a peer again that has answered for long enough.
func (t *Table) checkDoubt(p *Peer) {
	switch {
	case !p.doubted:
	case p.doubtedTill <= t.nic.Now():
		p.probe(&p.doubted, false)
	default:
		t.nic.CheckAt(p.doubtedTill)
	}
}

// checkRetry opens a pair again that was lost, or has never been open. After each attempt without an answer the next one
// waits twice as long.
func (t *Table) checkRetry(p *Peer) {
	if !p.added || p.Up() {
		return
	}
	if now := t.nic.Now(); p.retryAt <= now {
		if p.pause > 0 {
			t.turn(p)
		}
		p.Connect(now)
		p.pause = min(max(2*p.pause, limits.HelloEvery), limits.RetryAtMost)
		p.retryAt = now.Add(t.cfg.UnreachableAfter + p.pause) // Down comes first
	}
	t.nic.CheckAt(p.retryAt)
}

// turn has a peer that was named at one place and was up since at another looked for at the other one of the two, unless another NIC is
// there. It begins where it was up. What was elsewhere for a while, or seemed to be, may be back, and know no NIC that it could call.
func (t *Table) turn(p *Peer) {
	to := p.namedAt
	if p.Addr() == to {
		to = p.lastAt
	}
	if !p.named || to == p.Addr() || slices.ContainsFunc(t.peers, func(other *Peer) bool { return other.Addr() == to }) {
		return
	}
	_, _ = t.nic.Open(p.NIC(), to) // it is known, and not up, so that this cannot fail
}

// checkForget forgets a peer that has been down for long, unless the owner of this NIC has named it.
func (t *Table) checkForget(p *Peer) {
	switch {
	case p.named || !p.failed || p.Up():
	case p.forgetAt <= t.nic.Now():
		p.added, p.removed = false, true // forgetRemoved does the rest
	default:
		t.nic.CheckAt(p.forgetAt)
	}
}
