package nic

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
)

// A claim to a name is confirmed by the name's home before anybody may use the name (decision 15), so that of two
// processes that claim it at the same moment the second is refused, and told who has it:
//
//	claimant's NIC             home                    all others
//	waiting ── ask ──────────► asked
//	   │                         │ nobody has the name, nobody asked before
//	   │ ◄───────────── answer ─ granted
//	held ── claim ─────────────► held ◄── claim ────────► held
//
//	   │ ◄───────────── answer ─ (forgotten)        somebody has it, or asked before: refused
//	refused ── end ────────────► (forgotten)
//
// A NIC that is the home itself, or alone, confirms at once. What else can happen:
//
//   - The home is another meanwhile, since a NIC came or went: the claimant asks that one. Every NIC that was asked hears of
//     the claim, or of its end, and so keeps no name for nobody. An answer of one that is home no longer counts for nothing.
//   - A NIC has just come up: it answers nobody, and claims nothing, before it has the tables of all the others; and those
//     ask nobody before they have its own. So it knows of every name that was confirmed before it was anybody's home.
//   - Who is asked is not the home as it sees the fabric: it gives the asker time to see the same, and then answers by what
//     it knows.
//   - The home is silent: it is probed, so that it is soon given up, and another is the home. If nobody has answered when
//     confirmPatience is over, the claim holds provisionally, as those do that are made on both sides of a partition: when
//     two such meet, the older wins (tables.go).

// claimState is how far a claim has come.
type claimState uint8

const (
	claimHeld    claimState = iota // everybody is told; the name leads to the process
	claimWaiting                   // of a process of ours: not confirmed yet
	claimAsked                     // of another NIC's: we are to judge it
	claimGranted                   // of another NIC's: we have confirmed it, and it will be held soon
)

const (
	askGranted = 1
	answerLen  = 24
)

// confirmPatience is until when a claim waits for its home: a silent one is given up by then, and another has been asked.
func (e *Engine) confirmPatience() clock.Time {
	return e.now.Add(min(e.cfg.UnreachableAfter+2*e.cfg.ProbeEvery, limits.ConfirmWithin))
}

// claim begins to claim the name of a process that has just registered.
func (t *nameTable) claim(e *Engine, p *process) {
	t.number++
	n := &nameEntry{name: p.name, address: address{e.cfg.ID, p.slot, p.gen}, number: t.number, since: e.now, state: claimWaiting}
	t.put(e, n)
	t.open = append(t.open, n)
	e.decide()
	e.checkAt(0)
}

// decide looks at every open claim again: something has changed, or time has passed.
func (e *Engine) decide() {
	for _, n := range slices.Clone(e.names.open) {
		switch {
		case n.dead || n.out:
			e.closeClaim(n)
		case n.state == claimWaiting:
			e.pursue(n)
		case n.state == claimAsked:
			e.judge(n)
		}
	}
}

// closeClaim takes a claim off those that are open.
func (e *Engine) closeClaim(n *nameEntry) {
	e.askNobody(n)
	e.names.open = slices.DeleteFunc(e.names.open, func(o *nameEntry) bool { return o == n })
}

// rival finds who has a name, or will have it if it is granted what it asked for before n did.
func (t *nameTable) rival(n *nameEntry) *nameEntry {
	for _, o := range t.claims[n.name] {
		if o == n {
			break
		}
		if !o.dead && !o.stale {
			return o
		}
	}
	if o := t.byName[n.name]; o != nil && o.live() {
		return o
	}
	return nil
}

// decided reports whether a claim is past being refused.
func (n *nameEntry) decided() bool { return n.state == claimHeld || n.state == claimGranted }

// pursue brings a claim of ours on.
func (e *Engine) pursue(n *nameEntry) {
	if n.patience == 0 {
		n.patience = e.confirmPatience()
	}
	e.checkAt(n.patience)
	o := e.names.rival(n)
	if o != nil && (o.decided() || n.patience <= e.now) {
		e.refuseOwn(n, Address{o.nic, o.slot, o.gen})
		return
	}
	if n.patience > e.now && (o != nil || e.gathering()) {
		return
	}
	switch home := e.homeOfClaim(n); {
	case home == nil:
		e.hold(n)
	case n.patience <= e.now:
		e.counts[vni.NICNamesUnconfirmed]++
		e.hold(n)
	case home != n.home:
		e.ask(n, home)
	case n.granted:
		e.hold(n)
	}
}

// ask asks a NIC for its confirmation. It is probed until it answers, so that it is noticed if it cannot.
func (e *Engine) ask(n *nameEntry, home *peer) {
	e.askNobody(n)
	b := e.table(home, claimLen)
	if b == nil {
		return
	}
	putClaim(b, tableAsk, n, 0)
	n.home, n.granted = home, false
	home.ep.Watch(1)
	if !slices.Contains(n.asked, home) {
		n.asked = append(n.asked, home)
	}
}

// askNobody notes that nobody's answer is waited for any more.
func (e *Engine) askNobody(n *nameEntry) {
	if n.home != nil {
		n.home.ep.Watch(-1)
		n.home = nil
	}
}

