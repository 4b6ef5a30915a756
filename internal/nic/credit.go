package nic

import (
	"slices"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Credit lets short messages leave without permission (decision 8). It belongs to a pair (sending
// NIC, destination process) and comes out of that process's staging quota. It is given again when
// messages are matched, unless other messages wait in line for staging. All totals count from the
// start of the session.
//
//	receiver's NIC (credit)                       sender's NIC (remote)
//	handed  ──────────── Credit ────────────────► granted
//	spent   ◄──────── Frag, Run, Eager ────────── used
//	        ──────────── Credit, Recall ────────►
//	returned◄─────────── Credit, Return ───────── returned (its unused credit counts as used)

// remote holds what this NIC knows of a process of another NIC to which its own processes send.
type remote struct {
	key      remoteKey
	users    int // processes of ours that have sent to it: their dests
	granted  uint64
	used     uint64
	returned uint64
	requests int        // permission requests that are open there
	long     int        // longer messages that are in flight or have asked
	waiting  list[send] // sends that have neither credit nor room for a request
	admitted *send      // the waiting send that has its turn before all newer ones
}

// remoteKey identifies a process of a peer, in one life.
type remoteKey struct {
	slot uint16
	gen  uint32
}

// unused reports whether r may be forgotten: no process of ours may send to it, and it has given
// no credit. Once it has given credit, the totals must continue.
func (r *remote) unused() bool { return r.users == 0 && r.granted == 0 }

// credited returns what we know of the process of the peer that a credit record is about. If the
// process of ours that used it has left meanwhile, there is nothing yet; the credit stays for the
// next process. credited returns nil if the process is known to have ended, or if it is one too
// many.
func (e *Engine) credited(pr *peer, k wire.Credit) *remote {
	key := remoteKey{k.Slot, k.Gen}
	if rm := pr.remotes[key]; rm != nil {
		return rm
	}
	ended, _ := e.ended(vni.Address{NIC: pr.nic, Slot: k.Slot, Gen: k.Gen})
	if ended || k.Bytes == 0 || len(pr.remotes) >= limits.NamesPerNIC {
		return nil
	}
	return pr.remote(key)
}

func (r *remote) credit() uint64 { return r.granted - min(r.used, r.granted) }

// admit lets the first send that waits for credit or for room for a request, and that can now
// leave, take its turn. It goes before all newer sends, which get only what it leaves. Every send
// that leaves calls admit too, so that all sends that can leave continue. A send that cannot leave
// does not hold up those behind it: its receiver may be waiting for one of them.
func (e *Engine) admit(rm *remote) {
	if rm.admitted != nil {
		return
	}
	if w := e.first(rm); w != nil {
		rm.admitted = w
		e.ready(w)
	}
}

// first returns the oldest waiting send that could leave now, or nil.
func (e *Engine) first(rm *remote) *send {
	for n := rm.waiting.head; n != nil; n = n.next {
		if e.mayAsk(rm) || n.v.goesOnCredit(rm.credit()) {
			return n.v
		}
	}
	return nil
}

// mayAsk reports whether one more permission request may be open there.
func (e *Engine) mayAsk(rm *remote) bool { return rm.requests < e.cfg.Requests }

// goesOnCredit reports whether a message may leave without permission, given this much credit. A
// longer message may do so only while no other longer one is in flight or waits. With permission,
// several longer messages arrive one after the other. Otherwise their packets would take turns,
// all would be half there, and they would use up the credit of short messages. A refilled send
// always asks for permission: its process may take its time to describe the rest, and a
// half-received message must not lie in a receiver's staging.
func (s *send) goesOnCredit(credit uint64) bool {
	n, rm := s.frag.Length, s.dest.remote
	if n > limits.UnaskedMessage && (rm.long > 0 || n > eagerMost(s.dest.peer.ep.Capacity())) {
		return false
	}
	return credit >= stagedCost(n) && s.refill == nil
}

// longBegins counts a longer message that leaves or asks for permission.
func (s *send) longBegins() {
	if s.frag.Length > limits.UnaskedMessage {
		s.long = true
		s.dest.remote.long++
	}
}

// longOver notes that a longer message is over. The next one need not ask if no other is in
// flight.
func (e *Engine) longOver(s *send) {
	if s.long {
		s.long = false
		s.dest.remote.long--
		e.admit(s.dest.remote)
	}
}

// eagerMost returns the longest message, in bytes, that may leave on credit to a NIC with this
// capacity of bytes in flight. A NIC with room for only a few of the longest messages permits them
// one by one: messages that several NICs send at once would not fit.
func eagerMost(capacity uint64) uint64 {
	if capacity < limits.RoomyCapacity {
		return limits.UnaskedMessage
	}
	return limits.EagerMessage
}

// credit holds what one NIC was given of the staging of a process of ours, and what else that NIC
// takes of its memory.
type credit struct {
	pr        *peer
	handed    uint64
	announced uint64
	spent     uint64
	returned  uint64
	// Of the quota: given, and not yet arrived, matched and given again, or returned.
	out      uint64
	lastUse  clock.Time
	recalled bool
	heard    bool          // a process of that NIC has sent a message in this session
	sources  int           // such processes that are remembered
	voids    int           // numbers of withdrawn messages that are parked
	givenUp  *givenUpCalls // by its processes; nil: none
}

// creditOf returns the credit of a NIC for a process. It starts empty.
func (p *process) creditOf(pr *peer) *credit {
	for _, c := range p.credits {
		if c.pr == pr {
			return c
		}
	}
	c := &credit{pr: pr}
	p.credits = append(p.credits, c)
	return c
}

// giveCredit gives a NIC its first credit for a process, if the quota has room. If not, it recalls
// credit from the NIC that has used its own least recently.
func (e *Engine) giveCredit(pr *peer, p *process) {
	c := p.creditOf(pr)
	c.lastUse = e.now
	target := uint64(max(e.cfg.InitialCreditBytes, 0))
	want := target - min(c.out, target)
	room := uint64(e.stagingLeft(p))
	if p.unstaged.n > 0 && e.cfg.Defect != mutate.LineJumped { // they were first
		room = 0
	}
	if n := min(want, room); n > 0 {
		c.handed += n
		c.out += n
		p.credited += int(n)
	} else if want > 0 {
		e.recallCredit(p)
	}
	e.announceCredit(p, c, true)
}

// announceCredit tells a NIC of the credit given to it, once the sum is worth a record. If now is
// true, any sum is.
func (e *Engine) announceCredit(p *process, c *credit, now bool) {
	if c.handed == c.announced || !now && c.handed-c.announced < e.worthTelling() {
		return
	}
	if b := c.pr.ep.Control(e.now, wire.CreditLen); b != nil {
		e.counts[vni.NICCreditsSent]++
		wire.Credit{Slot: p.slot, Gen: p.gen, Bytes: c.handed}.Put(b)
		c.announced = c.handed
		c.recalled = c.recalled && e.cfg.Defect == mutate.RecalledOnce
	}
}

// worthTelling returns the credit, in bytes, that is worth a record.
func (e *Engine) worthTelling() uint64 { return uint64(e.cfg.InitialCreditBytes) / 4 }

// covers reports whether the sender of a message has credit for it.
func (c *credit) covers(cost uint64) bool { return c.spent+cost <= c.handed }

// spend takes the credit that a message has used. It returns false if the sender had no such
// credit.
func (c *credit) spend(now clock.Time, cost uint64) bool {
	if !c.covers(cost) {
		return false
	}
	c.spent += cost
	c.lastUse = now
	return true
}

// restoreCredit gives the credit of a matched message again.
func (e *Engine) restoreCredit(src *source, cost uint64) {
	c := src.credit
	if c.recalled || src.p.unstaged.n > 0 { // it is wanted elsewhere
		c.out -= cost
		src.p.credited -= int(cost)
		e.restage(src.p)
		return
	}
	c.handed += cost
	e.announceCredit(src.p, c, false)
}

// tellsCredit reports whether restoreCredit will send a record, or has other work to do.
func (e *Engine) tellsCredit(src *source, cost uint64) bool {
	c := src.credit
	return c.recalled || src.p.unstaged.n > 0 || c.handed+cost-c.announced >= e.worthTelling()
}

// refund gives the credit of a message again that was withdrawn before it arrived.
func (e *Engine) refund(src *source, cost uint64) {
	n := min(cost, src.credit.handed-src.credit.spent)
	if e.cfg.Defect == mutate.RefundUnchecked {
		n = cost
	}
	if n > 0 {
		src.credit.spend(src.credit.lastUse, n)
		e.restoreCredit(src, n)
	}
}

// idleCredit is how long credit must lie unused before it is recalled for others.
const idleCredit = time.Millisecond

// recallCredit recalls the unused credit of the NIC that has left its own idle longest. If it has
// not been idle long enough, recallLate looks at it again when it has: perhaps nothing else
// happens until then. The recall says how much was announced, since records overtake one another.
// Credit that was never announced is taken back with the answer.
func (e *Engine) recallCredit(p *process) {
	var idlest *credit
	for _, c := range p.credits {
		if c.handed > c.spent && !c.recalled && (idlest == nil || c.lastUse < idlest.lastUse) {
			idlest = c
		}
	}
	if idlest == nil {
		return
	}
	if at := idlest.lastUse.Add(idleCredit); e.now <= at {
		e.expiry.at(at + 1)
		return
	}
	if b := idlest.pr.ep.Control(e.now, wire.CreditLen); b != nil {
		e.counts[vni.NICCreditsRecalled]++
		wire.Credit{Flags: wire.FlagRecall, Slot: p.slot, Gen: p.gen, Bytes: idlest.announced}.Put(b)
		idlest.recalled = true
	}
}

// recallLate recalls credit for the messages that wait for staging, since it may now have been
// idle long enough.
func (e *Engine) recallLate() {
	for p := range e.procs.all {
		if p.unstaged.n > 0 {
			e.recallCredit(p)
		}
	}
}

// creditRecord handles a Credit record: credit given to us, recalled from us, or returned to us.
func (e *Engine) creditRecord(pr *peer, r wire.Record) {
	k := r.Credit()
	switch {
	case k.Flags&wire.FlagReturn != 0:
		p := e.process(k.Slot)
		if p == nil || p.gen != k.Gen {
			return
		}
		c := p.creditOf(pr)
		n := min(max(k.Bytes, c.returned)-c.returned, c.out, c.handed-c.spent)
		if e.cfg.Defect == mutate.ReturnUnchecked {
			n = max(k.Bytes, c.returned) - c.returned
		}
		c.returned = max(k.Bytes, c.returned)
		c.spend(e.now, n) // returned credit cannot be used
		if c.recalled {   // nor can credit of which the NIC has never heard
			untold := min(c.handed-max(c.announced, c.spent), c.out-n)
			c.handed -= untold
			n += untold
		}
		c.recalled = c.recalled && e.cfg.Defect == mutate.RecalledOnce
		c.out -= n
		p.credited -= int(n)
		e.restage(p) // which recalls more if this is not enough
	case k.Flags&wire.FlagRecall != 0:
		rm := e.credited(pr, k)
		if rm == nil {
			return
		}
		rm.granted = max(rm.granted, k.Bytes) // it may have overtaken the grant that it recalls
		n := rm.credit()
		rm.used += n
		rm.returned += n
		if b := pr.ep.Control(e.now, wire.CreditLen); b != nil {
			wire.Credit{Flags: wire.FlagReturn, Slot: k.Slot, Gen: k.Gen, Bytes: rm.returned}.Put(b)
		}
	default:
		if rm := e.credited(pr, k); rm != nil && k.Bytes > rm.granted {
			e.counts[vni.NICCreditsReceived]++
			rm.granted = k.Bytes
			e.roomCame(rm)
			if e.cfg.Defect != mutate.WaiterNotAdmitted {
				e.admit(rm)
			}
		}
	}
}

// forgetPeerCredits drops the credit of a peer for all our processes when its session is over.
func (e *Engine) forgetPeerCredits(pr *peer) {
	for p := range e.procs.all {
		if i := slices.IndexFunc(p.credits, func(c *credit) bool { return c.pr == pr }); i >= 0 {
			p.credited -= int(p.credits[i].out)
			p.forgetAllGivenUp(p.credits[i])
			p.credits = slices.Delete(p.credits, i, i+1)
			e.restage(p)
		}
	}
}
