package nic

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
)

// schedule gives turns: round robin over the processes that have something to send, and within a
// process over its sends, one packet a turn (QNIX-35, QNIX-39). It stops when no send can move, or
// when the poll's share of turns is used up. If only one process has a send, it takes several
// turns at once for the packets of one message.
func (e *Engine) schedule() (turns int) {
	e.turns.uncrowd(e.rel)
	defer e.rel.Charge(nil)
	for turns < limits.TurnsPerPoll {
		e.drive()
		p := e.turns.ready.front()
		if p == nil {
			return turns
		}
		if e.turns.crowds(p, e.rel) {
			e.counts[vni.NICCrowded]++
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
			e.turns.ready.rotate()
		}
	}
	return turns
}

// turns is the first level of the round robin (QNIX-35): the processes that have something to
// send. Each is in one of the lists.
type turns struct {
	ready   list[process]
	crowded list[process] // processes with as many rooms as are left
}

// join puts p in line for turns.
func (t *turns) join(p *process) {
	if p.sendNode.in == nil {
		t.ready.pushBack(&p.sendNode)
	}
}

// alone reports whether no other process has something to send, and p has only one such send.
func (t *turns) alone(p *process) bool { return t.ready.n == 1 && p.sched.n == 1 }

// crowds takes p out of the turns if it has as many segments queued or in flight as there are
// rooms left for all processes. It reports whether it did.
func (t *turns) crowds(p *process, rooms *rel.Module) bool {
	if rooms.Shares(&p.rooms) {
		return false
	}
	p.account.Crowded++
	p.sendNode.remove()
	t.crowded.pushBack(&p.sendNode)
	return true
}

// uncrowd gives turns again to the crowded processes that now have fewer segments than there are
// rooms left.
func (t *turns) uncrowd(rooms *rel.Module) {
	for n := t.crowded.n; n > 0; n-- {
		p := t.crowded.front()
		p.sendNode.remove()
		if rooms.Shares(&p.rooms) {
			t.ready.pushBack(&p.sendNode)
		} else {
			t.crowded.pushBack(&p.sendNode)
		}
	}
}

// inRow returns how many of most turns p may take at once with one of its sends. If p is alone,
// that is as many as make a batch of frames, but no more than it would get one by one; see crowds.
func (e *Engine) inRow(p *process, most int) int {
	if !e.turns.alone(p) {
		return 1
	}
	return max(min(most, limits.StageBytes/e.cfg.Link.MTU(), (e.rel.Vacancies()-p.rooms.Segments()+1)/2), 1)
}
