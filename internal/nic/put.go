package nic

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A PUT writes into a region of another process without its help (USNIC-31, USNIC-36, USNIC-53). A
// short PUT is one record. A long one asks for permission like a message and arrives in chunks.
// Both are accepted when all bytes are in place.

// sendPut sends a PUT.
func (e *Engine) sendPut(s *send) {
	ep := s.dest.peer.ep
	s.accept = true
	space := wire.SpaceFor(int(s.frag.Length))
	if n := wire.PutLen + int(s.frag.Length); s.refill == nil && s.frag.Length <= limits.CopiedMessage &&
		n <= ep.MaxRecord(space) {
		b := ep.Reserve(e.now, space, n)
		if b == nil {
			e.block(s)
			return
		}
		wire.PutPut(b, 0, &s.remote, int(s.frag.Length))
		copyOut(b[wire.PutLen:], s.frag.Parts)
		e.countSegment(s.frag.Length)
		e.enveloped(s)
		s.released = true
		e.countMemory(s)
		e.settle(s)
		return
	}
	b := e.beginFragment(s, wire.LongPutLen)
	if b == nil {
		return
	}
	s.putRequest(b)
	wire.PutChunk(s.frag.HeaderBuf[:], 0, s.frag.ID, 0, 0)
	s.frag.Type, s.frag.HeaderLen = wire.TypeChunk, wire.ChunkLen
	e.enveloped(s)
	e.countMemory(s)
	e.awaitPermission(s)
}

// countMemory counts a PUT or GET of ours, or one that we answer.
func (e *Engine) countMemory(s *send) {
	switch s.kind {
	case kindPut:
		e.counts[vni.NICPuts]++
		e.counts[vni.NICPutBytes] += s.frag.Length
	case kindGet:
		e.counts[vni.NICGets]++
		e.counts[vni.NICGetBytes] += s.frag.Length
	}
}

// putRecord handles a PUT of a peer: all of it, or the announcement of a long one.
func (e *Engine) putRecord(pr *peer, r wire.Record) {
	id, m := r.Put()
	payload := r.Payload()
	if inb := pr.in.get(id); inb != nil && inb.kind == inboundPut {
		e.readier(inb, r.PutReady())
		return
	}
	mem, reg, why := e.remoteMemory(e.process(m.Slot), &m, true, 0, m.Length)
	if why != wire.ReasonNone {
		e.refuse(pr, id, m.Asker, m.Token, why)
		return
	}
	if id == 0 {
		if uint64(len(payload)) != m.Length {
			e.counts[vni.DropFormat]++
			return
		}
		copy(mem, payload)
		e.counts[vni.NICCopiedIn] += m.Length
		e.acceptToken(pr, m.Asker, m.Token)
		return
	}
	inb := e.newInbound(nil, &wire.Envelope{SrcSlot: m.Asker, Token: m.Token}, inboundPut, m.Length)
	inb.peer, inb.ready = pr, r.PutReady()
	inb.one[0] = mem
	inb.parts = inb.one[:]
	if m.Length == 0 || !e.enter(inb, pr, id) {
		e.freeInbound(inb)
		return
	}
	reg.busy.pushBack(&inb.node)
	e.expect(inb)
	e.grants.add(e, inb)
}

// finishPut accepts a PUT whose last byte is in place.
func (e *Engine) finishPut(inb *inbound) {
	e.acceptToken(inb.peer, inb.env.SrcSlot, inb.env.Token)
	e.freeInbound(inb)
}
