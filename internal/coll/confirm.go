package coll

import (
	"iter"

	"github.com/weftnet/weft/internal/mutate"
)

// A death during a shrink can end the join of some members after it has completed for others. The
// failed members go on to the next epoch and wait there for the others. The others may not know
// yet that a shrink must follow. So the seats in the old group are the list of the members to
// wait for, and a member keeps its seat there until it knows that no join has failed. It learns
// that from a second barrier, which a member enters when its own join has completed:
//
//	join ──► operation 0: all have the same seats ──► join completes ─┐
//	┌─────────────────────────────────────────────────────────────────┘
//	└──► confirmation: all joins have completed ──► the old seats are given up
//
// If the confirmation never completes, a member has gone, or its join has failed. Then the group
// is broken. A member that shrinks it also waits for the seats of the old group, where it finds
// the members whose joins have failed. If the confirmation completes for any member, no join has
// failed. Then every member is in the new group, and a later shrink waits only for the seats of
// that group.

// confirmation is the progress of a member in the second barrier of a shrink.
type confirmation struct {
	round int
	told  int    // rounds that this member has announced
	heard uint64 // rounds that other members have announced, a bit each
}

// confirm does the rounds that are due, as advanceBarrier does.
func (t *Table) confirm(m *member) {
	if m.base == nil || m.join != nil || m.left {
		return
	}
	c, n := &m.confirmed, len(m.g.seats)
	for d := 1 << c.round; d < n; d = 1 << c.round {
		if c.told == c.round {
			c.told++
			t.signal(m, (m.rank+d)%n, 0, signalJoined, uint8(c.round), m.g.sum)
		}
		if c.heard&(1<<c.round) == 0 {
			return
		}
		c.round++
	}
	t.dropKept(m)
}

// confirmHeard notes that a member has entered a round of the confirmation.
func (t *Table) confirmHeard(m *member, round uint8, sum uint64) {
	if m.base == nil || !m.g.complete || round >= 32 || sum != m.g.sum {
		return
	}
	m.confirmed.heard |= 1 << round
	t.confirm(m)
}

// awaited yields the live seats of the groups that m shrinks: the group of m's base, and the
// groups that were shrunk to it without a confirmation. A process may be yielded more than once.
func (m *member) awaited() iter.Seq[*seat] {
	return func(yield func(*seat) bool) {
		for g, f := m.base, m.from; ; g, f = f.base, f.from {
			for _, s := range g.live() {
				if !yield(s) {
					return
				}
			}
			if f == nil || f.from == nil {
				return
			}
		}
	}
}

// depart ends a membership as its process asks. If the process has shrunk the group without a
// confirmation so far, the seat stays until then.
func (t *Table) depart(m *member) {
	for _, s := range m.p.members {
		if s.from == m && s.join == nil && t.cfg.Defect != mutate.ShrinkForgets {
			m.kept = true
			t.breakMember(m, max(m.rank, 0), m.finished(), false)
			return
		}
	}
	t.abandon(m, m.finished())
}

// abandon leaves a group, and the groups that were shrunk to it.
func (t *Table) abandon(m *member, last uint32) {
	t.leave(m, last)
	t.dropKept(m)
}

// dropKept gives up the seats of m's process in the groups that were shrunk to m's group.
func (t *Table) dropKept(m *member) {
	for f := m.from; f != nil; {
		older := f.from
		m.from, f.from = nil, nil
		if f.kept {
			t.leave(f, f.finished())
		}
		f = older
	}
	if m.p == nil {
		return
	}
	for _, s := range m.p.members { // one that shrinks m's group waits for fewer seats
		if s.from == m && s.join != nil {
			t.tryJoins(s.g)
			return
		}
	}
}

// held returns the number of groups that a process is in.
func (p *Process) held() (n int) {
	for _, m := range p.members {
		if !m.kept {
			n++
		}
	}
	return n
}

// memberOf returns the membership of a process in a group; nil if it has none.
func (p *Process) memberOf(g *group) *member {
	for _, m := range p.members {
		if m.g == g && !m.kept {
			return m
		}
	}
	return nil
}
