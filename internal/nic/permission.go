package nic

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Permission is the flow control of long messages, and of short ones without credit (QNIX-42, decision 8). The sender
// asks with a Request; the receiver permits bytes, as many at a time as it can take, and the sender sends what is
// permitted. What is permitted and has not come is bounded over all senders, below what the link holds, so that nothing
// is lost however many send at once.
//
// A NIC that has permission and sends nothing must not keep the others waiting. What it holds is written off after a
// while: it counts against the bound no more, and until it has come its message is permitted nothing else. Other messages
// of that NIC are, one grant at a time, since it may be well. What its processes have yet to describe it is not permitted.

// granter hands out permission. Shortest remaining first, but every eighth to the oldest, so that none starves; and to
// several NICs at a time, so that the next is under way when one ends or is slow.
type granter struct {
	bound       uint64        // of outstanding
	waiting     list[inbound] // wanted, not fully permitted; oldest first
	outstanding uint64        // bytes permitted that have not come, without those written off
	holders     list[peer]    // those that have some of it; the first has made no progress for longest
	turn        int
}

// bound is how much a NIC with this configuration permits at a time. A link that loses nothing holds its senders up by
// itself, and what it has room for is soon through; of the others' room a quarter is left to what comes without permission.
func (cfg *Config) grantBound() uint64 {
	if cfg.Link.Properties().Reliable {
		return max(limits.GrantedBytes, cfg.ReceiveCapacity)
	}
	return max(min(limits.GrantedBytes, cfg.ReceiveCapacity*3/4), limits.StagedMessage)
}

// add begins to permit an inbound, as far as there is a place for its bytes. The answer to a GET must have begun, which
// has a first permission of its own: records may overtake one another, and a permission that comes before its GET means
// nothing to the NIC that gets it. The first piece has it added again.
func (g *granter) add(e *Engine, inb *inbound) {
	if inb.kind == inboundGet && inb.got == 0 && e.cfg.Defect != mutate.PermitUnasked {
		return
	}
	if inb.limit < e.reach(inb) && inb.grant.in == nil {
		g.waiting.pushBack(&inb.grant)
	}
}

// run permits what there is room for.
func (g *granter) run(e *Engine) {
	g.writeOff(e.now)
	for g.waiting.n > 0 {
		inb := g.pick()
		if inb == nil {
			return
		}
		reach := e.reach(inb)
		share := g.share(inb.peer)
		n := min(reach-inb.limit, max(limits.GrantBytes, share))
		room := g.room()
		if e.cfg.Defect == mutate.GrantBeyond {
			room = g.most()
		}
		if room < min(n, max(limits.StagedMessage, share)) { // in crumbs, each would be a frame of its own
			return
		}
		if n = min(n, room); inb.limit+n < reach {
			n = inb.inBatches(n)
		}
		g.count(e.now, inb, n)
		e.permit(inb, inb.limit+n)
		if inb.limit == reach {
			inb.grant.remove()
		}
	}
}

// inBatches makes n bytes end where a frame of the inbound's sender does, and a batch of them if there are as many: a short frame
// in the middle of a message ends the batch that it leaves in.
func (inb *inbound) inBatches(n uint64) uint64 {
	frame := uint64(inb.peer.ep.PieceLen(wire.TypeChunk))
	for _, unit := range [2]uint64{limits.StageBytes / (frame + wire.ChunkLen + wire.Overhead) * frame, frame} {
		if unit > 0 && n >= unit {
			return n - n%unit
		}
	}
	return n
}

// share is how much of the bound a permission for a NIC adds, where that is not much: half of it while no other NIC wants any, since each
// permission is a frame, which costs both ends together as much as a fifth of a batch.
func (g *granter) share(pr *peer) uint64 {
	if g.bound >= limits.GrantedBytes && g.alone(pr) {
		return g.bound / 2
	}
	return g.bound / limits.GrantShare
}

// alone reports whether no NIC but one has permission or waits for it. Of many that wait it does not look.
func (g *granter) alone(pr *peer) bool {
	if g.holders.n > 1 || g.holders.n == 1 && g.holders.front() != pr || g.waiting.n > limits.GrantLook {
		return false
	}
	for n := g.waiting.head; n != nil; n = n.next {
		if n.v.peer != pr {
			return false
		}
	}
	return true
}

// most is how many bytes one permission adds at most while others want some.
func (g *granter) most() uint64 { return max(limits.GrantBytes, g.bound/limits.GrantShare) }

// room is how many bytes may be permitted in all.
func (g *granter) room() uint64 { return g.bound - min(g.outstanding, g.bound) }

// count notes that n bytes of an inbound have been permitted.
func (g *granter) count(now clock.Time, inb *inbound, n uint64) {
	pr := inb.peer
	inb.age()
	inb.owes += n
	inb.hopeful += n
	g.outstanding += n
	pr.granted += n
	if pr.holder.in == nil && n > 0 {
		pr.progressAt = now
		g.holders.pushBack(&pr.holder)
	}
}

// age notes that what an inbound owes has been written off, if that was since the last look.
func (inb *inbound) age() {
	if inb.writeOffs != inb.peer.writeOffs {
		inb.writeOffs, inb.hopeful = inb.peer.writeOffs, 0
	}
}

// settle notes that n permitted bytes of an inbound have come, or will not: those that are written off first.
func (g *granter) settle(now clock.Time, inb *inbound, n uint64) {
	pr := inb.peer
	inb.age()
	late := min(n, inb.owes-inb.hopeful)
	inb.owes -= n
	pr.writtenOff -= late
	n -= late
	inb.hopeful -= n
	g.outstanding -= n
	pr.granted -= n
	pr.progressAt = now
	pr.holder.remove()
	if pr.granted > 0 {
		g.holders.pushBack(&pr.holder)
	}
}

