package coll

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// joinGroup handles a JoinGroup (QNIX-54). It checks the size against the existing members and
// tells the membership to every NIC. The join completes when all members have joined.
func (t *Table) joinGroup(p *Process, r Request, c vni.Command, key vni.Name) {
	base, ok := p.base(c.Group)
	if !ok {
		t.fail(r, vni.StatusNoGroup, nil)
		return
	}
	if !joinable(base, &key, c.Size) || p.Address.Slot == 0 {
		t.nic.Reject(r, vni.Completion{Status: vni.StatusBadArgument},
			fmt.Errorf("join of group %v with size %d", key, c.Size))
		return
	}
	var whole, from *member // in the whole of a part, or in the group that it shrinks
	if base != nil && c.Size > 0 {
		whole, base = p.member(c.Group), nil
	} else if base != nil {
		from = p.member(c.Group)
	}
	// A shrink ends the membership that it begins with, so each may be in progress.
	if from == nil && p.held() >= limits.Groups || len(p.members) >= 2*limits.Groups {
		t.count(vni.NICCollectivesFailed)
		t.nic.Reject(r, vni.Completion{Status: vni.StatusNoMemory},
			fmt.Errorf("join of group %v: the process is in %d, which is the most", key, len(p.members)))
		return
	}
	switch g := t.byKey[key]; {
	case whole != nil && whole.g.broken:
		t.partBroken(r, whole.lost())
		return
	case g == nil:
	case p.memberOf(g) != nil:
		t.fail(r, vni.StatusGroupJoined, nil)
		return
	case g.complete && !g.broken && g.seatOf(p.Address) == nil || !g.complete && !g.fits(c.Size):
		t.misfits(r, g.seats[0].size, len(g.seats))
		t.forget(g)
		return
	}
	t.nextNumber()
	m := &member{
		p: p, g: t.groupFor(key, p.Address), join: r, base: base, from: from, whole: whole,
		ops: make(map[uint32]*operation), since: t.nic.Now(),
	}
	m.own = seat{
		Address: p.Address, name: p.Name, number: t.number, size: c.Size, piece: t.ownPiece(), at: t.cfg.Position,
	}
	t.members[m.own.number] = m
	p.members = append(p.members, m)
	m.g.local = append(m.g.local, m)
	t.watchWhole(m)
	t.count(vni.NICJoins)
	t.spreadSeat(wire.TableJoin, m, 0)
	t.takeSeat(m.g, m.own)
}

// joinable reports whether the key and size of a join are valid. base is the group that it names;
// nil if it names none.
func joinable(base *group, key *vni.Name, size uint32) bool {
	switch {
	case !key.Valid():
		return false
	case base == nil:
		return size > 0 && size <= limits.GroupMembers && key.Index == 0
	case size > 0: // a part of base
		return int(size) <= len(base.seats) && vni.IsPart(key) && vni.Epoch(key) == 0
	}
	return vni.SameGroup(key, &base.key) && key.Index > base.key.Index
}

// base returns the group that a join names: the one that it shrinks, or whose part it joins. nil:
// it names none.
func (p *Process) base(number uint32) (g *group, ok bool) {
	if number == 0 {
		return nil, true
	}
	if m := p.member(number); m != nil && m.g.complete {
		return m.g, true
	}
	return nil, false
}

// nextNumber sets t.number to a free number for the next member: neither 0 nor in use, even after
// four thousand million.
func (t *Table) nextNumber() {
	for t.number++; t.number == 0 || t.members[t.number] != nil; t.number++ {
	}
}

// ownPiece returns the largest piece that this NIC accepts.
func (t *Table) ownPiece() uint32 {
	return uint32(min(max(t.cfg.MTU-wire.Overhead-wire.PieceLen, leastPiece), limits.PageBytes))
}

// overtaken checks the members here that shrink a group to g's name. Has the member at a gone on
// to a later epoch, where it waits for them? If a is here, have others gone on? Such joins end,
// and their processes try the next epoch.
func (t *Table) overtaken(g *group, a vni.Address) {
	for _, h := range slices.Clone(t.list) {
		if !vni.SameGroup(&h.key, &g.key) || h.complete {
			continue
		}
		for _, m := range slices.Clone(h.local) {
			if m.join != nil && m.base != nil &&
				(h == g && m.own.Address == a || h.key.Index < g.key.Index) && t.ahead(m) {
				t.endJoin(m, vni.StatusGroupMismatch)
			}
		}
	}
}

