package coll

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/tree"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A member is a process of this NIC in a group.
//
//	 join          all seats, operation 0       a member goes         leave
//	─────► joining ──────────────────────► open ─────────────► broken ──────► leaving ─► forgotten
//	          └─────────── another size, another list of members ────────────────▲
//
// A leaving member is still known, since its NIC may have to pass on earlier data. A member whose
// process has shrunk the group keeps its seat until the shrink is confirmed (confirm.go).
type memberState uint8

const (
	memberJoining memberState = iota
	memberOpen
	memberBroken
)

type member struct {
	p     *Process // nil once it is leaving
	g     *group
	own   seat
	state memberState
	left  bool
	rank  int
	join  Request // until it is complete
	base  *group  // the group that it shrinks, or has shrunk; else nil
	from  *member // its process's member in base, until the shrink is confirmed; else nil
	kept  bool    // its process has left it, and the seat stays until a shrink from it is confirmed

	confirmed confirmation // of the shrink to its group

	// whole is the member of the group whose part it joins; nil if it joins no part, or has
	// joined.
	whole   *member
	watched []*rel.Endpoint // NICs of members of the whole, which are probed while it joins

	branches map[int]*tree.Branch // its place in the trees of some roots

	next  uint32 // number of its process's next operation
	ops   map[uint32]*operation
	dead  int    // rank of the member that broke the group
	last  uint32 // in a broken group: later operations are over
	over  bool   // so are all others
	wrong bool   // broken by a disagreement, not by an end
	unmet bool   // its join has failed because dead has gone

	since clock.Time // when it joined, its latest operation ended, or its group broke
	broke Step       // in a broken group: the first operation that failed for it

	inTransit int // bytes held for others
	staged    int // bytes held for its process
	stagedOps int // operations to which those belong
	waiting   int // operations that need transit memory
}

// branch returns the place of m in the tree of a root. Those used last are kept, since computing
// one takes time and memory.
func (t *Table) branch(m *member, root int) *tree.Branch {
	if b := m.branches[root]; b != nil {
		return b
	}
	if m.branches == nil || len(m.branches) >= limits.TreesKept {
		m.branches = make(map[int]*tree.Branch)
	}
	g := m.g
	var b tree.Branch
	if g.places != nil && !(t.cfg.Defect == mutate.TorusForgotten && t.cfg.NIC%3 == 0) {
		b = tree.Torus(g.places, m.rank, root)
	} else {
		b = tree.Binomial(m.rank, root, len(g.seats))
	}
	m.branches[root] = &b
	return &b
}

// Command handles a command about a group. r holds the memory of the command.
func (t *Table) Command(p *Process, r Request, c vni.Command, sc *vni.SendContext) {
	if c.Code == vni.CodeJoinGroup {
		t.joinGroup(p, r, c, sc.Receiver)
		return
	}
	m := p.member(c.Group)
	switch {
	case m == nil || m.state == memberJoining:
		t.fail(r, vni.StatusNoGroup, nil)
	case c.Code == vni.CodeLeave:
		t.depart(m)
		t.nic.Complete(r, vni.Completion{Status: vni.StatusOK})
	case m.ended(m.next):
		m.refuse(c.Code, sc.Tag)
		t.fail(r, m.brokenStatus(), m)
	case c.Code == vni.CodeBarrier && int(c.Size) != len(m.g.seats):
		t.fail(r, vni.StatusGroupSize, nil)
	default:
		t.enter(m, r, c.Code, sc.Tag, int(sc.Len))
	}
}

// Writes reports whether a command about a group writes to its memory. A join writes the list of
// members; a broadcast writes the message, except at the root; a reduction writes the result, at
// the root or at all members. tag is the tag of the command's context.
func (p *Process) Writes(c vni.Command, tag uint64) bool {
	if c.Code == vni.CodeJoinGroup {
		return true
	}
	m, root := p.member(c.Group), uint32(tag)
	if m == nil {
		return false
	}
	at := root == uint32(m.rank)
	return c.Code == vni.CodeBroadcast && !at || c.Code == vni.CodeReduce && (at || root == vni.AllRanks)
}

// member returns a membership of the process by the number that its NIC gave it. A membership
// that the process has left does not count.
func (p *Process) member(number uint32) *member {
	for _, m := range p.members {
		if m.own.number == number && !m.kept {
			return m
		}
	}
	return nil
}

// ended reports whether an operation can no longer be done, since a member has gone that has not
// done it.
func (m *member) ended(number uint32) bool {
	return m.state == memberBroken && (m.over || int32(number-m.last) > 0)
}

// brokenStatus returns the error of an operation in a broken group.
func (m *member) brokenStatus() vni.Status {
	if m.wrong {
		return vni.StatusGroupMismatch
	}
	return vni.StatusGroupBroken
}

// fail ends an operation that cannot be done. If m's group can no longer do it, its process
// learns which member has gone. For other reasons, m may be nil.
func (t *Table) fail(r Request, status vni.Status, m *member) {
	t.count(vni.NICCollectivesFailed)
	if status == vni.StatusNoGroup || status == vni.StatusGroupSize || status == vni.StatusGroupJoined {
		t.nic.Reject(r, vni.Completion{Status: status}, fmt.Errorf("group operation: %v", status))
		return
	}
	c := vni.Completion{Status: status, Tag: uint64(m.dead)}
	if t.cfg.Defect == mutate.OtherBlamed {
		c.Tag = uint64(m.rank)
	}
	if m.dead < len(m.g.seats) {
		d := &m.g.seats[m.dead]
		c.NIC, c.Slot, c.Gen = d.NIC, d.Slot, d.Gen
	}
	t.nic.Complete(r, c)
}

