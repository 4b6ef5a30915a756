package coll

import (
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/vni"
)

// Group is what tools get to know about a group.
type Group struct {
	Name    string
	Epoch   uint32
	Size    int // 0 if it is not known
	Members []Member
	State   string // gathering, complete or broken
}

// Member is a process of a group.
type Member struct {
	Name vni.Name
	vni.Address
}

// Groups returns the groups of the fabric, sorted by name and epoch.
func (t *Table) Groups() []Group {
	var l []Group
	for _, g := range t.list {
		i := Group{Name: g.key.Application(), Epoch: vni.Epoch(&g.key), State: "gathering"}
		for k := range g.seats {
			i.Size = max(i.Size, int(g.seats[k].size))
		}
		for _, s := range g.live() {
			i.Members = append(i.Members, Member{s.name, s.Address})
		}
		if g.complete {
			i.State, i.Size = "complete", len(g.seats)
		}
		if g.broken {
			i.State = "broken"
		}
		l = append(l, i)
	}
	slices.SortStableFunc(l, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Epoch, b.Epoch))
	})
	return l
}

// Len returns the number of groups in the table.
func (t *Table) Len() int { return len(t.list) }

// Usage is the table's use of the NIC's memory.
type Usage struct {
	Groups, Seats, SeatsInUse int
	GroupBytes, SeatBytes     int64 // each
}

// Usage returns the memory use over all groups.
func (t *Table) Usage() Usage {
	const perKey = (unsafe.Sizeof(vni.Name{}) + unsafe.Sizeof((*group)(nil))) * 5 / 4 // in the map
	u := Usage{
		Groups: len(t.list), GroupBytes: int64(unsafe.Sizeof(group{}) + perKey),
		SeatBytes: int64(unsafe.Sizeof(seat{})),
	}
	for _, g := range t.list {
		u.Seats += cap(g.seats)
		u.SeatsInUse += len(g.seats)
	}
	return u
}

// Audit returns an error if a membership exceeds a limit or miscounts, or if a leg of an ended
// operation waits for a peer.
func (t *Table) Audit() error {
	for _, pr := range t.up {
		for _, l := range pr.blocked {
			if l.o == nil || l.blocked != pr || !slices.Contains(l.o.legs, l) {
				return fmt.Errorf("NIC %v will be asked to take data of an operation that has ended",
					nicid.ID(pr.NIC()))
			}
		}
	}
	for _, g := range t.list {
		for _, m := range g.local {
			if m.staged < 0 || m.staged > limits.GroupStaging ||
				m.stagedOps < 0 || m.stagedOps > limits.GroupStagedOperations || m.inTransit < 0 {
				return fmt.Errorf("%v in group %v has %d bytes of %d operations staged, %d in transit",
					m.own.name, g.key, m.staged, m.stagedOps, m.inTransit)
			}
			transit, staged, waiting, ops := 0, 0, 0, 0
			for _, o := range m.ops { // sums: order does not matter
				switch {
				case o.held && o.staged:
					staged += o.length
					ops++
				case o.held:
					transit += o.length
				case o.waits:
					waiting++
				}
			}
			if ops != m.stagedOps {
				return fmt.Errorf("%v in group %v has data of %d operations staged, counted as %d",
					m.own.name, g.key, ops, m.stagedOps)
			}
			if transit != m.inTransit || staged != m.staged || waiting != m.waiting {
				return fmt.Errorf("%v in group %v holds %d bytes in transit and %d staged, "+
					"and has counted %d and %d; %d operations wait, and %d are counted",
					m.own.name, g.key, transit, staged, m.inTransit, m.staged, waiting, m.waiting)
			}
		}
	}
	return nil
}

// Leaks returns an error if state of operations is left. There may be none when no process has an
// operation in progress.
func (t *Table) Leaks() error {
	if t.operations.InUse() == 0 && t.legs == 0 && len(t.here) == 0 {
		return nil
	}
	return fmt.Errorf("%d collective operations, %d legs of them, %d signals",
		t.operations.InUse(), t.legs, len(t.here))
}

// Above returns the parent of this NIC's member of a group in the tree of a root, along which its
// data goes. ok is false if this NIC has no member there. It is for simulations, which measure
// the depth of trees.
func (t *Table) Above(group vni.Name, root int) (parent int, ok bool) {
	if g := t.byKey[group]; g != nil && g.complete && len(g.local) > 0 && root < len(g.seats) {
		return t.branch(g.local[0], root).Parent, true
	}
	return 0, false
}

// Learn takes over the memberships at other NICs, all at once, as if those NICs had told them. It
// is for simulations of groups on more NICs than they can open pairs between. Elsewhere NICs tell
// one another.
func (t *Table) Learn(others []*Table) {
	for _, other := range others {
		for _, g := range other.list {
			for _, m := range g.local {
				if other != t && !m.left {
					t.groupFor(g.key, m.own.Address).add(m.own)
				}
			}
		}
	}
	for _, g := range t.list {
		t.gathered(g)
	}
}
