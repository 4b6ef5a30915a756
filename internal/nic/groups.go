package nic

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// The Group Table (QNIX-54). Every NIC knows the members of every group of the fabric, and tells its own to every other
// as it does with names: all of them when a pair opens, each change as it happens.
//
//	join, leave
//	 0  6 or 7             1
//	 1  zero               1
//	 2  slot               2
//	 4  generation         4
//	 8  member's number    4   by which its NIC knows it
//	12  size               4   that it expects; 0 of one who shrinks a group
//	16  epoch              4   of the group
//	20  group             24
//	44  largest piece      4   that its NIC takes, in bytes
//	48  process's index    4
//	52  application       24
//	76  last operation     4   of a leave: what it has completed; later ones fail
//	80  change             4   of the joins and leaves in this session the how-many-th, from 1
//	84  position           8   of the NIC on a torus: x, y, width, height, 2 each; width 0: none
//
// Records overtake one another, and a join and its leave must not: each has its number, and is taken when its turn comes.
//
// A group is one name in one epoch. It gathers seats until it has as many as it should; then they are put in the order
// of their names, which gives the ranks, and nobody joins any more. Whether all members see the same group is found out
// by its operation 0, a barrier whose signals carry a sum over all seats: a join completes with that barrier.
//
//	            join                    size seats              a member leaves
//	(nothing) ───────► gathering ──────────────────► complete ──────────────────► broken ──► forgotten with its last seat
const seatLen = 92

// seat is a member, as every NIC knows it.
type seat struct {
	address
	name   vni.Name
	number uint32 // by which its NIC knows it
	size   uint32
	piece  uint32
	at     Position // of its NIC
	gone   bool
}

type group struct {
	key      vni.Name  // the application is the group's name, the index its epoch
	seats    []seat    // by rank once complete
	local    []*member // on this NIC, also those that are leaving
	complete bool
	broken   bool
	torus    bool   // all members have a position on the same torus
	piece    int    // bytes of the data in one piece, which every member's NIC takes
	sum      uint64 // over all seats
}

type groupTable struct {
	byKey   map[vni.Name]*group // the latest of each key
	list    []*group            // all, in the order of learning
	members map[uint32]*member  // by number
	number  uint32              // given to the latest
	here    []hereSignal        // what members of this NIC have to tell one another
	transit stagingPool         // what is on its way to others, and what waits for processes to ask for it
	colls   freeList[coll]
	legs    freeList[leg]
}

func (t *groupTable) init() {
	t.byKey = make(map[vni.Name]*group)
	t.members = make(map[uint32]*member)
}

// quiet reports whether this NIC owes no other anything of a collective operation.
func (t *groupTable) quiet() bool { return t.legs.inUse == 0 && len(t.here) == 0 }

// limits says which of its limits a membership does not keep, if any.
func (t *groupTable) limits() error {
	for _, g := range t.list {
		for _, m := range g.local {
			if m.staged < 0 || m.staged > limits.GroupStaging || m.stagedOps < 0 || m.stagedOps > limits.GroupStagedOperations || m.inTransit < 0 {
				return fmt.Errorf("%v in group %v has %d bytes of %d operations staged, %d in transit", m.own.name, g.key, m.staged, m.stagedOps, m.inTransit)
			}
			transit, staged := 0, 0
			for _, c := range m.ops { // sums: order does not matter
				if c.held && c.staged {
					staged += c.length
				} else if c.held {
					transit += c.length
				}
			}
			if transit != m.inTransit || staged != m.staged {
				return fmt.Errorf("%v in group %v holds %d bytes in transit and %d staged, and has counted %d and %d", m.own.name, g.key, transit, staged, m.inTransit, m.staged)
			}
		}
	}
	return nil
}

// GroupInfo is what tools are told about a group.
type GroupInfo struct {
	Name    string
	Epoch   uint32
	Size    int // 0 if it is not known
	Members []NameInfo
	State   string // gathering, complete or broken; application
}

