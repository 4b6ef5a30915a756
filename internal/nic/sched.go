package nic

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// schedule hands out turns: round robin over the processes that have something to send, and within a process over its
// sends, one packet a turn (QNIX-35, QNIX-39). It stops when nobody can move or the poll's share of turns is used up. Who is alone
// takes as many turns at once as he has packets of one message.
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
		n := e.turn(s, e.inRow(p, limits.TurnsPerPoll-turns))
		turns += n
		p.account.Turns += uint64(n)
		if p.sched.front() == s {
			p.sched.rotate()
		}
		if p.sendNode.in != nil {
			e.sending.rotate()
		}
	}
	return turns
}

// inRow is how many of so many turns p may take at once with one of its sends: if nobody else has something to send, as many as make a
// batch of frames, and none that it would not get one by one; see crowds.
func (e *Engine) inRow(p *process, turns int) int {
	if e.sending.n > 1 || p.sched.n > 1 {
		return 1
	}
	return max(min(turns, limits.StageBytes/e.cfg.Link.MTU(), (e.rel.Vacancies()-p.rooms.Segments()+1)/2), 1)
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
