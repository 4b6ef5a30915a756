package nic

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Deliver handles one record from a peer, exactly once, in any order of arrival (decision 5).
func (h *handler) Deliver(_ clock.Time, ep *rel.Endpoint, r wire.Record) {
	e := h.engine()
	pr := e.peers.last
	if pr == nil || pr.ep != ep {
		if pr = peerWith(ep); pr == nil {
			return
		}
		e.peers.last = pr
	}
	if r.Type() == wire.TypeFrag { // most are
		e.frag(pr, r)
		return
	}
	switch r.Type() {
	case wire.TypeRun:
		e.run(pr, r)
	case wire.TypeEager:
		e.eager(pr, r)
	case wire.TypeChunk:
		e.chunk(pr, r)
	case wire.TypeRequest:
		e.request(pr, r)
	case wire.TypePermission:
		e.permission(pr, r)
	case wire.TypeRefuse:
		e.refused(pr, r)
	case wire.TypeAccept:
		e.acceptedByPeer(pr, r)
	case wire.TypeWithdraw:
		e.withdrawn(pr, r)
	case wire.TypeCredit:
		e.creditRecord(pr, r)
	case wire.TypePut:
		e.putRecord(pr, r)
	case wire.TypeGet:
		e.getRecord(pr, r)
	case wire.TypeTable:
		e.tableRecord(pr, r.Payload())
	case wire.TypeSignal:
		e.groups.Signal(&pr.groups, r.Signal())
	case wire.TypePiece:
		e.groups.Piece(&pr.groups, r.Piece(), r.Payload())
	case wire.TypeRelay:
		e.relays.Record(&pr.relays, r)
	case wire.TypeRelayed:
		e.relays.Answer(&pr.relays, r)
	case wire.TypeProgram:
		e.programs.Record(&pr.programs, r)
	case wire.TypeHandled:
		e.programs.Handled(&pr.programs, r)
	}
}

// frag handles a whole short message.
func (e *Engine) frag(pr *peer, r wire.Record) {
	env := r.Frag()
	if src := e.sourceOf(pr, &env, 0); src != nil {
		e.fragOf(src, &env, r.FragPayload())
	}
}

// fragOf handles a whole short message whose sender is known.
func (e *Engine) fragOf(src *source, env *wire.Envelope, payload []byte) {
	if e.arrived(src, env, stagedCost(uint64(len(payload)))) == goesOn {
		e.takeWhole(src, env, payload)
	}
}

// takeWhole handles a message that has arrived whole, on credit.
func (e *Engine) takeWhole(src *source, env *wire.Envelope, payload []byte) {
	length := uint64(len(payload))
	next := e.inOrder(src, env.Number)
	if next {
		if why := e.unwanted(src, env, length, payload); why != wire.ReasonNone {
			e.restoreCredit(src, stagedCost(length))
			if env.Flags&wire.FlagAccept != 0 {
				e.refuse(src.key.peer, 0, env.SrcSlot, env.Token, why)
			}
			e.advance(src)
			return
		}
		rc := e.findReceive(src, env, length, true)
		if rc != nil && rc.covers(length) {
			e.giveBackCredit(src, stagedCost(length), rc)
			e.acceptMessage(src.key.peer, env, length > rc.size)
			e.countReceived(src.p, 1, length)
			if rc.ring != nil {
				e.pack(rc, src, env, length, payload)
			} else {
				e.completeReceive(rc, src, env, e.scatter(rc.parts, 0, payload), length, vni.StatusOK)
			}
			e.advance(src)
			return
		}
	}
	inb := e.newInbound(src, env, inboundStaged, length)
	inb.onCredit, inb.done, inb.passed = true, true, next
	inb.staging = e.staging.take(len(payload))
	inb.got = uint64(copy(inb.staging, payload))
	e.counts[vni.NICCopiedIn] += inb.got
	e.arrive(inb)
}

// eager handles a piece of a message that arrives on credit in several pieces.
func (e *Engine) eager(pr *peer, r wire.Record) {
	id, offset := r.Chunk()
	inb := pr.in.get(id)
	if inb == nil {
		if inb = e.beginEager(pr, r, id); inb == nil {
			return
		}
	}
	e.place(inb, offset, r.Payload())
}

