package nic

import (
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A GET reads from a region of another process: the NIC there answers it without involving the
// process, as the notes wish (USNIC-54). The asking NIC also gives the permission, since it knows
// the memory in which the bytes arrive.

// sendGet sends the request for the bytes.
func (e *Engine) sendGet(s *send) {
	pr := s.dest.peer
	b := e.beginFragment(s, wire.GetLen)
	if b == nil {
		return
	}
	first := min(s.described(), e.grants.first())
	wire.PutGet(b, s.frag.ID, first, &s.remote)
	// No record speaks of it as a send: its pieces come in, by the other table.
	pr.out.remove(s.frag.ID)
	inb := e.newInbound(nil, &wire.Envelope{SrcSlot: s.p.slot, Token: s.env.Token}, inboundGet, s.frag.Length)
	inb.peer, inb.id, inb.local, inb.parts = pr, s.frag.ID, s, s.frag.Parts
	if !pr.gets.set(s.frag.ID, inb) {
		panic("nic: a fragment id of ours names a GET that has ended")
	}
	s.inb = inb
	s.released, s.accept = true, true // if there is nothing to get, an Accept is the answer
	e.enveloped(s)
	e.countMemory(s)
	e.settle(s)
	s.watch.On(pr.ep)
	inb.limit = first
	e.grants.count(e.now, inb, first)
	e.grants.add(e, inb)
}

// finishGet completes a GET whose last byte has arrived.
func (e *Engine) finishGet(inb *inbound) {
	s := inb.local
	s.inb = nil
	e.freeInbound(inb)
	e.completeSend(s, vni.StatusOK)
}

// getRecord handles a GET of a peer. The answer joins the sends of the process that owns the
// region, and uses its turns.
func (e *Engine) getRecord(pr *peer, r wire.Record) {
	id, limit, m := r.Get()
	p := e.process(m.Slot)
	mem, reg, why := e.remoteMemory(p, &m, false, 0, m.Length)
	if why != wire.ReasonNone {
		e.refuse(pr, 0, m.Asker, m.Token, why)
		return
	}
	if m.Length == 0 {
		e.acceptToken(pr, m.Asker, m.Token)
		return
	}
	s := e.serves.Take()
	*s = send{p: p, ctx: -1, kind: kindServe, remote: m, peer: pr}
	s.node.v, s.queued.v = s, s
	s.parts[0] = mem
	s.frag = rel.Fragment{Owner: s, Space: wire.Data, Type: wire.TypeChunk, ID: id, Parts: s.parts[:1],
		Length: m.Length, Limit: min(limit, m.Length), HeaderLen: wire.ChunkLen}
	wire.PutChunk(s.frag.HeaderBuf[:], wire.FlagGet, id, 0, 0)
	// The asker has given it up, and its Refuse is late.
	if old := pr.serving.older(id); old != nil {
		e.dropServe(old)
	}
	if !pr.serving.set(id, s) { // the asker has given this one up
		e.serves.Give(s)
		return
	}
	reg.serving.pushBack(&s.queued)
	s.watch.On(pr.ep)
	s.state = sendPermission
	if s.frag.Limit > 0 {
		e.ready(s)
	}
}

// endServe forgets an answered GET.
func (e *Engine) endServe(s *send) {
	s.node.remove()
	s.queued.remove()
	s.watch.Off()
	s.peer.serving.remove(s.frag.ID)
	s.state = sendIdle
	s.frag.Parts = nil
	e.serves.Give(s)
}

// dropServe stops answering a GET.
func (e *Engine) dropServe(s *send) {
	e.stopFragment(s)
	e.endServe(s)
}