// misfits ends a join for which a group of this size has no place. there is the number of its
// members that are there.
func (t *Table) misfits(r Request, size uint32, there int) {
	t.count(vni.NICCollectivesFailed)
	t.nic.Reject(r, vni.Completion{Status: vni.StatusGroupSize, Tag: vni.GroupSizes(size, there)},
		fmt.Errorf("join of a group of %d members, of which %d are there", size, there))
}

// finished returns the number of the last operation up to which m has completed all.
func (m *member) finished() uint32 {
	last := m.next - 1
	for n, o := range m.ops { // the least of them, in any order
		if o.entered && o.req != nil && int32(n-1-last) < 0 {
			last = n - 1
		}
	}
	return last
}

// leave ends a membership. The others' operations later than last fail.
func (t *Table) leave(m *member, last uint32) {
	if m.left {
		return
	}
	m.left = true
	t.spreadSeat(wire.TableLeave, m, last)
	if p := m.p; p != nil {
		p.members = slices.DeleteFunc(p.members, func(o *member) bool { return o == m })
		m.p = nil
	}
	if i := m.g.rankOf(m); i >= 0 {
		t.loseSeat(m.g, i, last, false, m.g.cause(i, last, m.blamed()))
	}
	t.breakMember(m, max(m.rank, 0), last, m.state == memberJoining)
	t.retire(m)
}

// blamed returns 1 + the rank of the member that made m's join fail; 0 if there is none.
func (m *member) blamed() uint32 {
	if !m.unmet {
		return 0
	}
	return uint32(m.dead) + 1
}

// cause returns the rank of the member that caused member i to leave a group. Member i has
// completed its operations up to last. blamed is what its NIC tells of a failed join.
func (g *group) cause(i int, last, blamed uint32) int {
	if int32(last) >= 0 || blamed == 0 || int(blamed) > len(g.seats) {
		return i
	}
	return int(blamed) - 1
}

// Gone ends the memberships of an ending process. Its operations end with it.
func (t *Table) Gone(p *Process) {
	for len(p.members) > 0 {
		m := p.members[len(p.members)-1]
		r, last := t.takeJoin(m)
		if r != nil {
			t.nic.Complete(r, vni.Completion{Status: vni.StatusClosed})
		}
		t.leave(m, last)
	}
}

// retire forgets a member that has left, once no other member needs its NIC for earlier data.
func (t *Table) retire(m *member) {
	if !m.left || len(m.ops) > 0 {
		return
	}
	delete(t.members, m.own.number)
	m.g.local = slices.DeleteFunc(m.g.local, func(o *member) bool { return o == m })
	t.forget(m.g)
}

// breakMember ends the operations of m that can no longer complete: those after last, or all.
// rank is the rank of the member that has gone.
func (t *Table) breakMember(m *member, rank int, last uint32, all bool) {
	// A member that left after its own join owes m's join nothing.
	if m.join != nil && m.g.complete && (all || int32(last) < 0) {
		m.dead, m.unmet = rank, true
		t.endJoin(m, vni.StatusGroupBroken)
		return
	}
	if m.state != memberBroken {
		m.state, m.dead, m.last, m.since = memberBroken, rank, last, t.nic.Now()
	}
	if int32(last-m.last) < 0 {
		m.last = last
	}
	m.over = m.over || all
	numbers := slices.SortedFunc(maps.Keys(m.ops), func(a, b uint32) int { return int(int32(a - b)) })
	for _, n := range numbers {
		if !m.ended(n) {
			continue
		}
		o := m.ops[n]
		if r := t.takeRequest(o); r != nil {
			m.noteFailed(o.step())
			t.fail(r, m.brokenStatus(), m)
		}
		t.free(o)
	}
	t.retire(m)
}

// mismatch breaks the group because its members do different things.
func (t *Table) mismatch(m *member) {
	if m.state != memberBroken {
		m.wrong = true
	}
	own := m.g.rankOf(m)
	for i := range m.g.live() {
		if i != own {
			t.signal(m, i, 0, signalMismatch, 0, m.g.sum)
		}
	}
	t.disagreed(m)
}

// disagreed handles the news that the members of a group do not agree.
func (t *Table) disagreed(m *member) {
	if m.join != nil {
		t.endJoin(m, vni.StatusGroupMismatch)
		return
	}
	if m.state != memberBroken {
		m.wrong = true
	}
	t.breakMember(m, max(m.rank, 0), 0, true)
}

// Cancel withdraws an operation of a process. A member that has begun one cannot withdraw it
// without the others, so the process leaves the group.
func (t *Table) Cancel(p *Process, r Request) {
	for _, m := range p.members {
		if m.join == r {
			t.endJoin(m, vni.StatusCancelled)
			return
		}
		for _, o := range m.ops { // order does not matter: one has it
			if o.req == r {
				last := m.finished()
				t.nic.Complete(t.takeRequest(o), vni.Completion{Status: vni.StatusCancelled})
				t.abandon(m, last)
				return
			}
		}
	}
	t.nic.Complete(r, vni.Completion{Status: vni.StatusCancelled})
}
