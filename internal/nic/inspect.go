package nic

import (
	"fmt"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Transport returns the counts of the reliability layer. The result is live; copy it to keep it.
func (e *Engine) Transport() *rel.Stats {
	e.begin()
	return e.rel.Stats()
}

// Session returns the identifier of the open session with a NIC, the same on both ends; 0 if there
// is none.
func (e *Engine) Session(nic uint64) uint32 {
	if pr := e.peerOf(nic); pr != nil {
		return pr.ep.Session()
	}
	return 0
}

// CreditAccount is the credit of one NIC for one process of another, as one of the two NICs sees
// it.
type CreditAccount struct {
	NIC     uint64 // the other NIC
	Slot    uint16 // of the process, which is on the NIC that gives the credit
	Gen     uint32
	Unspent uint64 // bytes
}

// CreditGiven returns the credit that other NICs have been told of for processes of this one, and
// have not spent.
func (e *Engine) CreditGiven() (l []CreditAccount) {
	e.begin()
	for p := range e.procs.all {
		for _, c := range p.credits {
			l = append(l, CreditAccount{c.pr.nic, p.slot, p.gen, c.announced - c.spent})
		}
	}
	return l
}

// CreditHeld returns the bytes that this NIC may send to a process of another without permission.
// When no record is in flight, the two NICs must agree: credit that the giver counts as unspent
// and the holder does not know of is lost for ever.
func (e *Engine) CreditHeld(nic uint64, slot uint16, gen uint32) uint64 {
	e.begin()
	if pr := e.peerOf(nic); pr != nil {
		if r := pr.remotes[remoteKey{slot, gen}]; r != nil {
			return r.credit()
		}
	}
	return 0
}

// limits returns an error if the sums of the given permissions are wrong, or if more is
// outstanding than the bound.
func (g *granter) limits(e *Engine) error {
	var sum, advance uint64
	for _, pr := range e.peers.list {
		sum += pr.granted
		advance += uint64(pr.gets.n) * limits.GetAdvance
		if (pr.granted > 0) != (pr.holder.in == &g.holders) {
			return fmt.Errorf("peer %v has permission for %d bytes, and is among those that have some: %v",
				nicid.ID(pr.nic), pr.granted, pr.holder.in != nil)
		}
	}
	if sum != g.outstanding || sum > g.bound+advance {
		return fmt.Errorf(
			"permissions for %d bytes are outstanding, of peers for %d, of a bound of %d and %d for GETs",
			g.outstanding, sum, g.bound, advance)
	}
	return nil
}

// Utter sends a peer a record unchecked, right or wrong, so that simulated NICs can misbehave. It
// reports whether the record was sent.
func (e *Engine) Utter(nic uint64, r wire.Record) bool {
	e.begin()
	pr := e.peerOf(nic)
	if pr == nil || len(r) > pr.ep.MaxRecord(wire.Data) {
		return false
	}
	b := pr.ep.Reserve(e.now, wire.SpaceFor(len(r)), len(r))
	return b != nil && copy(b, r) > 0
}

// AlterRelays makes a simulated NIC a hostile relay. The NIC calls alter with each piece of a
// relay body that it passes on for others, and its offset in the body. Nil makes the NIC honest
// again.
func (e *Engine) AlterRelays(alter func(piece []byte, offset int)) {
	e.begin()
	e.relays.Alter = alter
}

// Home returns the NIC that confirms claims to a name, as this NIC sees the fabric.
func (e *Engine) Home(name vni.Name) (nic uint64) {
	e.begin()
	if home := e.names.Home(name); home != nil {
		return home.NIC()
	}
	return e.cfg.ID
}