// Groups lists the groups of the fabric by name and epoch.
func (e *Engine) Groups() []GroupInfo {
	var l []GroupInfo
	for _, g := range e.groups.list {
		i := GroupInfo{Name: groupText(g.key), Epoch: g.key.Index, State: "gathering"}
		for k := range g.seats {
			s := &g.seats[k]
			i.Size = max(i.Size, int(s.size))
			if !s.gone {
				i.Members = append(i.Members, NameInfo{s.name, Address{s.nic, s.slot, s.gen}, true})
			}
		}
		if g.complete {
			i.State, i.Size = "complete", len(g.seats)
		}
		if g.broken {
			i.State = "broken"
		}
		l = append(l, i)
	}
	slices.SortStableFunc(l, func(a, b GroupInfo) int {
		if a.Name != b.Name {
			return slices.Compare([]byte(a.Name), []byte(b.Name))
		}
		return int(a.Epoch) - int(b.Epoch)
	})
	return l
}

// Applications lists the group to which the processes of each application belong without joining (QNIX-55): who lives and
// can be reached, by name.
func (e *Engine) Applications() (l []GroupInfo) {
	for _, n := range e.Names() {
		if !n.Reachable {
			continue
		}
		name := groupText(n.Name)
		if len(l) == 0 || l[len(l)-1].Name != name {
			l = append(l, GroupInfo{Name: name, State: "application"})
		}
		g := &l[len(l)-1]
		g.Members = append(g.Members, n)
		g.Size++
	}
	return l
}

// groupText is a group's name without its epoch.
func groupText(key vni.Name) string {
	n := slices.Index(key.App[:], 0)
	if n < 0 {
		n = len(key.App)
	}
	return string(key.App[:n])
}

// groupFor finds the group that a process with this address joins: a new one if there is none, or if the one of that name
// is over for somebody, who then begins the next.
func (t *groupTable) groupFor(key vni.Name, a address) *group {
	g := t.byKey[key]
	if g != nil && g.complete && (g.broken || g.seatOf(a) >= 0) {
		g = nil
	}
	if g == nil {
		g = t.newGroup(key)
	}
	return g
}

func (t *groupTable) newGroup(key vni.Name) *group {
	g := &group{key: key}
	t.byKey[key] = g
	t.list = append(t.list, g)
	return g
}

// seatOf finds the seat of a process that has not gone.
func (g *group) seatOf(a address) int {
	return slices.IndexFunc(g.seats, func(s seat) bool { return s.address == a && !s.gone })
}

// forget drops a group that has neither members nor operations here.
func (t *groupTable) forget(g *group) {
	if len(g.local) > 0 || slices.ContainsFunc(g.seats, func(s seat) bool { return !s.gone }) {
		return
	}
	if t.byKey[g.key] == g {
		delete(t.byKey, g.key)
	}
	t.list = slices.DeleteFunc(t.list, func(h *group) bool { return h == g })
}

// close fixes the ranks.
func (g *group) close() {
	g.seats = slices.DeleteFunc(g.seats, func(s seat) bool { return s.gone })
	slices.SortFunc(g.seats, func(a, b seat) int { return a.name.Compare(b.name) })
	g.complete = true
	h := fnv.New64a()
	var b [seatLen + 8]byte
	least := uint32(limits.PageBytes)
	for i := range g.seats {
		s := &g.seats[i]
		putSeat(b[:], 0, s, g.key, 0)
		binary.LittleEndian.PutUint64(b[seatLen:], s.nic)
		h.Write(b[:])
		least = min(least, s.piece)
	}
	g.torus = onTorus(g.seats)
	g.piece = int(least) &^ 7 // elements of a vector are not cut
	g.sum = h.Sum64()
}

// ownPiece is the largest piece that this NIC takes.
func (e *Engine) ownPiece() uint32 {
	return uint32(min(max(e.cfg.Link.MTU()-wire.Overhead-wire.PieceLen, leastPiece), limits.PageBytes))
}

// takeSeat adds a member to its group, and lets those who wait for it know.
func (e *Engine) takeSeat(g *group, s seat) {
	g.seats = append(g.seats, s)
	e.gathered(g)
	e.overtaken(g, s.address)
}

