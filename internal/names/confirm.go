package names

import (
	"fmt"
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// The home of a name confirms a claim before a process may use the name (decision 15). So if two
// processes claim a name at the same moment, the second is refused, and learns which process has
// it:
//
//	claimant's NIC             home                    all others
//	waiting ── ask ──────────► asked
//	   │                         │ no process has the name, none asked before
//	   │ ◄───────────── answer ─ granted
//	held ── claim ─────────────► held ◄── claim ────────► held
//
//	   │ ◄───────────── answer ─ (forgotten)        one has it, or asked before: refused
//	refused ── end ────────────► (forgotten)
//
// A NIC that is itself the home, or alone, confirms at once. Other cases:
//
//   - The home has changed meanwhile, since a NIC came or went. The claimant asks the new home.
//     Every NIC that was asked hears of the claim, or of its end, and so keeps no name for an
//     absent process. The answer of a former home is ignored.
//   - A NIC has just come up. It answers no question and claims nothing before it has the tables of
//     all others, and they ask nothing before they have its table. So it knows every name that was
//     confirmed before it was a home.
//   - The asked NIC is not the home in its own view of the fabric. It gives the asker time to see
//     the same, and then answers by its own knowledge.
//   - The holder's NIC has not been heard since the claim arrived. It may be dead, and the claimant
//     may be the same program in its next life. So a NIC that would refuse the claim first probes
//     the holder's NIC (vouch.go).
//   - The home is silent. It is probed, so that it is soon given up and another NIC is the home.
//     Without an answer after confirmPatience, the claim holds provisionally, like claims from the
//     two sides of a partition. If two such claims meet, the home judges (contest.go).

// claimState is the progress of a claim.
type claimState uint8

const (
	claimHeld    claimState = iota // every NIC is told; the name leads to the process
	claimWaiting                   // by a process of this NIC: not confirmed yet
	claimAsked                     // by another NIC's process: this NIC is to judge it
	// claimGranted is by another NIC's process: this NIC has confirmed it; it will soon be held.
	claimGranted
)

// confirmPatience returns the time until which a claim waits for its home. By then a silent home
// is given up, and another has been asked.
func (t *Table) confirmPatience() clock.Time {
	return t.nic.Now().Add(min(t.cfg.UnreachableAfter+4*t.cfg.ProbeEvery, limits.ConfirmWithin))
}

// Claim begins to claim the name of a newly registered process. The engine's Confirmed or Refused
// reports the result.
func (t *Table) Claim(a vni.Address, name vni.Name, life vni.Life) {
	if !t.mayClaim(t.cfg.NIC, name) {
		t.forbid(a.Slot, name)
		return
	}
	t.number++
	n := &Entry{
		Name: name, Address: a, number: t.number, since: t.nic.Now(), state: claimWaiting,
		patience: t.confirmPatience(), life: life, incarnation: life.Incarnation,
	}
	t.openClaim(n)
	t.decide()
}

// openClaim adds an undecided claim.
func (t *Table) openClaim(n *Entry) {
	t.put(n)
	t.open = append(t.open, n)
	t.nic.CheckAt(n.patience)
}

// closeClaim removes a claim from the open claims.
func (t *Table) closeClaim(n *Entry) {
	t.endQuestion(n)
	switch i := slices.Index(t.open, n); {
	case i == 0: // decide visits them in their order: thousands may be closed at once
		t.open[0] = nil
		t.open = t.open[1:]
	case i > 0:
		t.open = slices.Delete(t.open, i, i+1)
	}
}

// decide checks every open claim again, after a change or the passing of time.
func (t *Table) decide() {
	for _, n := range slices.Clone(t.open) {
		switch {
		case n.dead:
			t.closeClaim(n)
		case n.state == claimWaiting:
			t.pursue(n)
		case n.state == claimAsked:
			t.judge(n)
		}
	}
	t.settleContests()
}

// rival returns the entry that has the name of n, or will have it if a question from before n is
// granted.
func (t *Table) rival(n *Entry) *Entry {
	for _, o := range t.claims[n.Name] {
		if o == n {
			break
		}
		if !o.dead && !o.stale {
			return o
		}
	}
	if o := t.byName[n.Name]; o != nil && o.Live() {
		return o
	}
	return nil
}

// decided reports whether a claim can no longer be refused.
func (n *Entry) decided() bool { return n.state == claimHeld || n.state == claimGranted }

// pursue advances a claim of this NIC.
func (t *Table) pursue(n *Entry) {
	over := n.patience <= t.nic.Now()
	if !over {
		t.nic.CheckAt(n.patience)
	}
	o := t.rival(n)
	if o != nil && (over || o.decided() && !t.inHand(n) && t.vouched(n, o)) {
		if !t.press(n, o.Address) {
			t.refuse(n, o.Address)
		}
		return
	}
	if !over && (o != nil || t.gathering()) {
		return
	}
	switch home := t.homeOf(n); {
	case home == nil:
		t.hold(n)
	case over:
		t.count(vni.NICNamesUnconfirmed)
		t.hold(n)
	case home != n.home:
		t.ask(n, home)
	case n.granted:
		t.hold(n)
	}
}

// inHand reports whether the home of a claim is judging it, or has judged it. The home knows
// which of the earlier claims are over. This NIC may hear of a claim only after its process has
// ended. That news must not end what the home has granted.
func (t *Table) inHand(n *Entry) bool { return n.home != nil && n.home == t.homeOf(n) }

// ask asks a NIC to confirm a claim. The NIC is probed until it answers, so that its death is
// noticed.
func (t *Table) ask(n *Entry, home *Peer) {
	t.endQuestion(n)
	if !t.tellName(home, wire.TableAsk, n, partNone) {
		return
	}
	n.home, n.granted = home, false
	home.Watch(1)
	if !slices.Contains(n.asked, home) {
		n.asked = append(n.asked, home)
	}
}

// endQuestion notes that the claim waits for no answer any more.
func (t *Table) endQuestion(n *Entry) {
	if n.home != nil {
		n.home.Watch(-1)
		n.home = nil
	}
}

// forgetAsked notes that the session with a peer is over: its knowledge of this NIC's claims is
// gone.
func (t *Table) forgetAsked(p *Peer) {
	is := func(other *Peer) bool { return other == p }
	for _, n := range t.open {
		if n.near.home == p {
			n.near.found = false
		}
		if n.home == p {
			t.endQuestion(n)
		}
		n.asked, n.promised = slices.DeleteFunc(n.asked, is), slices.DeleteFunc(n.promised, is)
	}
	for _, c := range t.contests {
		if c.near.home == p {
			c.near.found = false
		}
	}
}

// hold makes a claim of this NIC valid and tells every NIC.
func (t *Table) hold(n *Entry) {
	t.closeClaim(n)
	n.state = claimHeld
	t.stands(n)
	t.tellAll(wire.TableClaim, n)
	n.asked, n.promised = nil, nil
	t.count(vni.NICRegistrations)
	t.nic.Confirmed(n.Slot)
}

// refuse ends a claim of this NIC, and the process with it: another process has the name.
func (t *Table) refuse(n *Entry, owner vni.Address) {
	t.abandon(n)
	t.count(vni.NICNamesRefused)
	t.nic.Refused(n.Slot, fmt.Errorf("%w: %v is the process at slot %d of NIC %v",
		ErrTaken, n.Name, owner.Slot, nicid.ID(owner.NIC)))
}

// abandon forgets a claim of this NIC that does not hold, and tells the NICs that were asked to
// confirm it.
func (t *Table) abandon(n *Entry) {
	for _, p := range t.peers {
		if part := n.part(p); part == partPromised || slices.Contains(n.asked, p) && t.cfg.Defect != mutate.ClaimKept {
			t.tellName(p, wire.TableEnd, n, part)
		}
	}
	n.asked, n.promised = nil, nil
	t.drop(n)
}

// part returns the part of this NIC's first table to which the outcome of a claim belongs for a
// peer.
func (n *Entry) part(p *Peer) byte {
	if slices.Contains(n.promised, p) {
		return partPromised
	}
	return partNone
}

// takeAsk handles a claim that this NIC is to confirm.
func (t *Table) takeAsk(n *Entry) {
	if old := t.byAddr[n.Address]; old != nil {
		switch {
		case old.dead || old.Name != n.Name: // its end has overtaken it
		case old.decided(): // it has asked another NIC in between
			t.answer(old, true, vni.Address{})
		}
		return
	}
	if !t.supersede(n) { // it has been given up; its end is in flight
		return
	}
	n.state, n.patience = claimAsked, t.nic.Now().Add(limits.GatherWithin)
	t.openClaim(n)
	t.changed = true
}

// judge confirms or refuses a claim of another NIC.
func (t *Table) judge(n *Entry) {
	o, waits := t.rival(n), n.patience > t.nic.Now()
	if t.cfg.Defect == mutate.HomeForgets && o != nil && !o.Live() {
		o = nil
	}
	switch {
	case o != nil && o.decided() && !t.vouched(n, o): // vouched arranges another check
	case o != nil && (o.decided() || !waits):
		t.answer(n, false, o.Address)
		t.drop(n)
	case waits && (o != nil || t.gathering() || t.homeOf(n) != nil):
		t.nic.CheckAt(n.patience)
	default:
		t.closeClaim(n)
		n.state = claimGranted
		t.answer(n, true, vni.Address{})
	}
}

// answer tells a claimant's NIC whether its claim is granted. If it is not, the answer names the
// process that has the name.
func (t *Table) answer(n *Entry, granted bool, owner vni.Address) {
	verdict := byte(askRefused)
	if granted {
		verdict = askGranted
	}
	t.tellAnswer(n, verdict, owner)
}

func (t *Table) tellAnswer(n *Entry, verdict byte, owner vni.Address) {
	p := t.nic.Peer(n.NIC)
	if p == nil {
		return
	}
	b := t.nic.Record(p.Endpoint, answerLen)
	if b == nil {
		return
	}
	b[0], b[1] = wire.TableAnswer, verdict
	le.PutUint16(b[2:], n.Slot)
	le.PutUint32(b[4:], n.Gen)
	putAddress(b[8:], owner)
}

// takeAnswer handles the answer of a claim's home. A late answer, or one from a former home, is
// ignored.
func (t *Table) takeAnswer(p *Peer, n *Entry, verdict byte, owner vni.Address) {
	switch {
	case n == nil || n.state != claimWaiting || n.home != p && (t.cfg.Defect != mutate.AnswerUnasked || n.home == nil):
	case verdict == askGranted:
		n.granted = true
		t.pursue(n)
	case verdict == askForbidden:
		t.abandon(n)
		t.forbid(n.Slot, n.Name)
	default:
		t.endQuestion(n)
		if !t.press(n, owner) {
			t.refuse(n, owner)
		}
	}
}