// beginEager starts a message at its first piece to arrive; nil if the message is refused.
func (e *Engine) beginEager(pr *peer, r wire.Record, id wire.FragmentID) *inbound {
	length, env := r.Eager()
	src := e.sourceOf(pr, &env, id)
	if src == nil || e.arrived(src, &env, stagedCost(length)) != goesOn {
		return nil
	}
	inb := e.newInbound(src, &env, inboundStaged, length)
	inb.onCredit = true
	if !e.enter(inb, pr, id) {
		e.passOver(inb)
		return nil
	}
	e.arrive(inb)
	if pr.in.get(id) != inb { // a reply that arrives too late
		return nil
	}
	e.expect(inb)
	if inb.recv == nil || !inb.recv.covers(length) {
		inb.staging = e.staging.blank(int(length))
	}
	return inb
}

// chunk handles a piece of a permitted message, PUT or GET.
func (e *Engine) chunk(pr *peer, r wire.Record) {
	id, offset := r.Chunk()
	if r.Flags()&wire.FlagGet == 0 {
		if inb := pr.in.get(id); inb != nil {
			// Else it was withdrawn or refused while this piece was in flight.
			e.place(inb, offset, r.Payload())
		}
		return
	}
	if inb := pr.gets.get(id); inb != nil {
		e.place(inb, offset, r.Payload())
	} else if b := pr.ep.Control(e.now, wire.RefuseLen); b != nil {
		// Given up: the answering NIC should stop.
		wire.PutRefuse(b, wire.FlagGet, id, 0, 0, wire.ReasonCancelled)
	}
}

// place puts a piece into its place, and ends its message with the last piece.
func (e *Engine) place(inb *inbound, offset uint64, piece []byte) {
	n, allowed := uint64(len(piece)), inb.limit
	if inb.kind == inboundStaged { // on credit: all of it is allowed
		allowed = inb.length
	}
	// Not permitted.
	if (offset > allowed || n > allowed-offset || inb.got+n > allowed) && e.cfg.Defect != mutate.PieceUnpermitted {
		e.counts[vni.DropFormat]++
		return
	}
	e.countPiece(inb, n)
	if inb.kind == inboundGet && inb.got == n {
		e.grants.add(e, inb)
	}
	if e.cfg.Defect == mutate.ChunkOffByOne && offset > 0 && offset+n == inb.length {
		offset--
	}
	if inb.staging != nil {
		// A foreign staging is shorter.
		k := copy(inb.staging[min(offset, uint64(len(inb.staging))):], piece)
		e.counts[vni.NICCopiedIn] += uint64(k)
	} else if rf := inb.stretch(); rf != nil {
		e.placeRefilled(rf, offset, piece)
		inb.slide(rf)
	} else {
		e.scatter(inb.parts, offset, piece)
	}
	if inb.got == inb.length {
		e.finish(inb)
	}
}

// countPiece notes that a piece of n bytes has arrived.
func (e *Engine) countPiece(inb *inbound, n uint64) {
	inb.got += n
	if inb.limit > 0 {
		e.grants.settle(e.now, inb, n)
	}
}

// Place returns the memory for a piece of a long message that has met its receive (rel.Placer). It
// returns nil unless the piece goes into one place, and only its length has to be noted.
func (h *handler) Place(ep *rel.Endpoint, id wire.FragmentID, offset uint64, n int) []byte {
	e := h.engine()
	pr := e.peers.last
	if pr == nil || pr.ep != ep {
		return nil
	}
	inb := pr.in.get(id)
	if inb == nil || inb.kind != inboundRequest || inb.recv == nil || inb.staging != nil || inb.recv.refill != nil {
		return nil
	}
	e.placing = n
	end := offset + uint64(n)
	if end > inb.limit || inb.got+uint64(n) > inb.limit {
		return nil
	}
	if e.cfg.Defect == mutate.ChunkOffByOne && end == inb.length {
		return nil
	}
	more := inb.limit - max(end, inb.got+uint64(n)) // this much of what follows may arrive
	for _, b := range inb.parts {
		size := uint64(len(b))
		if offset < size {
			if end > size {
				return nil
			}
			return b[offset:min(size, end+more)]
		}
		offset, end = offset-size, end-size
	}
	return nil
}

// Placed handles a piece that lies where Place has said.
func (h *handler) Placed(_ clock.Time, ep *rel.Endpoint, id wire.FragmentID, n int) {
	e := h.engine()
	inb := e.peers.last.in.get(id)
	if e.ways[WayPlaced]++; n > e.placing {
		e.ways[WayPlacedRun]++
	}
	e.countPiece(inb, uint64(n))
	e.counts[vni.NICCopiedIn] += uint64(n)
	if inb.got == inb.length {
		e.finish(inb)
	}
}

// scatter calls the function scatter for arriving data, and counts the bytes.
func (e *Engine) scatter(parts [][]byte, offset uint64, piece []byte) (n uint64) {
	n = uint64(scatter(parts, offset, piece))
	e.counts[vni.NICCopiedIn] += n
	return n
}