// forgetAsked notes that the session with a peer is over: whatever it knew of a claim of ours is gone.
func (e *Engine) forgetAsked(n *nameEntry, pr *peer) {
	if n.near.home == pr {
		n.near.found = false
	}
	if n.home == pr {
		e.askNobody(n)
	}
	is := func(other *peer) bool { return other == pr }
	n.asked, n.promised = slices.DeleteFunc(n.asked, is), slices.DeleteFunc(n.promised, is)
}

// hold makes a claim of ours good: everybody is told.
func (e *Engine) hold(n *nameEntry) {
	e.closeClaim(n)
	n.state = claimHeld
	e.names.stands(e, n)
	for _, pr := range e.nodes.list {
		e.tellClaim(pr, n, n.part(pr))
	}
	n.asked, n.promised = nil, nil
	e.counts[vni.NICRegistrations]++
	e.welcome(e.process(n.slot))
}

// refuseOwn ends a claim of ours, and the process with it: another has the name.
func (e *Engine) refuseOwn(n *nameEntry, owner Address) {
	p := e.process(n.slot)
	e.dropOwn(n)
	e.counts[vni.NICNamesRefused]++
	e.vacate(p, nameTaken(n.name, owner))
}

func nameTaken(name vni.Name, owner Address) error {
	return fmt.Errorf("%w: %v is the process at slot %d of NIC %v", ErrNameTaken, name, owner.Slot, nicText(owner.NIC))
}

// nicText writes a NIC's id as eight decimal octets (decision 1).
func nicText(id uint64) string {
	b := binary.BigEndian.AppendUint64(nil, id)
	return fmt.Sprintf("%d:%d:%d:%d:%d:%d:%d:%d", b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7])
}

// dropOwn forgets a claim of ours that does not hold, and lets those know who were asked to confirm it.
func (e *Engine) dropOwn(n *nameEntry) {
	for _, pr := range e.nodes.list {
		if part := n.part(pr); part == partPromised || slices.Contains(n.asked, pr) {
			e.tellEnd(pr, n, part)
		}
	}
	n.asked, n.promised = nil, nil
	e.closeClaim(n)
	e.names.remove(n)
	e.checkAt(0)
	e.reconsider = true
}

// part says which part of our first table the fate of a claim is to a peer.
func (n *nameEntry) part(pr *peer) byte {
	if slices.Contains(n.promised, pr) {
		return partPromised
	}
	return partNone
}

// takeAsk takes a claim that this NIC is to confirm.
func (e *Engine) takeAsk(n *nameEntry) {
	if old := e.names.byAddr[n.address]; old != nil {
		switch {
		case old.dead || old.name != n.name: // its end has overtaken it
		case old.state == claimGranted || old.state == claimHeld: // it has asked another in between
			e.reply(old, true, Address{})
		}
		return
	}
	if !e.supersede(n) { // it has been given up; its end is under way
		return
	}
	c := *n
	c.state, c.patience = claimAsked, e.now.Add(limits.GatherWithin)
	e.names.put(e, &c)
	e.names.open = append(e.names.open, &c)
	e.checkAt(c.patience)
	e.reconsider = true
}

// judge confirms or refuses a claim of another NIC.
func (e *Engine) judge(n *nameEntry) {
	o, waits := e.names.rival(n), n.patience > e.now
	if e.cfg.Defect == mutate.HomeForgets && o != nil && !o.live() {
		o = nil
	}
	switch {
	case o != nil && (o.decided() || !waits):
		e.reply(n, false, Address{o.nic, o.slot, o.gen})
		e.closeClaim(n)
		e.names.remove(n)
		e.checkAt(0)
		e.reconsider = true
	case waits && (o != nil || e.gathering() || e.homeOfClaim(n) != nil):
		e.checkAt(n.patience)
	default:
		e.closeClaim(n)
		n.state = claimGranted
		e.reply(n, true, Address{})
	}
}

// reply tells a claimant's NIC what this one thinks of its claim:
//
//	 0  10                  1
//	 1  1: granted          1
//	 2  slot                2    of the claimant
//	 4  generation          4
//	 8  NIC id              8    of the process that has the name, if it is not granted
//	16  generation          4
//	20  slot                2
//	22  zero                2
func (e *Engine) reply(n *nameEntry, granted bool, owner Address) {
	pr := e.peerOf(n.nic)
	if pr == nil {
		return
	}
	b := e.table(pr, answerLen)
	if b == nil {
		return
	}
	le := binary.LittleEndian
	b[0] = tableAnswer
	if granted {
		b[1] = askGranted
	}
	le.PutUint16(b[2:], n.slot)
	le.PutUint32(b[4:], n.gen)
	le.PutUint64(b[8:], owner.NIC)
	le.PutUint32(b[16:], owner.Gen)
	le.PutUint16(b[20:], owner.Slot)
}

// takeAnswer takes the answer of a claim's home. One that comes late, or from a NIC that is the home no longer, counts for
// nothing.
func (e *Engine) takeAnswer(pr *peer, b []byte) {
	le := binary.LittleEndian
	n := e.names.byAddr[address{e.cfg.ID, le.Uint16(b[2:]), le.Uint32(b[4:])}]
	if n == nil || n.state != claimWaiting || n.home != pr {
		return
	}
	if b[1] != askGranted {
		e.refuseOwn(n, Address{le.Uint64(b[8:]), le.Uint16(b[20:]), le.Uint32(b[16:])})
		return
	}
	n.granted = true
	e.pursue(n)
}
