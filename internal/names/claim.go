package names

import (
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Claims of other NICs' processes, and the end of claims. A claim that is told holds: it was confirmed, or made on the other
// side of a partition.

// of lists the entries of a peer's processes.
func (t *Table) of(p *Peer) (l []*Entry) {
	for _, n := range t.all {
		if n.NIC == p.NIC() && !n.out {
			l = append(l, n)
		}
	}
	return l
}

// takeClaim adds a name that a peer claims for one of its processes. Of two claims to one name the older wins; so that both
// sides judge alike, the NIC with the lower id judges and tells the other.
func (t *Table) takeClaim(p *Peer, n *Entry) {
	if old := t.byAddr[n.Address]; old != nil {
		switch {
		case old.stale: // its NIC has come back, perhaps in another life
			t.remove(old)
		case old.dead || old.state == claimHeld || old.Name != n.Name: // its end overtook it, or it was told already
			return
		default: // confirmed, by this NIC or another
			t.drop(old)
		}
	}
	if !t.supersede(n) { // its end is under way
		n.dead = true
		t.put(n)
		t.keep(n, t.nic.Now().Add(limits.NameKeep))
		return
	}
	own := t.heldBy(t.cfg.NIC, n.Name)
	t.put(n)
	switch {
	case own == nil:
	case t.cfg.NIC > n.NIC:
		if own.lostTo == p { // the judgement overtook this claim
			t.loses(own, n)
		}
	case (own.since <= n.since) != (t.cfg.Defect == mutate.YoungerWins):
		t.count(vni.NICNameConflicts)
		if b := t.nic.Record(p.Endpoint, lostLen); b != nil {
			b[0] = wire.TableLost
			le.PutUint16(b[2:], n.Slot)
			le.PutUint32(b[4:], n.Gen)
		}
	default:
		t.count(vni.NICNameConflicts)
		t.loses(own, n)
	}
}

// tells reports whether a peer tells a claim that it has made since its first table is complete: then each NIC knows the names of the
// other, and a name that one has is refused to the processes of the other.
func (p *Peer) tells(part byte) bool { return p.synced || p.told && part != partPromised }

// makeYounger has a claim of a peer that was made behind its first table be younger than each that holds here, whatever age the peer says:
// older ones are told in the table alone.
func (t *Table) makeYounger(n *Entry) {
	for _, o := range t.claims[n.Name] {
		if o.NIC != n.NIC && o.state == claimHeld && o.Live() && !o.stale {
			n.since = max(n.since, o.since+1)
		}
	}
}

// supersede ends the earlier claims of a NIC to the name that it claims by n. It returns false if there is a later one. What
// is left from before this session is earlier, whatever its number: in another life the NIC has counted anew.
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

// takeEnd takes the news that a process has ended.
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

// takeLost takes the judgement of a peer that the name of a process of this NIC is its own. It may judge if its id is the
// lower one, and about names that it claims; the claim may still be under way.
func (t *Table) takeLost(p *Peer, own *Entry) {
	if own == nil || !own.Live() || p.NIC() > t.cfg.NIC {
		t.count(vni.DropFormat)
		return
	}
	if t.cfg.Defect != mutate.JudgementForgotten {
		own.lostTo = p
	}
	if n := t.heldBy(p.NIC(), own.Name); n != nil {
		t.count(vni.NICNameConflicts)
		t.loses(own, n)
	}
}

// loses takes its name from a process of this NIC: another has it by an older claim. For every other process it has ended.
func (t *Table) loses(own, winner *Entry) {
	t.nic.Lost(own.Slot, winner)
	t.End(own.Address)
}

// End has every NIC forget a process of this one and its name.
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
