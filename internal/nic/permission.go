package nic

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Permission is the flow control of long messages, and of short ones without credit (QNIX-42, decision 8). The sender
// asks with a Request; the receiver permits bytes, as many at a time as it can take, and the sender sends what is
// permitted. What is permitted and has not come is bounded over all senders, but for a little to each NIC that has
// nothing else: senders that stall on all that the bound allows must not keep the others waiting.

// granter hands out permission. Shortest remaining first, but every eighth to the oldest, so that nobody starves.
type granter struct {
	waiting     list[inbound] // wanted, not fully permitted; oldest first
	outstanding uint64        // bytes permitted that have not come
	turn        int
}

// add begins to permit an inbound, as far as there is a place for its bytes.
func (g *granter) add(e *Engine, inb *inbound) {
	if inb.limit < e.reach(inb) && inb.grant.in == nil {
		g.waiting.pushBack(&inb.grant)
	}
}

// run permits what there is room for.
func (g *granter) run(e *Engine) {
	for g.waiting.n > 0 {
		room := g.room()
		inb, most := g.pick(), min(room, limits.GrantBytes)
		if room == 0 {
			if inb, most = g.idle(), limits.EagerMessage; inb == nil {
				return
			}
		}
		reach := e.reach(inb)
		n := min(reach-inb.limit, most)
		g.count(inb, n)
		e.permit(inb, inb.limit+n)
		if inb.limit == reach {
			inb.grant.remove()
		}
	}
}

// room is how many bytes may be permitted in all.
func (g *granter) room() uint64 { return limits.GrantedBytes - min(g.outstanding, limits.GrantedBytes) }

// count notes that n bytes of an inbound have been permitted.
func (g *granter) count(inb *inbound, n uint64) {
	g.outstanding += n
	inb.peer.granted += n
}

// settle notes that n permitted bytes of an inbound have come, or will not.
func (g *granter) settle(inb *inbound, n uint64) {
	g.outstanding -= n
	inb.peer.granted -= n
}

// first is what a GET permits in advance, over the bound if need be: never nothing, since bytes that come for a GET that
// was given up tell its answerer so.
func (g *granter) first() uint64 { return max(min(g.room(), limits.GrantBytes), limits.EagerMessage) }

// pick chooses who is permitted next.
func (g *granter) pick() *inbound {
	best := g.waiting.front()
	if g.turn++; g.turn%limits.GrantOldest == 0 {
		return best
	}
	looked := 0
	for n := g.waiting.head; n != nil && looked < limits.GrantLook; n = n.next {
		looked++
		if n.v.length-n.v.limit < best.length-best.limit {
			best = n.v
		}
	}
	return best
}

// idle chooses among those whose NIC has been permitted nothing else; nil if there is none.
func (g *granter) idle() *inbound {
	looked := 0
	for n := g.waiting.head; n != nil && looked < limits.GrantLook; n = n.next {
		looked++
		if n.v.peer.granted == 0 {
			return n.v
		}
	}
	return nil
}

// drop takes back the permission of bytes that will not come, and forgets the inbound.
func (g *granter) drop(e *Engine, inb *inbound) {
	inb.grant.remove()
	if e.cfg.Defect == mutate.GrantLeak && inb.limit > 0 {
		inb.limit = 0
		return
	}
	if inb.limit > inb.got {
		g.settle(inb, inb.limit-inb.got)
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
	src := e.sourceOf(pr, &q.Envelope, q.ID)
	if src == nil || !src.fresh(q.Envelope.Number) {
		return
	}
	if q.Length <= limits.EagerMessage { // a short message asks only because its NIC lacks credit
		e.giveCredit(pr, src.p)
	}
	inb := e.newInbound(src, &q.Envelope, inboundRequest, q.Length)
	if !e.enter(inb, pr, q.ID) {
		e.void(inb)
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
	if limit > s.frag.Length {
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
