package names

import (
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// This file handles claims of other NICs' processes, and the end of claims. A peer tells a claim
// when the claim was confirmed, or when it was made on the other side of a partition. contest.go
// handles several claims to one name.

// of returns the entries of a peer's processes.
func (t *Table) of(p *Peer) (l []*Entry) {
	for _, n := range t.all {
		if n.NIC == p.NIC() && !n.out {
			l = append(l, n)
		}
	}
	return l
}

// takeClaim adds a name that a peer claims for one of its processes. The place of the claim among
// other claims to the name is the time at which this NIC first saw it (contest.go). A first-seen
// time survives a short loss of the session.
func (t *Table) takeClaim(p *Peer, n *Entry, part byte) {
	if old := t.byAddr[n.Address]; old != nil {
		switch {
		case old.stale: // its NIC has come back, perhaps in another life
			n.firstSeen(old)
			t.remove(old)
		// its end overtook it, or it was told already
		case old.dead || old.state == claimHeld || old.Name != n.Name:
			return
		default: // confirmed, by this NIC or another
			n.firstSeen(old)
			t.drop(old)
		}
	}
	if !t.supersede(n) { // its end is in flight
		n.dead = true
		t.put(n)
		t.keep(n, t.nic.Now().Add(limits.NameKeep))
		return
	}
	if p.parted(part, t.nic.Now()) {
		t.rank(n)
	}
	t.put(n)
	// Not so at third NICs: they may hear of an end after the next claim.
	if t.heldBy(t.cfg.NIC, n.Name) != nil {
		t.count(vni.NICNameConflicts)
	}
}

// firstSeen keeps the time at which an earlier record of the same claim was first seen.
func (n *Entry) firstSeen(old *Entry) {
	if old.Name == n.Name {
		n.since = min(n.since, old.since)
	}
}

// supersede ends the earlier claims of a NIC to the name that it claims by n. It returns false if
// there is a later claim. An entry from before this session is earlier, whatever its number: in
// another life the NIC has counted anew.
func (t *Table) supersede(n *Entry) bool {
	for _, o := range slices.Clone(t.claims[n.Name]) {
		switch {
		case o.NIC != n.NIC || o.Address == n.Address || o.dead:
		case int32(o.number-n.number) > 0 && (!o.stale || t.cfg.Defect == mutate.OtherLifeCountsOn):
			return false
		case o.state == claimHeld:
			t.ends(o)
		default:
			t.drop(o)
		}
	}
	return true
}

// takeEnd handles the news that a process has ended.
func (t *Table) takeEnd(n *Entry) {
	old := t.byAddr[n.Address]
	switch {
	case old == nil && t.full(n.NIC):
		t.count(vni.DropFormat)
	case old == nil && t.cfg.Defect == mutate.EndForgotten:
	case old == nil: // it has overtaken the claim, which must do no harm
		n.dead = true
		t.put(n)
		t.ends(n)
	case old.dead:
		old.stale = false
	default:
		t.ends(old)
	}
}

// loses takes the name away from a process of this NIC. For every other process it has ended.
func (t *Table) loses(own, winner *Entry) {
	t.nic.Lost(own.Slot, winner)
	t.End(own.Address)
}

// End makes every NIC forget a process of this NIC and its name.
func (t *Table) End(a vni.Address) {
	n := t.byAddr[a]
	switch {
	case n == nil || n.dead: // the control process, or one that has lost its name
	case n.state != claimHeld:
		t.abandon(n)
	default:
		t.ends(n)
		if t.cfg.Defect != mutate.EndKept {
			t.tellAll(wire.TableEnd, n)
		}
	}
}
