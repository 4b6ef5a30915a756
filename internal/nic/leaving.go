package nic

import (
	"slices"

	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A process that leaves may leave behind unexpected messages: tens of thousands, if it was
// flooded. To free them takes a tenth of a second, which other processes would lose. So each poll
// drops a few.
//
//	served ── Delete_Process, or name refused ──► gone ── nothing is left ──► forgotten: answered
//	          its operations end, its waiters        │                  ▲
//	          are told, its name leaves every NIC    └── DropsPerPoll ──┘
//	                                                     ForgottenPerPoll
//
// Both of its driver commands may wait for that: a driver that withdraws a registration does not
// know that it is being refused at the same time.

// vacate starts to remove p. why is the answer to its New_Process, if p has not been taken in.
func (e *Engine) vacate(p *process, why error) {
	p.gone, p.refused = true, why
	e.stop(p)
	for _, r := range p.regions {
		if r != nil {
			e.closeRegion(r)
		}
	}
	p.node.remove()
	p.sendNode.remove()
	p.resumeNode.remove()
	e.detached = slices.DeleteFunc(e.detached, func(d Detached) bool { return d.Slot == p.slot })
	e.procs.nameless = slices.DeleteFunc(e.procs.nameless, func(n Nameless) bool { return n.Slot == p.slot })
	e.leaving.pushBack(&p.leaving)
	// First, so that those that wait for an answer get the reason rather than the news that p has
	// gone.
	e.letGo(p)
	e.names.End(e.addressOf(p))
}

// stop ends all operations of a process that is no longer served, and stops touching its memory.
func (e *Engine) stop(p *process) {
	e.groups.Gone(&p.groups)
	for i := range p.sends {
		if s := &p.sends[i]; s.state != sendIdle {
			e.abandonSend(s, wire.ReasonProcessGone, vni.StatusClosed)
		}
	}
	e.dropReceives(p)
}

// runLeaving frees a little more of what the leaving processes have left behind. Each poll serves
// one process: otherwise a program that ends with all its processes would still keep the others
// waiting. It returns the number of turns.
func (e *Engine) runLeaving() (turns int) {
	turns = min(e.leaving.n, 1)
	if e.closed {
		turns = e.leaving.n
	}
	for range turns {
		p := e.leaving.front()
		e.leaving.rotate()
		e.letGo(p)
	}
	return turns
}

// letGo frees a little of what p leaves behind, and p itself if that was all.
func (e *Engine) letGo(p *process) {
	messages, dests := limits.DropsPerPoll, limits.ForgottenPerPoll
	if e.closed { // there will be no more polls, and no process waits for its turn
		messages, dests = p.stray.n, len(p.dests)
	}
	dropped, forgotten := e.dropArrived(p, messages), e.forgetDests(p, dests)
	if !(dropped && forgotten) && e.cfg.Defect != mutate.LeftBehind {
		return
	}
	p.leaving.remove()
	for _, c := range p.credits {
		p.forgetAllGivenUp(c)
	}
	p.credits, p.credited = nil, 0
	e.procs.remove(p)
	e.answerNew(p, driver.Result{Err: p.refused})
	if p.deleteAt != noCommand {
		e.answer(p.deleteAt, driver.Result{})
	}
}

// dropArrived refuses up to atMost of the messages for a leaving process that have met no receive.
// It reports whether those were all. Parked messages go with the last of them: rel's window bounds
// their number.
func (e *Engine) dropArrived(p *process, atMost int) (all bool) {
	for range atMost {
		inb := p.stray.front()
		if inb == nil {
			break
		}
		e.refuseInbound(inb, wire.ReasonProcessGone)
	}
	if p.stray.n > 0 {
		return false
	}
	for _, src := range sorted(p.sources) {
		for inb := src.early.front(); inb != nil; inb = src.early.front() {
			e.refuseInbound(inb, wire.ReasonProcessGone)
		}
	}
	return true
}
