package nic

import (
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
)

// rel looks after a peer only while something is pending on it. A NIC that dies while nobody wants anything of it would
// seem to be up for ever, and its names to lead somewhere; so the engine looks after the others, seldom:
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
func (e *Engine) lookAfter() clock.Time {
	d := e.cfg.FailureTimeout - e.cfg.UnreachableAfter - 4*e.cfg.ProbeEvery
	return clock.Time(max(d, e.cfg.ProbeEvery))
}

// checkLook begins to look at a peer, and ends it when the peer has been heard.
func (e *Engine) checkLook(pr *peer) {
	if !pr.ep.Up() || e.cfg.Defect == mutate.IdleUnattended {
		return
	}
	heard := pr.ep.Heard()
	switch {
	case pr.looked && heard > pr.lookedAt:
		e.lookAway(pr)
		e.checkAt(heard + e.lookAfter())
	case pr.looked:
		e.checkAt(e.now.Add(e.cfg.ProbeEvery))
	case heard+e.lookAfter() <= e.now:
		pr.looked, pr.lookedAt = true, e.now
		pr.ep.Watch(1)
		e.checkAt(e.now.Add(2 * e.cfg.ProbeEvery))
	default:
		e.checkAt(heard + e.lookAfter())
	}
}

// lookAway ends the look at a peer.
func (e *Engine) lookAway(pr *peer) {
	if pr.looked {
		pr.looked = false
		pr.ep.Watch(-1)
	}
}

// checkRetry opens a pair again that was lost, or has never been open. Each time that nobody answers, the next attempt
// waits twice as long.
func (e *Engine) checkRetry(pr *peer) {
	if !pr.added || pr.ep.Up() {
		return
	}
	if pr.retryAt <= e.now {
		pr.ep.Connect(e.now)
		pr.pause = min(max(2*pr.pause, limits.HelloEvery), limits.RetryAtMost)
		pr.retryAt = e.now.Add(e.cfg.UnreachableAfter + pr.pause) // Down comes first
	}
	e.checkAt(pr.retryAt)
}

// checkForget forgets a peer that has been down for long, unless the owner of this NIC has named it.
func (e *Engine) checkForget(pr *peer) {
	switch {
	case pr.named || !pr.failed || pr.ep.Up():
	case pr.forgetAt <= e.now:
		pr.added, pr.removed = false, true // forgetRemoved does the rest
	default:
		e.checkAt(pr.forgetAt)
	}
}

// tellable reports whether an address means the same to a NIC at another one: that of a host itself does only on that
// host, and one with a zone only on its link.
func tellable(a, to netip.Addr) bool {
	return !a.IsLoopback() && !a.IsLinkLocalUnicast() || a == to || a.IsLoopback() && to.IsLoopback()
}
