package nic

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// schedule hands out turns: round robin over the processes that have something to send, and within a process over its
// sends, one packet a turn (QNIX-35, QNIX-39). It stops when nobody can move or the poll's share of turns is used up.
func (e *Engine) schedule() (turns int) {
	e.uncrowd()
	defer e.rel.Charge(nil)
	for turns < limits.TurnsPerPoll {
		e.drive()
		p := e.sending.front()
		if p == nil {
			return turns
		}
		if e.crowds(p) {
			continue
		}
		s := p.sched.front()
		if s == nil {
			p.sendNode.remove()
			continue
		}
		e.rel.Charge(&p.rooms)
		e.turn(s)
		turns++
		p.account.Turns++
		if p.sched.front() == s {
			p.sched.rotate()
		}
		if p.sendNode.in != nil {
			e.sending.rotate()
		}
	}
	return turns
}

// sendable puts p in line for turns.
func (e *Engine) sendable(p *process) {
	if p.sendNode.in == nil {
		e.sending.pushBack(&p.sendNode)
	}
}

// crowds takes p out of the turns if it has as many segments queued or under way as there are rooms left for everybody.
// So one process never gets more than half of all, however slow or dead its peers are; two get a third each, and n leave
// one part in n+1 to whoever comes next. Nobody who is alone is held up, as with a fixed share.
func (e *Engine) crowds(p *process) bool {
	if p.rooms.Segments() == 0 || p.rooms.Segments() < e.rel.Vacancies() {
		return false
	}
	p.account.Crowded++
	e.counts[vni.NICCrowded]++
	p.sendNode.remove()
	e.crowded.pushBack(&p.sendNode)
	return true
}

// uncrowd gives those their turns back who have become fewer.
func (e *Engine) uncrowd() {
	for n := e.crowded.n; n > 0; n-- {
		p := e.crowded.front()
		p.sendNode.remove()
		if p.rooms.Segments() < e.rel.Vacancies() {
			e.sending.pushBack(&p.sendNode)
		} else {
			e.crowded.pushBack(&p.sendNode)
		}
	}
}