// gathered looks whether a member of a group here can never be in it, and whether the group is complete.
func (e *Engine) gathered(g *group) {
	e.refuseMisfits(g)
	if first, n := g.first(); !g.complete && first >= 0 { // counted behind those who have just gone
		if size := g.seats[first].size; size > 0 && n == int(size) && !g.disagrees(size) {
			g.close()
		}
	}
	for _, m := range slices.Clone(g.local) {
		if m.state == memberJoining {
			e.tryJoin(m)
		}
	}
}

// refuseMisfits ends the joins here that cannot come to be. Joins of different sizes can cross on their way; then the member
// with the lowest name decides. While one with another size is still there, more can come than there is room for; then those
// with the lowest names stay.
func (e *Engine) refuseMisfits(g *group) {
	first, n := g.first()
	if g.complete || first < 0 {
		return
	}
	size := g.seats[first].size
	crowded := size > 0 && n > int(size) && !g.disagrees(size)
	for _, m := range slices.Clone(g.local) {
		if m.join != nil && m.base == nil && (m.own.size != size || crowded && g.before(m.own.name) >= int(size)) {
			e.endJoin(m, vni.StatusGroupSize)
		}
	}
}

// before counts the live seats of lower names.
func (g *group) before(name vni.Name) (n int) {
	for i := range g.seats {
		if s := &g.seats[i]; !s.gone && s.name.Compare(name) < 0 {
			n++
		}
	}
	return n
}

// first finds the live seat with the lowest name, and counts all live ones.
func (g *group) first() (first, n int) {
	first = -1
	for i := range g.seats {
		if s := &g.seats[i]; !s.gone {
			n++
			if first < 0 || s.name.Compare(g.seats[first].name) < 0 {
				first = i
			}
		}
	}
	return first, n
}

// find returns the group that has this very membership, and its place there.
func (t *groupTable) find(key vni.Name, a address, number uint32) (*group, int) {
	for _, g := range t.list {
		if g.key != key {
			continue
		}
		if i := slices.IndexFunc(g.seats, func(s seat) bool { return s.address == a && s.number == number }); i >= 0 {
			return g, i
		}
	}
	return nil, 0
}

// loseSeat notes that a member has gone. Operations after last fail for the members here; if all is set, every one does.
func (e *Engine) loseSeat(g *group, i int, last uint32, all bool) {
	s := &g.seats[i]
	if s.gone && !all {
		return
	}
	if !g.complete {
		g.seats = slices.Delete(g.seats, i, i+1)
		e.gathered(g) // who shrinks a group waits for it no more
	} else {
		s.gone, g.broken = true, true
		for _, m := range slices.Clone(g.local) {
			e.breakMember(m, i, last, all)
		}
		for _, h := range slices.Clone(e.groups.list) { // those who shrink this group wait for it no more
			if h != g && !h.complete {
				e.gathered(h)
			}
		}
	}
	e.groups.forget(g)
}

// losePeerSeats notes that the members at a peer have gone with it, and tells the others, who may not have noticed. A
// peer that has taken its leave has sent all that it owed.
func (e *Engine) losePeerSeats(pr *peer, leave bool) {
	pr.signals, pr.seats = nil, peerSeats{}
	for _, g := range slices.Clone(e.groups.list) {
		if !g.complete { // all at once: what is left may be a group, with other ranks
			n := len(g.seats)
			if g.seats = slices.DeleteFunc(g.seats, func(s seat) bool { return s.nic == pr.nic }); len(g.seats) < n {
				e.gathered(g)
				e.groups.forget(g)
			}
			continue
		}
		for i := range g.seats {
			if s := &g.seats[i]; s.nic == pr.nic && !(s.gone && leave) {
				news := !s.gone
				e.loseSeat(g, i, 0, true)
				if news {
					e.spreadLoss(g, i)
				}
			}
		}
	}
}

// spreadLoss tells the other members of a group that one of them has gone.
func (e *Engine) spreadLoss(g *group, rank int) {
	k := slices.IndexFunc(g.local, func(m *member) bool { return g.rankOf(m) >= 0 })
	if k < 0 || e.cfg.Defect == mutate.LossNotSpread {
		return
	}
	m := g.local[k]
	for i := range g.seats {
		if s := &g.seats[i]; !s.gone && s.nic != e.cfg.ID {
			e.signal(m, i, 0, signalLost, 0, uint64(rank))
		}
	}
}
