package gossip

import (
	"net/netip"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/registry"
)

// holders remembers which NIC has each id, so that the first NIC that claims it keeps it.
type holders map[registry.NICID]netip.AddrPort

// dispute is a claim to an id that another NIC has.
type dispute struct {
	id              registry.NICID
	holder, ignored netip.AddrPort
}

// judge decides which NICs exist, by id, and which claims are ignored. The NIC that has an id
// keeps it as long as it is there and does not give it up. Among several new claims, the one of
// the oldest life wins. Claims at one address are lives of one NIC, and the latest one counts.
func (h holders) judge(claims []claim) (nodes []registry.Node, disputes []dispute) {
	byID := make(map[registry.NICID][]claim)
	for _, c := range latest(claims) {
		byID[c.id] = append(byID[c.id], c)
	}
	for id := range h {
		if byID[id] == nil {
			delete(h, id)
		}
	}
	for id, of := range byID {
		winner, ok := h.winner(id, of)
		if !ok {
			delete(h, id)
			continue
		}
		h[id] = winner
		nodes = append(nodes, registry.Node{ID: id, Addr: winner})
		for _, c := range of {
			if c.addr != winner {
				disputes = append(disputes, dispute{id, winner, c.addr})
			}
		}
	}
	slices.SortFunc(nodes, func(a, b registry.Node) int {
		if a.ID < b.ID {
			return -1
		}
		return 1 // an id occurs once
	})
	return nodes, disputes
}

// winner returns the address of the NIC that has the id.
func (h holders) winner(id registry.NICID, of []claim) (addr netip.AddrPort, ok bool) {
	var best claim
	for _, c := range of {
		switch {
		case c.addr == h[id] && c.stance != refused:
			return c.addr, true
		case c.stance == claiming && (!ok || c.less(best)):
			best, ok = c, true
		}
	}
	return best.addr, ok
}

// latest keeps one claim of each NIC: a killed NIC may still be a member while its next life is
// one, too.
func latest(claims []claim) (kept []claim) {
	type nic struct {
		id   registry.NICID
		addr netip.AddrPort
	}
	at := make(map[nic]int)
	for _, c := range claims {
		n := nic{c.id, c.addr}
		i, seen := at[n]
		switch {
		case !seen:
			at[n] = len(kept)
			kept = append(kept, c)
		case kept[i].incarnation < c.incarnation:
			kept[i] = c
		}
	}
	return kept
}

// self is this NIC's own claim:
//
//	          no other NIC claims the id
//	starting ───────────────────────────► claiming ◄──┐
//	    │                                     │       │ no other NIC has claimed it for grace
//	    │ another claims it                   │ another of an older life claims it, too:
//	    └────────────────► refused ◄──────────┘ they met after a partition
//	                          └───────────────────────┘
//
// A refused NIC waits because the NIC that has the id may only be restarting.
type self struct {
	claim
	grace time.Duration
	since time.Time      // if refused: when the id was last seen claimed
	there bool           // if refused: it was claimed at the last look
	by    netip.AddrPort // if refused: which NIC has it
}

// look updates the stance from the claims of all members, possibly including its own. It returns
// when to look again if nothing changes before; 0 is never.
func (s *self) look(now time.Time, claims []claim) (again time.Duration) {
	var other claim // the oldest claim to our id elsewhere
	for _, c := range claims {
		if c.id == s.id && c.addr != s.addr && c.stance == claiming && (other.id == 0 || c.less(other)) {
			other = c
		}
	}
	// It is gone just now, even if the last look is long past: while it stays, nothing changes.
	gone := s.there && other.id == 0
	s.there = other.id != 0
	switch {
	case other.id != 0 && (s.stance != claiming || other.less(s.claim)):
		s.stance, s.since, s.by = refused, now, other.addr
		return s.grace
	case s.stance == starting:
		s.stance = claiming
	case s.stance == refused && gone:
		s.since = now
		return s.grace
	case s.stance == refused && now.Sub(s.since) < s.grace:
		return s.grace - now.Sub(s.since)
	case s.stance == refused:
		s.stance = claiming
	}
	return 0
}
