package nic

import (
	"slices"

	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A process that leaves may leave behind what it was sent and never asked for: tens of thousands of messages, if it was
// flooded, and to let go of them takes a tenth of a second. That is the others' time, so each poll drops a few.
//
//	served ── Delete_Process, or its name is refused ──► gone ── nothing is left ──► forgotten: its commands are answered
//	          its operations end, what waits for it         │                  ▲
//	          is told, its name vanishes from every NIC     └── DropsPerPoll ──┘
//	                                                            ForgottenPerPoll
//
// Both of its driver commands may wait for that: a driver that withdraws a registration does not know that it is refused just now.

// vacate begins that. why is what its New_Process is answered with, if it has not been taken in.
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
	e.letGo(p) // first, so that those that wait for an answer hear why there is none rather than that p has gone
	e.names.End(e.addressOf(p))
}

// stop ends all that a process has under way that is served no more, and touches the memory of it no more.
func (e *Engine) stop(p *process) {
	e.groups.Gone(&p.groups)
	for i := range p.sends {
		if s := &p.sends[i]; s.state != sendIdle {
			e.abandonSend(s, wire.ReasonProcessGone, vni.StatusClosed)
		}
	}
	e.dropReceives(p)
}

// runLeaving lets go of a little more of what those that leave leave behind: each poll of another's, or a program that ends with
// all its processes would keep the others waiting after all. It returns how many had a turn.
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

// letGo lets go of a little of what p leaves behind, and of p if that was all.
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

// dropArrived refuses up to so many of the messages that have come for a process that goes and have met no receive. It returns
// whether those were all. What has come out of its turn goes with the last of them: rel's window bounds it.
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
