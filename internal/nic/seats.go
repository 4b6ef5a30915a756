package nic

import "github.com/weftnet/weft/internal/vni"

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
