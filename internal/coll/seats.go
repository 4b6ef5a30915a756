package coll

import (
	"encoding/binary"
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// News of joins and leaves travel in Table records, as those of names do:
//
//	 0  6: join, 7: leave  1
//	 1  zero               1
//	 2  slot               2
//	 4  generation         4
//	 8  member's number    4   at its NIC
//	12  size               4   that it expects; 0 if it shrinks a group. In the leave of a failed
//	                           join: 1 + the rank of the member to blame, if any
//	16  epoch              4   of the group
//	20  group             24
//	44  largest piece      4   that its NIC accepts, in bytes
//	48  process's index    4
//	52  application       24
//	76  last operation     4   in a leave: the last completed one; later ones fail
//	80  change             4   number of this change in the session, from 1
//	84  position           8   of the NIC on a torus
//
// Records overtake one another, and a join and its leave must not: each has its number, and is
// handled in its turn.
const seatLen = 92

// peerNews is the state of the joins and leaves in a session with a peer.
type peerNews struct {
	told  uint32 // how many it has been told
	heard uint32 // how many of its own have been handled, in their order
	early map[uint32][seatLen]byte
	taken int // joins since its seats here were last counted, and those of that count
}

// tellSeats tells a new peer the memberships of this NIC's processes.
func (t *Table) tellSeats(pr *Peer) {
	for _, g := range t.list {
		for _, m := range g.local {
			// A broken group means nothing to NICs that have not been in it.
			if !m.left && !g.broken {
				t.tellSeat(pr, wire.TableJoin, m, 0)
			}
		}
	}
}

func (t *Table) tellSeat(pr *Peer, op byte, m *member, last uint32) {
	if b := t.nic.Record(pr.Endpoint, seatLen); b != nil {
		pr.news.told++
		s := m.own
		if op == wire.TableLeave {
			s.size = m.blamed()
		}
		putSeat(b, op, &s, m.g.key, last)
		binary.LittleEndian.PutUint32(b[80:], pr.news.told)
	}
}

// spreadSeat tells every NIC that m has joined or left.
func (t *Table) spreadSeat(op byte, m *member, last uint32) {
	if op == wire.TableLeave && t.cfg.Defect == mutate.LeaveNotTold {
		return
	}
	if t.cfg.Defect == mutate.LastForgotten {
		last = 0
	}
	for _, pr := range t.up {
		t.tellSeat(pr, op, m, last)
	}
}

func putSeat(b []byte, op byte, s *seat, key vni.Name, last uint32) {
	le := binary.LittleEndian
	b[0] = op
	le.PutUint16(b[2:], s.Slot)
	le.PutUint32(b[4:], s.Gen)
	le.PutUint32(b[8:], s.number)
	le.PutUint32(b[12:], s.size)
	le.PutUint32(b[16:], key.Index)
	copy(b[20:], key.App[:])
	le.PutUint32(b[44:], s.piece)
	le.PutUint32(b[48:], s.name.Index)
	copy(b[52:], s.name.App[:])
	le.PutUint32(b[76:], last)
	s.at.Put(b[84:])
}

func parseSeat(nic uint64, b []byte) (s seat, key vni.Name, last uint32) {
	le := binary.LittleEndian
	s = seat{
		Address: vni.Address{NIC: nic, Slot: le.Uint16(b[2:]), Gen: le.Uint32(b[4:])},
		number:  le.Uint32(b[8:]), size: le.Uint32(b[12:]),
		piece: le.Uint32(b[44:]), at: wire.ParsePosition(b[84:]),
	}
	key.Index = le.Uint32(b[16:])
	copy(key.App[:], b[20:44])
	s.name.Index = le.Uint32(b[48:])
	copy(s.name.App[:], b[52:76])
	return s, key, le.Uint32(b[76:])
}

// News handles, in its turn, the payload of a Table record about a peer's process that has joined
// or left a group.
func (t *Table) News(pr *Peer, b []byte) {
	if len(b) < seatLen {
		t.count(vni.DropFormat)
		return
	}
	n := &pr.news
	change := binary.LittleEndian.Uint32(b[80:])
	if ahead := change - n.heard - 1; ahead > 0 && t.cfg.Defect != mutate.SeatsOvertake {
		if ahead > limits.SeatsPerNIC || len(n.early) >= limits.SeatsPerNIC {
			t.count(vni.DropFormat)
			return
		}
		if n.early == nil {
			n.early = make(map[uint32][seatLen]byte)
		}
		n.early[change] = [seatLen]byte(b)
		return
	}
	for {
		n.heard++
		t.seatChange(pr, b)
		next, ok := n.early[n.heard+1]
		if !ok {
			return
		}
		delete(n.early, n.heard+1)
		b = next[:]
	}
}

// seatChange handles the next join or leave of a peer's process.
func (t *Table) seatChange(pr *Peer, b []byte) {
	s, key, last := parseSeat(pr.NIC(), b)
	if !key.Valid() || !s.name.Valid() || s.Slot == 0 || s.number == 0 ||
		s.size > limits.GroupMembers || s.piece < leastPiece ||
		!s.at.Valid() {
		t.count(vni.DropFormat)
		return
	}
	g, i := t.find(key, s.Address, s.number)
	switch {
	// A join that was refused, or not told since its group was over.
	case b[0] == wire.TableLeave && g == nil:
	case b[0] == wire.TableLeave:
		t.loseSeat(g, i, last, false, g.cause(i, last, s.size))
	case g != nil:
		t.returned(g, i)
	case t.seatsFull(pr):
		t.count(vni.DropFormat)
	default:
		t.seatJoined(pr, s, key)
	}
}

// seatJoined handles a join. A join to a complete group with members here is refused. If the
// group has no members here, the news of its end may still be in flight, and the join may be for
// the next group of the name.
func (t *Table) seatJoined(pr *Peer, s seat, key vni.Name) {
	g := t.groupFor(key, s.Address)
	if g.complete {
		if slices.ContainsFunc(g.local, func(m *member) bool { return !m.left }) {
			t.sendSignal(pr, wire.Signal{
				GroupHeader: wire.GroupHeader{Group: s.number, Epoch: key.Index},
				What:        signalFull, Value: uint64(len(g.seats)),
			})
			return
		}
		g = t.newGroup(key)
	}
	if g.seatOf(s.Address) != nil {
		t.count(vni.DropFormat)
		return
	}
	pr.news.taken++
	t.nic.Expect(s.name, s.Address)
	t.takeSeat(g, s)
}

// seatsFull reports whether a peer has the largest allowed number of seats here. Seats end in
// many ways, so they are counted again whenever there could be too many.
func (t *Table) seatsFull(pr *Peer) bool {
	n := &pr.news
	if n.taken < limits.SeatsPerNIC {
		return false
	}
	n.taken = 0
	for _, g := range t.list {
		for i := range g.seats {
			if g.seats[i].NIC == pr.NIC() {
				n.taken++
			}
		}
	}
	return n.taken >= limits.SeatsPerNIC
}

// returned restores a member whose NIC had been lost only to this NIC. For members here it stays
// lost.
func (t *Table) returned(g *group, i int) {
	if !g.complete || !g.seats[i].gone || len(g.local) > 0 {
		return
	}
	g.seats[i].gone = false
	g.broken = slices.ContainsFunc(g.seats, func(s seat) bool { return s.gone })
}
