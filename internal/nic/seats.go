package nic

import (
	"encoding/binary"
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Seat is a membership as NICs tell it to one another. It means nothing to others.
type Seat struct {
	seat seat
	key  vni.Name
}

// Seats are the memberships of this NIC's own processes.
func (e *Engine) Seats() []Seat {
	var l []Seat
	for _, g := range e.groups.list {
		for _, m := range g.local {
			if !m.left {
				l = append(l, Seat{m.own, g.key})
			}
		}
	}
	return l
}

// AddSeats tells this NIC of memberships at others, of one group, as those would. Simulations of groups on more NICs than
// they can open pairs between have no other way; elsewhere the tables are told from NIC to NIC.
func (e *Engine) AddSeats(seats []Seat) {
	var g *group
	known := make(map[address]bool)
	for _, s := range seats {
		if g == nil {
			g = e.groups.groupFor(s.key, s.seat.address)
			for i := range g.seats {
				known[g.seats[i].address] = true
			}
		}
		if s.seat.nic != e.cfg.ID && !known[s.seat.address] {
			g.seats = append(g.seats, s.seat)
		}
	}
	if g != nil {
		e.gathered(g)
	}
}

// tellSeats gives a new peer the memberships of this NIC's processes.
func (e *Engine) tellSeats(pr *peer) {
	for _, g := range e.groups.list {
		for _, m := range g.local {
			if !m.left && !g.broken { // one that is over means nothing to who has not been in it
				e.tellSeat(pr, tableJoin, m, 0)
			}
		}
	}
}

func (e *Engine) tellSeat(pr *peer, op byte, m *member, last uint32) {
	if b := e.table(pr, seatLen); b != nil {
		pr.seats.told++
		putSeat(b, op, &m.own, m.g.key, last)
		binary.LittleEndian.PutUint32(b[80:], pr.seats.told)
	}
}

// spreadSeat tells every NIC that m has joined or left.
func (e *Engine) spreadSeat(op byte, m *member, last uint32) {
	if op == tableLeave && e.cfg.Defect == mutate.LeaveNotTold {
		return
	}
	for _, pr := range e.nodes.list {
		e.tellSeat(pr, op, m, last)
	}
}

func putSeat(b []byte, op byte, s *seat, key vni.Name, last uint32) {
	le := binary.LittleEndian
	b[0] = op
	le.PutUint16(b[2:], s.slot)
	le.PutUint32(b[4:], s.gen)
	le.PutUint32(b[8:], s.number)
	le.PutUint32(b[12:], s.size)
	le.PutUint32(b[16:], key.Index)
	copy(b[20:], key.App[:])
	le.PutUint32(b[44:], s.piece)
	le.PutUint32(b[48:], s.name.Index)
	copy(b[52:], s.name.App[:])
	le.PutUint32(b[76:], last)
	putPosition(b[84:], s.at)
}

func parseSeat(nic uint64, b []byte) (s seat, key vni.Name, last uint32) {
	le := binary.LittleEndian
	s = seat{address: address{nic, le.Uint16(b[2:]), le.Uint32(b[4:])}, number: le.Uint32(b[8:]), size: le.Uint32(b[12:]),
		piece: le.Uint32(b[44:])}
	key.Index = le.Uint32(b[16:])
	copy(key.App[:], b[20:44])
	s.name.Index = le.Uint32(b[48:])
	copy(s.name.App[:], b[52:76])
	s.at = parsePosition(b[84:])
	return s, key, le.Uint32(b[76:])
}

func putPosition(b []byte, p Position) {
	for i, v := range [...]uint16{p.X, p.Y, p.Width, p.Height} {
		binary.LittleEndian.PutUint16(b[2*i:], v)
	}
}

func parsePosition(b []byte) Position {
	le := binary.LittleEndian
	return Position{le.Uint16(b), le.Uint16(b[2:]), le.Uint16(b[4:]), le.Uint16(b[6:])}
}

// peerSeats is how the joins and leaves of a session with a peer stand.
type peerSeats struct {
	told  uint32 // how many it has been told
	heard uint32 // how many of its own have been taken, in their order
	early map[uint32][seatLen]byte
	taken int // joins since its seats here were last counted, and those that there were
}

// seatRecord takes the news that a process of a peer has joined or left a group, when its turn has come.
func (e *Engine) seatRecord(pr *peer, b []byte) {
	t := &pr.seats
	change := binary.LittleEndian.Uint32(b[80:])
	if ahead := change - t.heard - 1; ahead > 0 && e.cfg.Defect != mutate.SeatsOvertake {
		if ahead > limits.SeatsPerNIC || len(t.early) >= limits.SeatsPerNIC {
			e.counts[vni.DropFormat]++
			return
		}
		if t.early == nil {
			t.early = make(map[uint32][seatLen]byte)
		}
		t.early[change] = [seatLen]byte(b)
		return
	}
	for {
		t.heard++
		e.seatChange(pr, b)
		next, ok := t.early[t.heard+1]
		if !ok {
			return
		}
		delete(t.early, t.heard+1)
		b = next[:]
	}
}

// seatChange takes the next join or leave of a peer's process.
func (e *Engine) seatChange(pr *peer, b []byte) {
	s, key, last := parseSeat(pr.nic, b)
	if !key.Valid() || !s.name.Valid() || s.slot == 0 || s.number == 0 || s.size > limits.GroupMembers || s.piece < leastPiece ||
		!s.at.Valid() {
		e.counts[vni.DropFormat]++
		return
	}
	g, i := e.groups.find(key, s.address, s.number)
	switch {
	case b[0] == tableLeave && g == nil: // one that had been refused, or not told since its group was over
	case b[0] == tableLeave:
		e.loseSeat(g, i, last, false)
	case g != nil:
		e.returned(g, i)
	case e.seatsFull(pr):
		e.counts[vni.DropFormat]++
	default:
		e.seatJoined(pr, s, key)
	}
}

// seatJoined takes a join. To a group that has all its members and has some here it is refused. If it has none here, its
// end may be news that is still on its way, and the join one to the next group of the name.
func (e *Engine) seatJoined(pr *peer, s seat, key vni.Name) {
	g := e.groups.groupFor(key, s.address)
	if g.complete {
		if slices.ContainsFunc(g.local, func(m *member) bool { return !m.left }) {
			e.sendSignal(pr, wire.Signal{GroupHeader: wire.GroupHeader{Group: s.number, Epoch: key.Index}, What: signalFull})
			return
		}
		g = e.groups.newGroup(key)
	}
	if g.seatOf(s.address) >= 0 {
		e.counts[vni.DropFormat]++
		return
	}
	pr.seats.taken++
	e.names.expect(s.name, s.address)
	e.takeSeat(g, s)
}

// seatsFull reports whether a peer has as many seats here as it may have. They go in many ways, so they are counted anew each
// time that there could be too many.
func (e *Engine) seatsFull(pr *peer) bool {
	t := &pr.seats
	if t.taken < limits.SeatsPerNIC {
		return false
	}
	t.taken = 0
	for _, g := range e.groups.list {
		for i := range g.seats {
			if g.seats[i].nic == pr.nic {
				t.taken++
			}
		}
	}
	return t.taken >= limits.SeatsPerNIC
}

// returned takes a member back whose NIC had been lost to this one alone. To members here it stays lost.
func (e *Engine) returned(g *group, i int) {
	if !g.complete || !g.seats[i].gone || len(g.local) > 0 {
		return
	}
	g.seats[i].gone = false
	g.broken = slices.ContainsFunc(g.seats, func(s seat) bool { return s.gone })
}
