package nic

import "github.com/weftnet/weft/internal/limits"

// schedule hands out turns: round robin over the processes that have something to send, and within a process over its
// sends, one packet a turn (QNIX-35, QNIX-39). It stops when nobody can move or the poll's share of turns is used up.
func (e *Engine) schedule() (turns int) {
	for turns < limits.TurnsPerPoll {
		e.drive()
		p := e.sending.front()
		if p == nil {
			return turns
		}
		s := p.sched.front()
		if s == nil {
			p.sendNode.remove()
			continue
		}
		e.turn(s)
		turns++
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