// patience is how long a NIC with permission may send nothing: several round trips, and the time in which an operating
// system lets another thread run.
func (pr *peer) patience() clock.Time { return pr.progressAt.Add(limits.GrantPatience + 4*pr.ep.RTT()) }

// writeOff ends the waiting for NICs whose patience is over.
func (g *granter) writeOff(now clock.Time) {
	for pr := g.holders.front(); pr != nil && g.waiting.n > 0 && pr.patience() <= now; pr = g.holders.front() {
		g.outstanding -= pr.granted
		pr.writtenOff += pr.granted
		pr.writeOffs++
		pr.granted = 0
		pr.holder.remove()
	}
}

// next is when the first patience will be over, if any is waited for.
func (g *granter) next() clock.Time {
	if pr := g.holders.front(); pr != nil && g.waiting.n > 0 {
		return pr.patience()
	}
	return clock.Never
}

// first is what a GET permits in advance, over the bound if need be: never nothing, since bytes that come for a GET that
// was given up tell its answerer so.
func (g *granter) first() uint64 { return max(min(g.room(), g.most()), limits.GetAdvance) }

// barred reports whether a message is permitted nothing just now, since of its own or others of its NIC too little came.
func (inb *inbound) barred() bool {
	inb.age()
	return inb.peer.writtenOff > 0 && (inb.owes > inb.hopeful || inb.peer.granted > 0)
}

// pick chooses which inbound is permitted next: among NICs that have less than their share of the bound, if there are any. Nil says
// that all that wait are barred.
func (g *granter) pick() (best *inbound) {
	for n := g.waiting.n; n > 0 && g.waiting.front().barred(); n-- {
		g.waiting.rotate()
	}
	g.turn++
	looked, share := 0, g.bound/limits.GrantShare
	for n := g.waiting.head; n != nil && looked < limits.GrantLook; n = n.next {
		looked++
		inb := n.v
		switch more := best != nil && inb.peer.granted >= share; {
		case inb.barred():
		case best == nil, best.peer.granted >= share && !more:
			best = inb
		case g.turn%limits.GrantOldest != 0 && more == (best.peer.granted >= share) && inb.length-inb.limit < best.length-best.limit:
			best = inb
		}
	}
	return best
}

// drop takes back the permission of bytes that will not come, and forgets the inbound.
func (g *granter) drop(e *Engine, inb *inbound) {
	inb.grant.remove()
	if e.cfg.Defect == mutate.GrantLeak && inb.limit > 0 {
		inb.limit = 0
		return
	}
	if inb.limit > inb.got {
		g.settle(e.now, inb, inb.limit-inb.got)
	}
	inb.limit = 0
}

// permit tells the sender of an inbound that its bytes below limit may come.
func (e *Engine) permit(inb *inbound, limit uint64) {
	inb.limit = limit
	var flags uint8
	if inb.kind == inboundGet {
		flags = wire.FlagGet
	}
	e.counts[vni.NICPermissionsSent]++
	if b := inb.peer.ep.Control(e.now, wire.PermissionLen); b != nil {
		wire.PutPermission(b, flags, inb.id, limit)
	}
}

// request takes a permission request (QNIX-43, QNIX-46, QNIX-47).
func (e *Engine) request(pr *peer, r wire.Record) {
	q := r.Request()
	if inb := pr.in.get(q.ID); inb != nil && inb.kind == inboundRequest && inb.env.Number == q.Envelope.Number {
		e.readier(inb, q.Ready)
		return
	}
	src := e.sourceOf(pr, &q.Envelope, q.ID)
	if src == nil || e.arrived(src, &q.Envelope, 0) != goesOn {
		return
	}
	if q.Length <= eagerMost(e.cfg.ReceiveCapacity) { // it may ask for want of credit: a shorter one has no other reason
		e.giveCredit(pr, src.p)
	}
	inb := e.newInbound(src, &q.Envelope, inboundRequest, q.Length)
	inb.ready = q.Ready
	if !e.enter(inb, pr, q.ID) {
		e.passOver(inb)
		return
	}
	e.arrive(inb)
}

// permission takes a permission for a send of ours.
func (e *Engine) permission(pr *peer, r wire.Record) {
	id, limit := r.Permission()
	var s *send
	if r.Flags()&wire.FlagGet != 0 {
		s = pr.serving.get(id)
	} else {
		s = pr.out.get(id)
	}
	if s == nil {
		if r.Flags()&wire.FlagGet == 0 { // we withdrew it before its request got there
			e.withdraw(pr, id, &wire.Envelope{})
		}
		return
	}
	if limit > s.frag.Length || s.refill != nil && limit > s.refill.announced {
		e.counts[vni.DropFormat]++
		return
	}
	e.counts[vni.NICPermissionsReceived]++
	e.requestClosed(s)
	if s.frag.Length == 0 {
		s.released = true
		e.settle(s)
		return
	}
	if s.allow(limit) && s.state == sendPermission {
		e.ready(s)
	}
	e.announce(s)
}

// requestClosed notes that a permission request has been answered, or its send is over: the next one may be made.
func (e *Engine) requestClosed(s *send) {
	if !s.requested {
		return
	}
	s.requested = false
	s.dest.remote.requests--
	e.admit(s.dest.remote)
}
