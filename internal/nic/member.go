package nic

import (
	"fmt"
	"slices"

	"github.com/weftnet/weft/internal/vni"
)

// A member is a process of this NIC in a group.
//
//	 join                 all seats taken, operation 0        a member goes            leave
//	──────► joining ────────────────────────────────► open ──────────────► broken ──────────────► leaving ──► (forgotten)
//	           └────────────── another size, another idea of who is a member ─────────────────────────▲
//
// A member that is leaving is still known, since its NIC may have to pass on what came before.
type memberState uint8

const (
	memberJoining memberState = iota
	memberOpen
	memberBroken
)

type member struct {
	p     *process // nil once it is leaving
	g     *group
	own   seat
	state memberState
	left  bool
	rank  int
	join  *send  // until it is complete
	base  *group // that it shrinks; nil else

	branches map[int]*branch // its place in the trees of some roots

	next  uint32 // number of its process's next operation
	ops   map[uint32]*coll
	dead  int    // rank of the member that broke the group
	last  uint32 // of a broken group: later operations are over
	over  bool   // and so are all others
	wrong bool   // broken by a disagreement, not an end

	inTransit int        // bytes held for others
	staged    int        // bytes held for its process
	stagedOps int        // operations that they belong to
	waiting   list[coll] // operations that need transit memory
}

// startCollective takes a command about a group.
func (e *Engine) startCollective(p *process, s *send, c vni.Command) {
	var sc vni.SendContext
	if !e.loadSend(p, s, c.Code, &sc) {
		return
	}
	s.kind, s.dest, s.state = kindCollective, nil, sendPosted
	s.accept = false
	if err := e.gather(s, &sc); err != nil {
		e.rejectSend(s, err)
		return
	}
	if c.Code == vni.CodeJoinGroup {
		e.join(s, &sc, c)
		return
	}
	m := p.member(c.Group)
	switch {
	case m == nil || m.state == memberJoining:
		e.failGroupOp(s, vni.StatusNoGroup, nil)
	case c.Code == vni.CodeLeave:
		e.leave(m)
		e.completeSend(s, vni.StatusOK)
	case m.ended(m.next):
		e.failGroupOp(s, m.brokenStatus(), m)
	case c.Code == vni.CodeBarrier && int(c.Size) != len(m.g.seats):
		e.failGroupOp(s, vni.StatusGroupSize, nil)
	default:
		e.enterColl(m, s, &sc, c.Code)
	}
}

// member finds a membership of the process by the number that its NIC gave it.
func (p *process) member(number uint32) *member {
	for _, m := range p.members {
		if m.own.number == number {
			return m
		}
	}
	return nil
}

// ended reports whether an operation cannot be done any more, since a member has gone that has not done it.
func (m *member) ended(number uint32) bool {
	return m.state == memberBroken && (m.over || int32(number-m.last) > 0)
}

// brokenStatus is what an operation of a broken group fails with.
func (m *member) brokenStatus() vni.Status {
	if m.wrong {
		return vni.StatusGroupMismatch
	}
	return vni.StatusGroupBroken
}

// failGroupOp ends an operation that cannot be done. With m, its process is told who has gone.
func (e *Engine) failGroupOp(s *send, status vni.Status, m *member) {
	e.counts[vni.NICCollectivesFailed]++
	if status == vni.StatusNoGroup || status == vni.StatusGroupSize || status == vni.StatusGroupJoined {
		p := s.p
		e.endSend(s, &vni.Completion{Status: status})
		e.badArgument(p, fmt.Errorf("group operation: %v", status))
		return
	}
	c := vni.Completion{Status: status}
	if m != nil {
		c.Tag = uint64(m.dead)
		if m.dead < len(m.g.seats) {
			d := &m.g.seats[m.dead]
			c.NIC, c.Slot, c.Gen = d.nic, d.slot, d.gen
		}
	}
	e.endSend(s, &c)
}

// finished is the number of the last operation up to which m has completed all.
func (m *member) finished() uint32 {
	last := m.next - 1
	for n, c := range m.ops { // the least of them, whatever the order
		if c.entered && c.s != nil && int32(n-1-last) < 0 {
			last = n - 1
		}
	}
	return last
}

