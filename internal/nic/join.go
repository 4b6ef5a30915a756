package nic

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// join takes a JoinGroup (QNIX-54): its size is checked against those who are there, the membership is told to every
// NIC, and it completes when all members have come.
func (e *Engine) join(s *send, sc *vni.SendContext, c vni.Command) {
	p, key := s.p, sc.Receiver
	var base *group
	if c.Group != 0 {
		old := p.member(c.Group)
		if old == nil || !old.g.complete {
			e.failGroupOp(s, vni.StatusNoGroup, nil)
			return
		}
		base = old.g
	}
	bad := c.Size == 0 || c.Size > limits.GroupMembers || key.Index != 0
	if base != nil {
		bad = c.Size != 0 || key.App != base.key.App || key.Index <= base.key.Index
	}
	if !key.Valid() || bad || p.slot == 0 || len(p.members) >= limits.Groups {
		e.rejectSend(s, fmt.Errorf("join of group %v with size %d", key, c.Size))
		return
	}
	a := address{e.cfg.ID, p.slot, p.gen}
	g := e.groups.byKey[key]
	if g != nil && g.seatOf(a) >= 0 {
		e.failGroupOp(s, vni.StatusGroupJoined, nil)
		return
	}
	if g != nil && (g.complete && !g.broken || !g.complete && !g.fits(c.Size)) {
		e.failGroupOp(s, vni.StatusGroupSize, nil)
		e.groups.forget(g)
		return
	}
	g = e.groups.groupFor(key, a)
	e.groups.nextNumber()
	m := &member{p: p, g: g, join: s, base: base, ops: make(map[uint32]*coll)}
	m.own = seat{address: a, name: p.name, number: e.groups.number, size: c.Size, piece: e.ownPiece(), at: e.cfg.Position}
	e.groups.members[m.own.number] = m
	p.members = append(p.members, m)
	g.local = append(g.local, m)
	e.counts[vni.NICJoins]++
	e.spreadSeat(tableJoin, m, 0)
	e.takeSeat(g, m.own)
}

// nextNumber finds the number of the next member: none is 0 or that of another, also after four thousand million.
func (t *groupTable) nextNumber() {
	for t.number++; t.number == 0 || t.members[t.number] != nil; t.number++ {
	}
}

// overtaken has those here who shrink a group to g's name look whether the member at a has gone on to a later epoch than
// theirs, where it waits for them; and if it is here, whether others have. They end, and try the next.
func (e *Engine) overtaken(g *group, a address) {
	for _, h := range slices.Clone(e.groups.list) {
		if h.key.App != g.key.App || h.complete {
			continue
		}
		for _, m := range slices.Clone(h.local) {
			if m.join != nil && m.base != nil && (h == g && m.own.address == a || h.key.Index < g.key.Index) && e.ahead(m) {
				e.endJoin(m, vni.StatusGroupMismatch)
			}
		}
	}
}

// ahead reports whether a member of the group that m shrinks has a seat in a later epoch than m.
func (e *Engine) ahead(m *member) bool {
	return slices.ContainsFunc(e.groups.list, func(h *group) bool {
		return h.key.App == m.g.key.App && int32(h.key.Index-m.g.key.Index) > 0 && slices.ContainsFunc(m.base.seats, func(s seat) bool {
			return !s.gone && h.seatOf(s.address) >= 0
		})
	})
}

// fits reports whether one more that expects this size can be in a group that still gathers: whoever decides expects it too,
// and there is room. Others may be there who have been told that theirs is wrong, and of whose leaving no news has come.
func (g *group) fits(size uint32) bool {
	first, _ := g.first()
	if first < 0 || size == 0 {
		return !g.disagrees(size)
	}
	agreeing := uint32(0)
	for i := range g.seats {
		if s := &g.seats[i]; !s.gone && s.size == size {
			agreeing++
		}
	}
	return g.seats[first].size == size && agreeing < size
}

// disagrees reports whether somebody there expects another size.
func (g *group) disagrees(size uint32) bool {
	return slices.ContainsFunc(g.seats, func(s seat) bool { return !s.gone && s.size != size })
}

// tryJoin begins m's part in a group that is complete, and completes one that m shrinks to.
func (e *Engine) tryJoin(m *member) {
	g := m.g
	if m.join == nil || m.next != 0 {
		return
	}
	if g.complete {
		if m.rank = g.rankOf(m); m.rank >= 0 {
			e.openMember(m)
		}
		return
	}
	if m.base == nil {
		return
	}
	for i := range m.base.seats {
		if s := &m.base.seats[i]; !s.gone && g.seatOf(s.address) < 0 {
			return
		}
	}
	g.close()
	for _, o := range slices.Clone(g.local) {
		if o.state == memberJoining {
			e.tryJoin(o)
		}
	}
}

func (g *group) rankOf(m *member) int {
	return slices.IndexFunc(g.seats, func(s seat) bool { return s.number == m.own.number && s.address == m.own.address })
}

// openMember begins operation 0, by which the members find out that they agree on who they are.
func (e *Engine) openMember(m *member) {
	m.next = 1
	c := e.collFor(m, 0)
	if c.rounds != 0 && c.sum != m.g.sum {
		e.mismatch(m)
		return
	}
	c.kind, c.entered, c.s, c.sum = collBarrier, true, m.join, m.g.sum
	e.watchColl(c, 1)
	e.advanceBarrier(c)
}

// joined completes a join.
func (e *Engine) joined(m *member) {
	s := m.join
	m.join = nil
	if m.state == memberJoining {
		m.state = memberOpen
	}
	if s == nil {
		return
	}
	var b [vni.RosterBytes]byte
	n := uint64(0)
	for i := range m.g.seats {
		st := &m.g.seats[i]
		clear(b[:])
		copy(b[:], st.name.App[:])
		binary.LittleEndian.PutUint32(b[24:], st.name.Index)
		binary.LittleEndian.PutUint32(b[28:], st.gen)
		binary.LittleEndian.PutUint64(b[32:], st.nic)
		binary.LittleEndian.PutUint16(b[40:], st.slot)
		scatter(s.frag.Parts, n, b[:])
		n += vni.RosterBytes
	}
	e.endSend(s, &vni.Completion{Status: vni.StatusOK, Len: n, Full: n, Gen: m.own.number, NIC: uint64(m.g.piece),
		Tag: uint64(m.rank)<<32 | uint64(len(m.g.seats))})
}

// takeJoin takes the operation of a join away from its membership, and returns it with the number of the last operation
// that has been completed.
func (e *Engine) takeJoin(m *member) (s *send, last uint32) {
	s, last = m.join, m.finished()
	m.join = nil
	if c := m.ops[0]; c != nil && c.s == s && s != nil {
		c.s = nil
		e.watchColl(c, -1)
	}
	return s, last
}

// endJoin fails a join.
func (e *Engine) endJoin(m *member, status vni.Status) {
	s, last := e.takeJoin(m)
	e.leaveAfter(m, last)
	if s != nil {
		e.failGroupOp(s, status, m)
	}
}
