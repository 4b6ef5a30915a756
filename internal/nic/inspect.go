package nic

import (
	"fmt"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Transport returns what the reliability layer has counted. It is live; copy it to keep it.
func (e *Engine) Transport() *rel.Stats {
	e.begin()
	return e.rel.Stats()
}

// Session names the open session with a NIC, as both ends do; 0 if there is none.
func (e *Engine) Session(nic uint64) uint32 {
	if pr := e.peerOf(nic); pr != nil {
		return pr.ep.Session()
	}
	return 0
}

// CreditAccount is the credit of one NIC for one process of another, as one of the two sees it.
type CreditAccount struct {
	NIC     uint64 // the other one
	Slot    uint16 // of the process, which is of the NIC that hands out
	Gen     uint32
	Unspent uint64 // bytes
}

// CreditGiven lists what other NICs have been told that they may send to processes of this one, and have not sent.
func (e *Engine) CreditGiven() (l []CreditAccount) {
	e.begin()
	for p := range e.procs.all {
		for _, c := range p.credits {
			l = append(l, CreditAccount{c.pr.nic, p.slot, p.gen, c.announced - c.spent})
		}
	}
	return l
}

// CreditHeld returns what this NIC may send to a process of another without asking. When no record is under way, the two
// must agree: what the giver believes to be unspent and the holder does not know of is lost for ever.
func (e *Engine) CreditHeld(nic uint64, slot uint16, gen uint32) uint64 {
	e.begin()
	if pr := e.peerOf(nic); pr != nil {
		if r := pr.remotes[remoteKey{slot, gen}]; r != nil {
			return r.credit()
		}
	}
	return 0
}

// limits says what is wrong with the permissions given, if anything: their sums, or the bound of what may be outstanding.
func (g *granter) limits(e *Engine) error {
	var sum, advance uint64
	for _, pr := range e.peers.list {
		sum += pr.granted
		advance += uint64(pr.gets.n) * limits.GetAdvance
		if (pr.granted > 0) != (pr.holder.in == &g.holders) {
			return fmt.Errorf("peer %v has permission for %d bytes, and is among those that have some: %v", nicid.ID(pr.nic), pr.granted, pr.holder.in != nil)
		}
	}
	if sum != g.outstanding || sum > g.bound+advance {
		return fmt.Errorf("permissions for %d bytes are outstanding, of peers for %d, of a bound of %d and %d for GETs", g.outstanding, sum, g.bound, advance)
	}
	return nil
}

// Utter sends a peer a record as it is, right or wrong, so that simulated NICs can go bad. It reports whether it has gone.
func (e *Engine) Utter(nic uint64, r wire.Record) bool {
	e.begin()
	pr := e.peerOf(nic)
	if pr == nil || len(r) > pr.ep.MaxRecord(wire.Data) {
		return false
	}
	b := pr.ep.Reserve(e.now, wire.SpaceFor(len(r)), len(r))
	return b != nil && copy(b, r) > 0
}

// AlterRelays makes a simulated NIC a hostile relay. The NIC calls alter with each piece of a relay
// body that it passes on for others, and its offset in the body. Nil makes the NIC honest again.
func (e *Engine) AlterRelays(alter func(piece []byte, offset int)) {
	e.begin()
	e.relays.Alter = alter
}

// Home is the NIC that confirms claims to a name, as this one sees the fabric.
func (e *Engine) Home(name vni.Name) (nic uint64) {
	e.begin()
	if home := e.names.Home(name); home != nil {
		return home.NIC()
	}
	return e.cfg.ID
}