// leave ends a membership.
func (e *Engine) leave(m *member) { e.leaveAfter(m, m.finished()) }

// leaveAfter ends a membership. The others' operations later than last fail.
func (e *Engine) leaveAfter(m *member, last uint32) {
	if m.left {
		return
	}
	m.left = true
	e.spreadSeat(tableLeave, m, last)
	if p := m.p; p != nil {
		p.members = slices.DeleteFunc(p.members, func(o *member) bool { return o == m })
		m.p = nil
	}
	if i := m.g.rankOf(m); i >= 0 {
		e.loseSeat(m.g, i, last, false)
	}
	e.breakMember(m, max(m.rank, 0), last, m.state == memberJoining)
	e.retire(m)
}

// leaveAll ends the memberships of a process that goes. Its operations end with it.
func (e *Engine) leaveAll(p *process) {
	for len(p.members) > 0 {
		m := p.members[len(p.members)-1]
		s, last := e.takeJoin(m)
		if s != nil {
			e.completeSend(s, vni.StatusClosed)
		}
		e.leaveAfter(m, last)
	}
}

// retire forgets a member that has left, once nobody needs its NIC for what came before.
func (e *Engine) retire(m *member) {
	if !m.left || len(m.ops) > 0 {
		return
	}
	delete(e.groups.members, m.own.number)
	m.g.local = slices.DeleteFunc(m.g.local, func(o *member) bool { return o == m })
	e.groups.forget(m.g)
}

// breakMember ends the operations of m that can no longer complete: those after last, or all. rank is who has gone.
func (e *Engine) breakMember(m *member, rank int, last uint32, all bool) {
	if m.join != nil && m.g.complete && (all || int32(last) < 0) { // one who has gone after its own join owes ours nothing
		m.dead = rank
		e.endJoin(m, vni.StatusGroupBroken)
		return
	}
	if m.state != memberBroken {
		m.state, m.dead, m.last = memberBroken, rank, last
	}
	if int32(last-m.last) < 0 {
		m.last = last
	}
	m.over = m.over || all
	for _, n := range sortedOps(m.ops) {
		c := m.ops[n]
		if !m.ended(n) {
			continue
		}
		if s := c.s; s != nil {
			c.s = nil
			e.watchColl(c, -1)
			e.failGroupOp(s, m.brokenStatus(), m)
		}
		e.freeColl(c)
	}
	e.retire(m)
}

// mismatch breaks the group because its members do different things.
func (e *Engine) mismatch(m *member) {
	if m.state != memberBroken {
		m.wrong = true
	}
	for i := range m.g.seats {
		if s := &m.g.seats[i]; !s.gone && !(s.nic == e.cfg.ID && s.number == m.own.number) {
			e.signal(m, i, 0, signalMismatch, 0, m.g.sum)
		}
	}
	e.disagreed(m)
}

// disagreed takes it that the members of a group do not agree.
func (e *Engine) disagreed(m *member) {
	if m.join != nil {
		e.endJoin(m, vni.StatusGroupMismatch)
		return
	}
	if m.state != memberBroken {
		m.wrong = true
	}
	e.breakMember(m, max(m.rank, 0), 0, true)
}

// cancelCollective withdraws an operation of a group. One who has begun it cannot do so without the others, so its
// process leaves the group.
func (e *Engine) cancelCollective(s *send) {
	for _, m := range s.p.members {
		if m.join == s {
			e.endJoin(m, vni.StatusCancelled)
			return
		}
		for _, n := range sortedOps(m.ops) {
			if c := m.ops[n]; c.s == s {
				last := m.finished()
				c.s = nil
				e.watchColl(c, -1)
				e.completeSend(s, vni.StatusCancelled)
				e.leaveAfter(m, last)
				return
			}
		}
	}
	e.completeSend(s, vni.StatusCancelled)
}

func sortedOps(ops map[uint32]*coll) []uint32 {
	if len(ops) == 0 {
		return nil
	}
	l := make([]uint32, 0, len(ops))
	for n := range ops {
		l = append(l, n)
	}
	slices.SortFunc(l, func(a, b uint32) int { return int(int32(a - b)) })
	return l
}