// scatter copies a piece to its offset in a gather list. It returns how many bytes fit: a receive
// buffer may be shorter than its message.
func scatter(parts [][]byte, offset uint64, piece []byte) (n int) {
	for _, b := range parts {
		if offset >= uint64(len(b)) {
			offset -= uint64(len(b))
			continue
		}
		c := copy(b[offset:], piece)
		n += c
		if piece = piece[c:]; len(piece) == 0 {
			break
		}
		offset = 0
	}
	return n
}

// acceptMessage tells the sender that this NIC has its message (decision 6), if it wants to know:
// by an Accept, or by a Refuse that says truncated. A message that is accepted before it meets its
// receive is accepted whole.
func (e *Engine) acceptMessage(pr *peer, env *wire.Envelope, truncated bool) {
	switch {
	case env.Flags&wire.FlagAccept == 0:
	case truncated:
		if b := pr.ep.Control(e.now, wire.RefuseLen); b != nil {
			wire.PutRefuse(b, 0, 0, env.SrcSlot, env.Token, wire.ReasonTruncated)
		}
	default:
		e.acceptToken(pr, env.SrcSlot, env.Token)
	}
}

func (e *Engine) acceptToken(pr *peer, slot uint16, token uint32) {
	if b := pr.ep.Control(e.now, wire.AcceptLen); b != nil {
		wire.PutAccept(b, slot, token)
	}
}

// refuse tells a peer that an operation of one of its processes has failed. If the operation is
// that of fragment id, the peer hears so before it hears that the rest has arrived.
func (e *Engine) refuse(pr *peer, id wire.FragmentID, slot uint16, token uint32, why wire.Reason) {
	e.counts[refusals[why].counter]++
	record := pr.ep.Control
	if id != 0 {
		record = pr.ep.Refusal
	}
	if b := record(e.now, wire.RefuseLen); b != nil {
		wire.PutRefuse(b, 0, id, slot, token, why)
	}
}

// sendOf returns the send to which a peer's record refers, or nil.
func (e *Engine) sendOf(pr *peer, slot uint16, token uint32) *send {
	p := e.process(slot)
	if p == nil {
		return nil
	}
	s := p.sendAt(int(token & 0xffff))
	if s == nil || s.state == sendIdle || s.env.Token != token || s.dest == nil ||
		s.dest.peer != pr && e.cfg.Defect != mutate.AnswerOfAnother {
		return nil
	}
	return s
}

// acceptedByPeer completes a send after its destination has accepted the message or PUT.
func (e *Engine) acceptedByPeer(pr *peer, r wire.Record) {
	slot, token := r.Accept()
	s := e.sendOf(pr, slot, token)
	if s == nil {
		return
	}
	empty := s.frag.Length == 0
	if !(s.state == sendPosted || s.state == sendPermission && empty) || s.kind == kindGet && !empty {
		// No peer can have all of a message that has not left, or accept a GET of some bytes.
		e.counts[vni.DropFormat]++
		return
	}
	s.accepted = true
	e.stopGet(s) // one of nothing, for which nothing will arrive
	e.settle(s)
}

// refused fails a send that its destination refuses.
func (e *Engine) refused(pr *peer, r wire.Record) {
	id, slot, token, why := r.Refuse()
	if r.Flags()&wire.FlagGet != 0 {
		if sv := pr.serving.get(id); sv != nil { // the asker of a GET has given up
			e.dropServe(sv)
		}
		return // slot and token are the asker's; here they may name another send
	}
	if s := e.sendOf(pr, slot, token); s != nil {
		if why == wire.ReasonProcessGone || why == wire.ReasonStaleGeneration {
			k := s.dest.key
			e.tellGone(s.p, k, s.dest, s.p.sources[sourceKey{pr, k.Slot, k.Gen}])
		}
		e.stopFragment(s)
		e.completeSend(s, statusOfReason(why))
		return
	}
	e.refusedCall(pr, slot, token, why)
}

// refusedCall ends the receive of the reply to a call whose message is refused. The send may have
// ended long ago, or had no context. A peer can end only calls to its own processes.
func (e *Engine) refusedCall(pr *peer, slot uint16, token uint32, why wire.Reason) {
	p := e.process(slot)
	if p == nil {
		return
	}
	for r := range p.posted.all {
		if r.reply && r.watch.Of(pr.ep) && r.tags.Take(uint64(token)) {
			e.endReceive(r, statusOfReason(why))
			return
		}
	}
}
