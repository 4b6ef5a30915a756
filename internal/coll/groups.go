package coll

import (
	"encoding/binary"
	"hash/fnv"
	"iter"
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/tree"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Every NIC knows the members of every group of the fabric. As with names, it tells its own to
// every other NIC: all of them when a pair opens, and each change as it happens (seats.go).
//
// A group is one name in one epoch. It gathers seats until it has the expected number. Then they
// are sorted by name, which gives the ranks, and no more processes join. Operation 0 of the group
// finds out whether all members see the same group. It is a barrier whose signals carry a sum
// over all seats; a join completes with that barrier.
//
//	 join            size seats           a member leaves
//	─────► gathering ───────────► complete ───────────────► broken ─► forgotten with its last seat

// seat is a member in the view of every NIC.
type seat struct {
	vni.Address
	name   vni.Name
	number uint32 // the member's number at its NIC
	size   uint32 // the group's size that it expects; 0 if it shrinks a group
	piece  uint32 // the largest piece that its NIC accepts, in bytes
	at     wire.Position
	gone   bool
}

type group struct {
	key vni.Name // the application is the group's name, the index its epoch
	// seats are in the order of their names, which gives the ranks. A gone seat stays if the
	// group is complete.
	seats    []seat
	local    []*member // on this NIC, including those that are leaving
	complete bool
	broken   bool
	places   []wire.Position // of the seats, if all are on the same torus; else nil
	piece    int             // bytes of data in one piece; every member's NIC accepts it
	sum      uint64          // over all seats
}

// live yields the seats that have not gone, with their indexes.
func (g *group) live() iter.Seq2[int, *seat] {
	return func(yield func(int, *seat) bool) {
		for i := range g.seats {
			if s := &g.seats[i]; !s.gone && !yield(i, s) {
				return
			}
		}
	}
}

// seatOf returns the live seat of a process; nil if it has none.
func (g *group) seatOf(a vni.Address) *seat {
	for _, s := range g.live() {
		if s.Address == a {
			return s
		}
	}
	return nil
}

// add adds a seat, unless it is there already.
func (g *group) add(s seat) {
	i, _ := slices.BinarySearchFunc(g.seats, s.name, func(o seat, n vni.Name) int { return o.name.Compare(n) })
	if i == len(g.seats) || g.seats[i] != s {
		g.seats = slices.Insert(g.seats, i, s)
	}
}

// twins returns the number of seats whose name an earlier seat has. A newer process of a rank may
// join before every NIC knows of the older one's end. After a partition, two processes may have
// one name for a while.
func (g *group) twins() (n int) {
	for i := range g.seats {
		if i > 0 && g.seats[i].name == g.seats[i-1].name {
			n++
		}
	}
	return n
}

// expecting returns the number of seats that expect a size.
func (g *group) expecting(size uint32) (n int) {
	for i := range g.seats {
		if g.seats[i].size == size {
			n++
		}
	}
	return n
}

// rankOf returns the rank of a member, gone or not; -1 if it has none.
func (g *group) rankOf(m *member) int { return g.place(m.own.Address, m.own.number) }

func (g *group) place(a vni.Address, number uint32) int {
	return slices.IndexFunc(g.seats, func(s seat) bool { return s.number == number && s.Address == a })
}

// close completes a group: the ranks are fixed.
func (g *group) close() {
	g.complete = true
	h := fnv.New64a()
	var b [seatLen + 8]byte
	least := uint32(limits.PageBytes)
	at := make([]wire.Position, len(g.seats))
	for i := range g.seats {
		s := &g.seats[i]
		putSeat(b[:], 0, s, g.key, 0)
		binary.LittleEndian.PutUint64(b[seatLen:], s.NIC)
		h.Write(b[:])
		least, at[i] = min(least, s.piece), s.at
	}
	if tree.OnTorus(at) {
		g.places = at
	}
	g.piece = int(least) &^ 7 // elements of a vector are not cut
	g.sum = h.Sum64()
}

// groupFor returns the group that a process with this address joins. It is a new group if there
// is none of that name. It is also new if that group is complete and either broken or has a seat
// of this process: then the process begins the next group.
func (t *Table) groupFor(key vni.Name, a vni.Address) *group {
	g := t.byKey[key]
	if g == nil || g.complete && (g.broken || g.seatOf(a) != nil) {
		g = t.newGroup(key)
	}
	return g
}

func (t *Table) newGroup(key vni.Name) *group {
	g := &group{key: key}
	t.byKey[key] = g
	t.list = append(t.list, g)
	return g
}

// find returns the group that has exactly this membership, and its index there.
func (t *Table) find(key vni.Name, a vni.Address, number uint32) (*group, int) {
	for _, g := range t.list {
		if g.key != key {
			continue
		}
		if i := g.place(a, number); i >= 0 {
			return g, i
		}
	}
	return nil, 0
}

// forget drops a group that has neither members nor operations here.
func (t *Table) forget(g *group) {
	if len(g.local) > 0 || slices.ContainsFunc(g.seats, func(s seat) bool { return !s.gone }) {
		return
	}
	if t.byKey[g.key] == g {
		delete(t.byKey, g.key)
	}
	t.list = slices.DeleteFunc(t.list, func(h *group) bool { return h == g })
}

// takeSeat adds a member to its group, and informs the waiting members here.
func (t *Table) takeSeat(g *group, s seat) {
	g.add(s)
	t.gathered(g)
	t.overtaken(g, s.Address)
}

// gathered checks whether a member here can never be in its group, and whether the group is
// complete. A group with two members of one name is not complete: one of them is about to lose
// the name, and its seat.
func (t *Table) gathered(g *group) {
	twins := !g.complete && g.twins() > 0
	if !g.complete && !twins {
		t.refuseMisfits(g)
	}
	if n := len(g.seats); !g.complete && !twins && n > 0 && n == int(g.seats[0].size) && g.expecting(uint32(n)) == n {
		g.close()
	}
	t.tryJoins(g)
}

// refuseMisfits ends the impossible joins here. If joins of different sizes cross, the member
// with the lowest name decides. While a member with another size is still there, there can be
// more members than room; then those with the lowest names stay.
func (t *Table) refuseMisfits(g *group) {
	n := len(g.seats)
	if n == 0 {
		return
	}
	size := g.seats[0].size
	crowded := size > 0 && n > int(size) && g.expecting(size) == n
	for _, m := range slices.Clone(g.local) {
		if m.join != nil && m.base == nil && (m.own.size != size || crowded && g.rankOf(m) >= int(size)) {
			t.endMisfit(m, size, n-1)
		}
	}
}

// loseSeat notes that a member has gone. Operations after last fail for the members here; if all
// is set, every operation does. cause is the rank of the member that caused it: i, or another if
// the join of i has failed.
func (t *Table) loseSeat(g *group, i int, last uint32, all bool, cause int) {
	s := &g.seats[i]
	if s.gone && !all {
		return
	}
	if !g.complete {
		g.seats = slices.Delete(g.seats, i, i+1)
		t.gathered(g) // members that shrink a group wait for it no more
	} else {
		s.gone, g.broken = true, true
		for _, m := range slices.Clone(g.local) {
			t.breakMember(m, cause, last, all)
		}
		t.breakParts(g, &g.seats[cause])
		// Members that shrink this group wait for the lost member no more.
		for _, h := range slices.Clone(t.list) {
			if h != g && !h.complete {
				t.gathered(h)
			}
		}
	}
	t.forget(g)
}

// Down ends a session, or the attempt at one: the members at the peer have gone with it. The
// others may not have noticed, and are told. If the peer has said goodbye, it has already sent
// all that it owed.
func (t *Table) Down(pr *Peer, goodbye bool) {
	t.up = slices.DeleteFunc(t.up, func(other *Peer) bool { return other == pr })
	pr.signals, pr.news = nil, peerNews{}
	nic := pr.NIC()
	for _, g := range slices.Clone(t.list) {
		if !g.complete { // all at once: the rest may be a group, with other ranks
			n := len(g.seats)
			if g.seats = slices.DeleteFunc(g.seats, func(s seat) bool { return s.NIC == nic }); len(g.seats) < n {
				t.gathered(g)
				t.forget(g)
			}
			continue
		}
		for i := range g.seats {
			if s := &g.seats[i]; s.NIC == nic && !(s.gone && goodbye) {
				news := !s.gone
				t.loseSeat(g, i, 0, true, i)
				if news {
					t.spreadLoss(g, i)
				}
			}
		}
	}
}

// spreadLoss tells the other members of a group that one of them has gone.
func (t *Table) spreadLoss(g *group, rank int) {
	k := slices.IndexFunc(g.local, func(m *member) bool { return g.rankOf(m) >= 0 })
	if k < 0 || t.cfg.Defect == mutate.LossNotSpread {
		return
	}
	for i, s := range g.live() {
		if s.NIC != t.cfg.NIC {
			t.signal(g.local[k], i, 0, signalLost, 0, uint64(rank))
		}
	}
}
