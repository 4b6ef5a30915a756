package nic

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// turn moves one packet of a send, or finds out what the send has to wait for. It moves up to most
// pieces of a fragment, and returns the number of packets.
func (e *Engine) turn(s *send, most int) (packets int) {
	switch {
	case s.frag.HeaderLen > 0:
		return e.postPiece(s, most)
	case s.kind == kindMulticast:
		e.relayTurn(s)
	case s.kind == kindRun && (s.dest.peer == nil || s.dest.peer.ep.Up()):
		e.runTurn(s)
	case s.dest.peer == nil:
		e.localTurn(s)
	case !s.dest.peer.ep.Up():
		s.dest.peer.ep.Connect(e.now)
		e.block(s)
	case s.kind == kindMessage:
		e.sendEnvelope(s)
	case s.kind == kindPut:
		e.sendPut(s)
	case s.kind == kindGet:
		e.sendGet(s)
	}
	return 1
}

// block parks a send until its peer can take more.
func (e *Engine) block(s *send) { s.wait(sendBlocked, &s.dest.peer.blocked) }

// sendEnvelope sends a message, unless an older one that has waited for credit has its turn first.
func (e *Engine) sendEnvelope(s *send) {
	if s.env.Flags&wire.FlagReply != 0 && s.p.givenUp > 0 && e.callerGaveUp(s.p, s.dest, s.env.Tag) {
		e.refuseReply(s)
		return
	}
	rm := s.dest.remote
	if !s.again && rm.admitted != nil && rm.admitted != s {
		e.awaitCredit(s)
		return
	}
	e.tryEnvelope(s)
	if rm.admitted == s { // it has had its turn
		rm.admitted = nil
		e.admit(rm)
	}
}

// tryEnvelope sends a message on credit if it is short and there is credit; else it asks for
// permission.
func (e *Engine) tryEnvelope(s *send) {
	d := s.dest
	if !s.again {
		s.env.Number = d.number
		if !s.goesOnCredit(d.remote.credit()) {
			e.sendRequest(s)
			return
		}
	}
	space := wire.SpaceFor(int(s.frag.Length))
	if n := wire.FragLen + int(s.frag.Length); s.frag.Length <= limits.CopiedMessage &&
		n <= d.peer.ep.MaxRecord(space) {
		e.sendFrag(s, space, n)
		return
	}
	e.sendEager(s)
}

// sendFrag writes a short message of n bytes, header included, straight into a segment (USNIC-22,
// USNIC-29): its memory is free at once.
func (e *Engine) sendFrag(s *send, space wire.Space, n int) {
	d := s.dest
	b := d.peer.ep.Reserve(e.now, space, n)
	if b == nil {
		e.block(s)
		return
	}
	wire.PutFrag(b, &s.env, int(s.frag.Length))
	copyOut(b[wire.FragLen:], s.frag.Parts)
	e.countSegment(s.frag.Length)
	e.leftOnCredit(s)
	s.released = true
	s.frag.Parts = nil
	e.settle(s)
}

// leftOnCredit notes that the envelope of a message has left on credit.
func (e *Engine) leftOnCredit(s *send) {
	if s.again { // its number and its credit are those of the relay that has missed it
		return
	}
	cost := stagedCost(s.frag.Length)
	s.dest.leave(1, cost)
	s.called(cost)
	e.enveloped(s)
}

// sendEager starts a message that leaves without permission in several pieces, or in one that is
// too long to copy.
func (e *Engine) sendEager(s *send) {
	if !e.takeFragment(s) {
		return
	}
	wire.PutEager(s.frag.HeaderBuf[:], s.frag.ID, 0, s.frag.Length, &s.env, 0)
	s.frag.Type, s.frag.HeaderLen, s.frag.Limit = wire.TypeEager, wire.EagerLen, s.frag.Length
	ep := s.dest.peer.ep
	s.frag.Piece = ep.EvenPieceLen(wire.TypeEager, int(s.frag.Length))
	// In one frame it arrives whole or not at all.
	s.frag.Confirm = !s.accept && s.frag.Length > uint64(ep.PieceLen(wire.TypeEager))
	s.longBegins()
	e.leftOnCredit(s)
	e.postPiece(s, 1)
}

// sendRequest asks for permission (QNIX-42, QNIX-43).
func (e *Engine) sendRequest(s *send) {
	d := s.dest
	if !e.mayAsk(d.remote) {
		e.awaitCredit(s)
		return
	}
	b := e.beginFragment(s, wire.RequestLen)
	if b == nil {
		return
	}
	s.putRequest(b)
	wire.PutChunk(s.frag.HeaderBuf[:], 0, s.frag.ID, 0, 0)
	s.frag.Type, s.frag.HeaderLen, s.frag.Confirm = wire.TypeChunk, wire.ChunkLen, !s.accept
	d.leave(1, 0)
	s.called(0)
	d.remote.requests++
	s.requested = true
	s.longBegins()
	e.enveloped(s)
	e.counts[vni.NICRequests]++
	e.awaitPermission(s)
}

