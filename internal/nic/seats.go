package nic

import (
	"encoding/binary"
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
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
			if !m.left {
				e.tellSeat(pr, tableJoin, m, 0)
			}
		}
	}
}

func (e *Engine) tellSeat(pr *peer, op byte, m *member, last uint32) {
	if b := e.table(pr, seatLen); b != nil {
		putSeat(b, op, &m.own, m.g.key, last)
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
}

func parseSeat(nic uint64, b []byte) (s seat, key vni.Name, last uint32) {
	le := binary.LittleEndian
	s = seat{address: address{nic, le.Uint16(b[2:]), le.Uint32(b[4:])}, number: le.Uint32(b[8:]), size: le.Uint32(b[12:]),
		piece: le.Uint32(b[44:])}
	key.Index = le.Uint32(b[16:])
	copy(key.App[:], b[20:44])
	s.name.Index = le.Uint32(b[48:])
	copy(s.name.App[:], b[52:76])
	return s, key, le.Uint32(b[76:])
}

// seatRecord takes the news that a process of a peer has joined or left a group.
func (e *Engine) seatRecord(pr *peer, b []byte) {
	s, key, last := parseSeat(pr.nic, b)
	if !key.Valid() || !s.name.Valid() || s.slot == 0 || s.number == 0 || s.size > limits.GroupMembers || s.piece < leastPiece {
		e.counts[vni.DropFormat]++
		return
	}
	g, i := e.groups.find(key, s.address, s.number)
	if b[0] == tableLeave {
		if g == nil { // it has overtaken the join: remember, so that the join does no harm
			if g = e.groups.groupFor(key, s.address); g.complete {
				g = e.groups.newGroup(key)
			}
			s.gone = true
			g.seats = append(g.seats, s)
			return
		}
		e.loseSeat(g, i, last, false)
		return
	}
	switch {
	case g == nil:
		e.takeSeat(e.groups.groupFor(key, s.address), s)
	case g.seats[i].gone && !g.complete: // its leave has overtaken it: both are done with now
		g.seats = slices.Delete(g.seats, i, i+1)
		e.groups.forget(g)
	}
}
