package nic

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Permission is the flow control of long messages, and of short ones without credit (QNIX-42,
// decision 8). The sender asks with a Request, the receiver permits as many bytes at once as it
// can take, and the sender sends them. The sum of permitted bytes that have not arrived is bounded
// over all senders, below the capacity of the link. So nothing is lost however many NICs send at
// once.
//
// A NIC that has permission and sends nothing must not keep the others waiting. Its permitted
// bytes are written off after a while: they no longer count against the bound, and their message
// gets no other permission until they have arrived. Other messages of that NIC get one grant at a
// time, since the NIC may be well. Bytes that its processes have not described yet are not
// permitted.

// granter gives permission. The message with the fewest remaining bytes comes first, but every
// eighth grant goes to the oldest, so that none starves. Several NICs have permission at once, so
// that the next is in flight when one ends or is slow.
type granter struct {
	bound       uint64        // of outstanding
	waiting     list[inbound] // inbounds not fully permitted; oldest first
	outstanding uint64        // bytes permitted that have not arrived, without those written off
	// Peers that have some of it; the first has made no progress for longest.
	holders list[peer]
	turn    int
}

// grantBound returns how many bytes a NIC with this configuration permits at once. A link that
// loses nothing slows its senders itself, and its capacity is soon used again. On other links, a
// quarter of the capacity is left to data that comes without permission.
func (cfg *Config) grantBound() uint64 {
	if cfg.Link.Properties().Reliable {
		return max(limits.GrantedBytes, cfg.ReceiveCapacity)
	}
	return max(min(limits.GrantedBytes, cfg.ReceiveCapacity*3/4), limits.StagedMessage)
}

// add starts to permit an inbound, as far as there is a place for its bytes. The answer to a GET
// must have begun, for which the GET carries its own first permission. Records may overtake one
// another, and a permission that arrives before its GET means nothing to the answering NIC. The
// first piece calls add again.
func (g *granter) add(e *Engine, inb *inbound) {
	if inb.kind == inboundGet && inb.got == 0 && e.cfg.Defect != mutate.PermitUnasked {
		return
	}
	if inb.limit < e.reach(inb) && inb.grant.in == nil {
		g.waiting.pushBack(&inb.grant)
	}
}

// run gives the permissions for which there is room.
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
		// Small grants would each need a separate frame.
		if room < min(n, max(limits.StagedMessage, share)) {
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

// inBatches makes n bytes end at the end of a frame of the inbound's sender, or of a batch of
// frames if n is long enough. A short frame in the middle of a message ends the batch in which it
// leaves.
func (inb *inbound) inBatches(n uint64) uint64 {
	frame := uint64(inb.peer.ep.PieceLen(wire.TypeChunk))
	for _, unit := range [2]uint64{limits.StageBytes / (frame + wire.ChunkLen + wire.Overhead) * frame, frame} {
		if unit > 0 && n >= unit {
			return n - n%unit
		}
	}
	return n
}

// share returns the part of the bound, in bytes, that one permission for a NIC may use; run uses
// limits.GrantBytes if that is more. It is half of the bound while no other NIC wants permission,
// since each permission is a frame, which costs both ends together as much as a fifth of a batch.
func (g *granter) share(pr *peer) uint64 {
	if g.bound >= limits.GrantedBytes && g.alone(pr) {
		return g.bound / 2
	}
	return g.bound / limits.GrantShare
}

// alone reports whether no NIC but pr has permission or waits for it. It returns false without a
// look if many inbounds wait.
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

// most returns how many bytes one permission adds at most while others want permission.
func (g *granter) most() uint64 { return max(limits.GrantBytes, g.bound/limits.GrantShare) }

// room returns how many bytes may be permitted in all.
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

// age notes that the bytes an inbound owes have been written off, if that happened since the last
// look.
func (inb *inbound) age() {
	if inb.writeOffs != inb.peer.writeOffs {
		inb.writeOffs, inb.hopeful = inb.peer.writeOffs, 0
	}
}

// settle notes that n permitted bytes of an inbound have arrived or will not: written-off bytes
// first.
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

// patience returns until when a NIC with permission may send nothing: several round trips, and the
// time in which an operating system lets another thread run.
func (pr *peer) patience() clock.Time { return pr.progressAt.Add(limits.GrantPatience + 4*pr.ep.RTT()) }

// writeOff writes off the permitted bytes of NICs whose patience is over.
func (g *granter) writeOff(now clock.Time) {
	for pr := g.holders.front(); pr != nil && g.waiting.n > 0 && pr.patience() <= now; pr = g.holders.front() {
		g.outstanding -= pr.granted
		pr.writtenOff += pr.granted
		pr.writeOffs++
		pr.granted = 0
		pr.holder.remove()
	}
}

// next returns when the first patience will be over, or Never if no inbound waits.
func (g *granter) next() clock.Time {
	if pr := g.holders.front(); pr != nil && g.waiting.n > 0 {
		return pr.patience()
	}
	return clock.Never
}

// first returns how many bytes a GET permits in advance, beyond the bound if necessary. It is
// never 0: if the GET is given up, the arriving bytes cause a Refuse that stops the answering NIC.
func (g *granter) first() uint64 { return max(min(g.room(), g.most()), limits.GetAdvance) }

// barred reports whether a message may get no permission now, since too few bytes of it, or of
// others of its NIC, have arrived.
func (inb *inbound) barred() bool {
	inb.age()
	return inb.peer.writtenOff > 0 && (inb.owes > inb.hopeful || inb.peer.granted > 0)
}

// pick returns the inbound that gets the next permission. NICs with less than their share of the
// bound come first. It returns nil if all waiting inbounds are barred.
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
		case g.turn%limits.GrantOldest != 0 && more == (best.peer.granted >= share) &&
			inb.length-inb.limit < best.length-best.limit:
			best = inb
		}
	}
	return best
}

// drop takes back the permission of bytes that will not arrive, and forgets the inbound.
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

// permit tells the sender of an inbound that it may send the bytes below limit.
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

// request handles a permission request (QNIX-43, QNIX-46, QNIX-47).
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
	// It may ask for want of credit, the only reason for a short message.
	if q.Length <= eagerMost(e.cfg.ReceiveCapacity) {
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

// permission handles a permission for a send of ours.
func (e *Engine) permission(pr *peer, r wire.Record) {
	id, limit := r.Permission()
	var s *send
	if r.Flags()&wire.FlagGet != 0 {
		s = pr.serving.get(id)
	} else {
		s = pr.out.get(id)
	}
	if s == nil {
		if r.Flags()&wire.FlagGet == 0 { // we withdrew it before its request arrived
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

// requestClosed notes that a permission request has been answered, or that its send is over. The
// next request may be made.
func (e *Engine) requestClosed(s *send) {
	if !s.requested {
		return
	}
	s.requested = false
	s.dest.remote.requests--
	e.admit(s.dest.remote)
}