// ahead reports whether a member that m waits for has a seat in a later epoch than m.
func (t *Table) ahead(m *member) bool {
	for _, h := range t.list {
		if !vni.SameGroup(&h.key, &m.g.key) || int32(h.key.Index-m.g.key.Index) <= 0 {
			continue
		}
		for s := range m.awaited() {
			if h.seatOf(s.Address) != nil {
				return true
			}
		}
	}
	return false
}

// fits reports whether one more member that expects this size can join a group that still
// gathers: the deciding member expects the same size, and there is room. The group may still have
// members that have been told that their size is wrong, and whose leave has not arrived yet.
func (g *group) fits(size uint32) bool {
	agreeing, n := g.expecting(size), len(g.seats)
	if n == 0 || size == 0 {
		return agreeing == n
	}
	return g.seats[0].size == size && agreeing-g.twins() < int(size)
}

// tryJoins tries all joins of a group that have not completed.
func (t *Table) tryJoins(g *group) {
	for _, m := range slices.Clone(g.local) {
		if m.state == memberJoining {
			t.tryJoin(m)
		}
	}
}

// tryJoin begins m's part in a complete group, and completes a group that m shrinks to.
func (t *Table) tryJoin(m *member) {
	g := m.g
	if m.join == nil || m.next != 0 {
		return
	}
	if g.complete {
		if m.rank = g.rankOf(m); m.rank >= 0 {
			t.openMember(m)
		}
		return
	}
	if m.base == nil {
		return
	}
	for s := range m.awaited() {
		if g.seatOf(s.Address) == nil {
			return
		}
	}
	g.close()
	t.tryJoins(g)
}

// openMember begins operation 0, by which the members check that they agree on the seats.
func (t *Table) openMember(m *member) {
	o := t.operation(m, 0)
	if o.rounds != 0 && o.sum != m.g.sum && t.cfg.Defect != mutate.SumIgnored {
		t.mismatch(m) // m has not completed operation 0, so that ends too
		return
	}
	m.next = 1
	o.kind, o.entered, o.req, o.sum = kindBarrier, true, m.join, m.g.sum
	t.watch(o)
	t.advanceBarrier(o)
}

// joined completes a join.
func (t *Table) joined(m *member) {
	r := m.join
	m.join = nil
	m.unwatchWhole()
	if m.state == memberJoining {
		m.state = memberOpen
	}
	if r == nil {
		return
	}
	var b [vni.RosterBytes]byte
	le := binary.LittleEndian
	for i := range m.g.seats {
		s := &m.g.seats[i]
		clear(b[:])
		copy(b[:], s.name.App[:])
		le.PutUint32(b[24:], s.name.Index)
		le.PutUint32(b[28:], s.Gen)
		le.PutUint64(b[32:], s.NIC)
		le.PutUint16(b[40:], s.Slot)
		r.Write(uint64(i)*vni.RosterBytes, b[:])
	}
	n := uint64(len(m.g.seats))
	t.nic.Complete(r, vni.Completion{
		Status: vni.StatusOK, Len: n * vni.RosterBytes, Full: n * vni.RosterBytes, Gen: m.own.number,
		NIC: uint64(m.g.piece), Tag: uint64(m.rank)<<32 | n,
	})
	t.confirm(m)
}

// takeJoin takes the request of a join away from its membership. It returns the request with the
// number of the last completed operation.
func (t *Table) takeJoin(m *member) (r Request, last uint32) {
	r, last = m.join, m.finished()
	m.join = nil
	m.unwatchWhole()
	if o := m.ops[0]; o != nil && r != nil && o.req == r {
		t.takeRequest(o)
	}
	return r, last
}

// endMisfit ends a join for which a group of this size has no place. there is the number of its
// other members that are there.
func (t *Table) endMisfit(m *member, size uint32, there int) {
	r, last := t.takeJoin(m)
	t.leave(m, last)
	if r != nil {
		t.misfits(r, size, there)
	}
}

// endJoin fails a join.
func (t *Table) endJoin(m *member, status vni.Status) {
	r, last := t.takeJoin(m)
	dead := m.dead
	if t.cfg.Defect != mutate.JoinKept || status != vni.StatusCancelled {
		t.leave(m, last)
	}
	m.dead = dead // leave may have set it to m itself
	if r != nil {
		t.fail(r, status, m)
	}
}
