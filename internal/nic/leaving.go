package nic

import (
	"slices"

	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// A process that leaves may leave behind what it was sent and never asked for: tens of thousands of messages, if it was
// flooded, and to let go of them takes a tenth of a second. That is the others' time, so each poll drops a few.
//
//	served ── Delete_Process, or its name is refused ──► gone ── nothing is left ──► forgotten: the command is answered
//	          its operations end, who waits for it          │                  ▲
//	          is told, its name vanishes from every NIC     └── DropsPerPoll ──┘

// vacate begins that. The driver command at this position, if there is one, is answered with r when
// the slot is free again.
func (e *Engine) vacate(p *process, at int, r driver.Result) {
	p.gone, p.leftAt, p.leftWith = true, at, r
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
	e.leaving.pushBack(&p.leaving)
	e.letGo(p) // first, so that who waits for an answer hears why there is none rather than that p has gone
	e.endName(p)
}

// stop ends all that a process has under way that is served no more, and touches the memory of it no more.
func (e *Engine) stop(p *process) {
	e.leaveAll(p)
	for i := range p.sends {
		if s := &p.sends[i]; s.state != sendIdle {
			e.abandonSend(s)
		}
	}
	e.dropReceives(p)
}

// runLeaving lets go of a little more of each process that leaves. It returns how many there were.
func (e *Engine) runLeaving() (n int) {
	n = e.leaving.n
	for range n {
		p := e.leaving.front()
		e.leaving.rotate()
		e.letGo(p)
	}
	return n
}

// letGo lets go of a little of what p leaves behind, and of p if that was all.
func (e *Engine) letGo(p *process) {
	atMost := limits.DropsPerPoll
	if e.closed { // there will be no more polls, and nobody waits for his turn
		atMost = p.stray.n
	}
	if !e.dropArrived(p, atMost) && e.cfg.Defect != mutate.LeftBehind {
		return
	}
	p.leaving.remove()
	e.forgetCredits(p)
	e.procs[p.slot] = nil
	if p.slot != 0 {
		e.registered--
	}
	if p.leftAt != noCommand {
		e.answer(p.leftAt, p.leftWith)
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
		e.freeInbound(inb)
	}
	if p.stray.n > 0 {
		return false
	}
	for _, src := range sorted(p.sources) {
		for inb := src.early.front(); inb != nil; inb = src.early.front() {
			e.refuseInbound(inb, wire.ReasonProcessGone)
			e.freeInbound(inb)
		}
	}
	return true
}
