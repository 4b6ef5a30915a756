package names

import (
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Two processes hold one name when a partition heals, or when a NIC claims a name that it was not
// granted. The home of the name judges (decision 15). No NIC believes a time from another NIC:
//
//   - The claim that the home saw first holds.
//   - A NIC that was silent for as long as a partition takes, and comes back in the same life,
//     tells its claims in its first table. Such a claim was made on the other side of a partition:
//     of two processes of a rank the newer incarnation wins (yield.go), else the lower NIC id,
//     whichever claim is older.
//   - A NIC that was never here, has restarted, or has said goodbye is a newcomer: the claims of
//     the others hold.
//
// Only the home tells a verdict. The loser obeys if the judging NIC is the home in its own view
// and the claim of the winner has reached it. Both views agree soon after NICs come or go, so the
// verdict waits until then. The other NICs order the claims by the same rules. They show the
// first claim until they hear of the end of the other.
//
// A NIC can feign a partition by silence. It cannot take a name that MayClaim refuses it.

// contest is a name to which several NICs have a live claim.
type contest struct {
	name vni.Name
	near nearest
	// The home leaves a newer process until then to take the name over; 0: not set.
	until clock.Time
}

// parted reports whether a claim of a peer was made, or kept, on the other side of a partition.
// The peer was then silent for long, and tells the claim in the first table of its new session.
func (p *Peer) parted(part byte, now clock.Time) bool {
	return p.back && part == partFirst && !p.told && now <= p.syncBy
}

// rank orders a claim from the other side of a partition before or behind the claim that holds
// the name here.
func (t *Table) rank(n *Entry) {
	o := t.byName[n.Name]
	if o == nil || !o.Live() || o.NIC == n.NIC {
		return
	}
	first := n.NIC < o.NIC
	if n.incarnation != o.incarnation && n.incarnation > 0 && o.incarnation > 0 {
		first = n.incarnation > o.incarnation
	}
	if first != (t.cfg.Defect == mutate.HigherWins) {
		n.since = min(n.since, o.since-1)
	} else {
		n.since = max(n.since, o.since+1)
	}
}

// contested notes a name if several NICs have a live claim to it.
func (t *Table) contested(n *Entry) {
	other := func(o *Entry) bool { return o.NIC != n.NIC && o.Live() }
	if !slices.ContainsFunc(t.claims[n.Name], other) {
		return
	}
	if !slices.ContainsFunc(t.contests, func(c *contest) bool { return c.name == n.Name }) {
		t.contests = append(t.contests, &contest{name: n.Name})
	}
}

// settleContests judges the contested names whose home this NIC is, and obeys the verdicts of other
// homes.
func (t *Table) settleContests() {
	if len(t.contests) > 0 {
		t.contests = slices.DeleteFunc(slices.Clone(t.contests), t.settled)
	}
}

// settled takes the next step in a contest. It reports whether only one claim is left.
func (t *Table) settled(c *contest) bool {
	best := t.byName[c.name]
	if best == nil || !best.Live() {
		return true
	}
	home, over := t.homeFor(&c.near, c.name), true
	t.pressRivals(c.name)
	for _, o := range slices.Clone(t.claims[c.name]) {
		switch {
		case !o.Live():
		case o.NIC == t.cfg.NIC && o.judge != nil && o.judge == home:
			t.obey(o)
			over = over && !o.Live()
		case o == best || o.NIC == best.NIC:
		default:
			over = false
			if home == nil && !t.mayTakeOver(c, o, best) && t.vouched(o, best) {
				t.judgeLoser(o, best)
			}
		}
	}
	return over
}

// pressRivals asks older processes of a rank of this NIC for a name that they claim too.
func (t *Table) pressRivals(name vni.Name) {
	own := t.heldBy(t.cfg.NIC, name)
	if own == nil || !own.life.Proves() {
		return
	}
	for _, o := range t.claims[name] {
		if o.Live() && o.NIC != t.cfg.NIC && o.incarnation < own.incarnation && own.pressed != o.Address {
			t.askForName(own, o.Address)
		}
	}
}

// mayTakeOver reports whether the loser of a contest may be a newer process of a rank than the
// winner. It says so itself, and still has time to prove it to the winner's NIC.
func (t *Table) mayTakeOver(c *contest, o, best *Entry) bool {
	if best.incarnation == 0 || o.incarnation <= best.incarnation {
		return false
	}
	if c.until == 0 {
		c.until = t.nic.Now().Add(limits.ConfirmWithin)
	}
	if c.until <= t.nic.Now() {
		return false
	}
	t.nic.CheckAt(c.until)
	return true
}

// judgeLoser ends a claim that this NIC, the home of the name, ranks behind another one. It does
// so once for each winner.
func (t *Table) judgeLoser(o, best *Entry) {
	if o.beaten == best.Address {
		return
	}
	o.beaten = best.Address
	t.count(vni.NICNameConflicts)
	if o.NIC == t.cfg.NIC {
		t.loses(o, best)
		return
	}
	p := t.nic.Peer(o.NIC)
	if p == nil {
		return
	}
	if b := t.nic.Record(p.Endpoint, lostLen); b != nil {
		b[0] = wire.TableLost
		le.PutUint16(b[2:], o.Slot)
		le.PutUint32(b[4:], o.Gen)
		putAddress(b[8:], best.Address)
	}
}

// takeLost handles the verdict of a peer: the name of a process of this NIC belongs to the
// process at winner. The claim of the winner may still be in flight. The peer may be the home
// because of a change that this NIC does not know of yet.
func (t *Table) takeLost(p *Peer, own *Entry, winner vni.Address) {
	if own == nil || !own.Live() || winner.NIC == t.cfg.NIC {
		t.count(vni.DropFormat)
		return
	}
	if w := t.byAddr[winner]; t.cfg.Defect == mutate.JudgementForgotten && (w == nil || !w.Live()) {
		return
	}
	own.judge, own.winner, t.changed = p, winner, true
}

// obey gives up a name to the process that the home has named, if that process claims it here
// too.
func (t *Table) obey(own *Entry) {
	if w := t.byAddr[own.winner]; w != nil && w.Live() && w.Name == own.Name {
		t.loses(own, w)
	}
}
