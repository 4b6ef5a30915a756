package coll

import (
	"slices"

	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
)

// A part of a group gathers as every group does. Its members are also members of the whole, and
// wait only for those. If one goes before it has joined its part, the NIC ends the joins of all
// parts.
//
//	whole ──► every member knows its part and the part's key ──► joins, one for each part
//	  │                                                            └──► barrier of the whole
//	  └─ a member goes ──► the joins that have not completed fail, and name it
//
// No process leaves the whole before it has passed that barrier, and then all have joined.

// watchWhole probes the members of the whole that m's member there would probe in a barrier. Each
// member is watched by the first living one above it, which either joins still or is in the
// barrier.
func (t *Table) watchWhole(m *member) {
	if m.whole == nil {
		return
	}
	w := m.whole
	n := len(w.g.seats)
	for d := 1; d < n; d *= 2 {
		if pr := t.peerOf(w, (w.rank-d+n)%n); pr != nil {
			pr.Watch(1)
			m.watched = append(m.watched, pr.Endpoint)
		}
	}
}

// unwatchWhole ends watchWhole, since the join has ended.
func (m *member) unwatchWhole() {
	m.whole = nil
	for _, ep := range m.watched {
		ep.Watch(-1)
	}
	m.watched = nil
}

// breakParts ends the joins here of parts of a group that has lost a member.
func (t *Table) breakParts(g *group, lost *seat) {
	if t.cfg.Defect == mutate.PartLeftWaiting {
		return
	}
	for _, h := range slices.Clone(t.list) {
		for _, m := range slices.Clone(h.local) {
			if m.join == nil || m.whole == nil || m.whole.g != g {
				continue
			}
			r, last := t.takeJoin(m)
			t.leave(m, last)
			t.partBroken(r, lost)
		}
	}
}

// partBroken fails the join of a part of a group that has lost a member. The rank of that member
// in the part means nothing, so its address identifies it.
func (t *Table) partBroken(r Request, lost *seat) {
	t.count(vni.NICCollectivesFailed)
	t.nic.Complete(r, vni.Completion{Status: vni.StatusGroupBroken, NIC: lost.NIC, Slot: lost.Slot, Gen: lost.Gen})
}

// lost returns the member that broke m's group.
func (m *member) lost() *seat {
	if m.state == memberBroken && !m.wrong {
		return &m.g.seats[m.dead]
	}
	i := slices.IndexFunc(m.g.seats, func(s seat) bool { return s.gone })
	return &m.g.seats[max(i, 0)]
}