// awaitCredit parks a send until there is credit, or room for a request. A send that has waited
// before goes to the front.
func (e *Engine) awaitCredit(s *send) {
	e.counts[vni.NICRequestsHeld]++
	s.p.account.Held++
	if rm := s.dest.remote; rm.admitted == s {
		s.wait(sendCredit, nil)
		rm.waiting.insertAfter(&s.node, nil)
	} else {
		s.wait(sendCredit, &rm.waiting)
	}
}

// awaitPermission takes a send out of the turns until its peer permits more.
func (e *Engine) awaitPermission(s *send) {
	s.wait(sendPermission, nil)
	s.watch.On(s.dest.peer.ep)
}

// takeFragment gives a send a fragment id, or parks it until one is free (USNIC-23).
func (e *Engine) takeFragment(s *send) bool {
	pr := s.dest.peer
	id, ok := pr.ep.NewFragment()
	if !ok {
		e.block(s)
		return false
	}
	s.frag.ID, s.peer = id, pr
	if !pr.out.set(id, s) {
		panic("nic: a fragment id of ours names a send that has ended")
	}
	return true
}

// beginFragment gives a send a fragment id, and returns room for the record of n bytes that
// announces it to its peer. It returns nil if the send has to wait.
func (e *Engine) beginFragment(s *send, n int) []byte {
	if !e.takeFragment(s) {
		return nil
	}
	pr := s.peer
	b := pr.ep.Reserve(e.now, wire.Command, n)
	if b == nil {
		pr.out.remove(s.frag.ID)
		pr.ep.FreeFragment(s.frag.ID)
		s.frag.ID, s.peer = 0, nil
		e.block(s)
	}
	return b
}

// postPiece posts the next piece of a started fragment (USNIC-23), or up to most full pieces. It
// returns how many it posted, and 1 if it could post none.
func (e *Engine) postPiece(s *send, most int) (packets int) {
	f := &s.frag
	pr := s.peer
	n := pr.ep.Post(e.now, f, most)
	if s.refill != nil {
		e.tellTooEarly(s.refill, f.Next)
	}
	switch {
	case f.Next == f.Length:
		s.wait(sendPosted, nil)
	case f.Next == f.Limit:
		s.wait(sendPermission, nil)
	case n == 0:
		s.wait(sendBlocked, &pr.blocked)
	}
	return max(n, 1)
}

// settle completes a send that has nothing more to wait for.
func (e *Engine) settle(s *send) {
	if s.kind == kindServe {
		if s.released {
			e.endServe(s)
		}
		return
	}
	if s.released && (!s.accept || s.accepted) {
		e.completeSend(s, vni.StatusOK)
		return
	}
	s.wait(sendPosted, nil)
	if s.released && s.dest.peer != nil { // only an Accept is awaited
		s.watch.On(s.dest.peer.ep)
	}
}

// Released says that rel no longer needs the memory of a fragment (USNIC-23): every piece is
// acknowledged, or the peer is lost. In the latter case Down follows and ends the send.
func (h *handler) Released(_ clock.Time, f *rel.Fragment) {
	e := h.engine()
	if k, ok := f.Owner.(*keptSend); ok {
		e.dropKept(k)
		return
	}
	s, ok := f.Owner.(*send)
	if !ok || f.Err != nil || s.state == sendIdle { // its end was reported when its peer went down
		return
	}
	s.released = true
	e.settle(s)
}

// Writable says that a peer that could take no more can do so again.
func (h *handler) Writable(_ clock.Time, ep *rel.Endpoint) {
	e := h.engine()
	if pr := peerWith(ep); pr != nil {
		e.unblock(pr)
		e.groups.Writable(&pr.groups)
		e.relays.Writable(&pr.relays)
		e.programs.Writable(&pr.programs)
	}
}

// unblock lets every send that waits for a peer try again. Those that fail return in the same
// order.
func (e *Engine) unblock(pr *peer) {
	for n := pr.blocked.n; n > 0; n-- {
		e.ready(pr.blocked.front())
	}
}

// unblockOne lets the first send that waits for a peer try again: a fragment id has become free.
func (e *Engine) unblockOne(pr *peer) {
	if s := pr.blocked.front(); s != nil {
		e.ready(s)
	}
}

// copyOut copies the parts of a message to one place.
func copyOut(to []byte, parts [][]byte) {
	for _, b := range parts {
		to = to[copy(to, b):]
	}
}
