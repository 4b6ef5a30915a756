package nic

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// An inbound is a message that arrives, or has arrived, for a process: the entry of the receive
// table that the NIC makes (QNIX-44, QNIX-47). A PUT into a region and the bytes of a GET are
// inbounds too, but they are not matched.
type inboundKind uint8

const (
	inboundStaged  inboundKind = iota // sent without permission, or permitted into staging
	inboundRequest                    // its sender waits for permission
	inboundLocal                      // its sender is a process of this NIC and has the bytes
	inboundPut
	inboundGet
	inboundVoid // withdrawn before it came: only its number counts
)

type inbound struct {
	node     node[inbound] // in process.stray or source.early
	grant    node[inbound] // in granter.waiting or process.unstaged
	kind     inboundKind
	charged  int          // bytes of its receiver's staging that it uses, if not on credit
	onCredit bool         // it uses its sender's credit until it is matched
	at       clock.Time   // when it began to wait for a receive
	done     bool         // all its bytes have arrived
	accepted bool         // its sender has been told so, if it wants to know
	passed   bool         // it has passed the filter of its receiver, if there is one
	watch    rel.Watching // watches its peer while bytes are due

	ticket uint64  // by which a probe has reported it; 0: none has
	src    *source // nil for PUT and GET
	peer   *peer   // nil if the sender is local
	env    wire.Envelope
	id     wire.FragmentID // 0 when it has arrived whole
	length uint64
	got    uint64
	limit  uint64 // bytes permitted so far
	ready  uint64 // bytes that its sender's NIC has, and can send when they are permitted

	owes      uint64 // permitted bytes that have not arrived
	hopeful   uint64 // bytes of owes that are not written off, if writeOffs is its peer's
	writeOffs uint32

	// Holds the bytes until it is matched, or until there is a place for all of them.
	staging []byte
	// Staging is not from the NIC's pool: the message was in a ring, or on its way there, and was
	// put back.
	foreign bool
	counted bool     // as received, before it was put back
	kept    uint64   // bytes of it that a foreign staging holds in the end, if it was cut short
	drained uint64   // bytes of staging that were copied to a stretch
	parts   [][]byte // memory of the bytes after that
	one     [1][]byte
	recv    *receive                 // the matched receive
	piles   [pileKinds]node[inbound] // its nodes in the piles of process.stray
	local   *send                    // the send that it comes from, or the send of a GET
}

func (e *Engine) newInbound(src *source, env *wire.Envelope, kind inboundKind, length uint64) *inbound {
	inb := e.inbounds.Take()
	*inb = inbound{}
	inb.kind, inb.src, inb.env, inb.length, inb.ready = kind, src, *env, length, length
	inb.node.v, inb.grant.v = inb, inb
	if src != nil {
		inb.peer = src.key.peer
	}
	return inb
}

// enter makes an inbound known by the id of its fragment. If an older fragment has the slot, its
// sender has given it up and the Withdraw is late. If enter returns false, a newer fragment has
// the slot, so this one has been given up.
func (e *Engine) enter(inb *inbound, pr *peer, id wire.FragmentID) bool {
	if old := pr.in.older(id); old != nil {
		e.abort(old)
	}
	if !pr.in.set(id, inb) {
		return false
	}
	inb.id = id
	return true
}

// void makes an inbound one that only passes over its number.
func (e *Engine) void(inb *inbound) {
	e.unstage(inb)
	inb.watch.Off()
	inb.kind, inb.id = inboundVoid, 0
	if inb.peer != nil {
		inb.src.credit.voids++
	}
}

// passOver passes over the number of a message that was given up before it arrived, if its NIC may
// have one more such number parked.
func (e *Engine) passOver(inb *inbound) {
	if !inb.src.mayVoid() {
		e.freeInbound(inb)
		return
	}
	e.void(inb)
	e.arrive(inb)
}

// expect has its peer probed until all bytes of an inbound have arrived: nothing else may be
// pending on the peer, and if it dies, the inbound must end (decision 7).
func (e *Engine) expect(inb *inbound) {
	if !inb.done && inb.peer != nil {
		inb.watch.On(inb.peer.ep)
	}
}

// freeInbound releases an inbound and everything that it holds.
func (e *Engine) freeInbound(inb *inbound) {
	if inb.piled() {
		inb.src.p.stray.remove(inb)
	} else {
		inb.node.remove()
	}
	e.unstage(inb)
	e.leaveLine(inb)
	e.grants.drop(e, inb)
	inb.watch.Off()
	if inb.kind == inboundVoid && inb.peer != nil {
		inb.src.credit.voids--
	}
	if inb.id != 0 && inb.peer != nil {
		if inb.kind == inboundGet {
			inb.peer.gets.remove(inb.id)
		} else {
			inb.peer.in.remove(inb.id)
		}
	}
	e.inbounds.Give(inb)
}

// unstage gives back the staging memory of an inbound, and the credit or quota that it uses.
func (e *Engine) unstage(inb *inbound) {
	if inb.staging != nil {
		if inb.foreign {
			inb.src.p.rings -= lodging(inb.staging)
		} else {
			e.staging.give(inb.staging)
		}
		inb.staging = nil
	}
	if inb.onCredit {
		inb.onCredit = false
		if e.cfg.Defect != mutate.CreditLeak {
			e.restoreCredit(inb.src, stagedCost(inb.length))
		}
	}
	if inb.charged > 0 {
		p := inb.src.p
		p.staged -= inb.charged
		inb.charged = 0
		e.restage(p)
	}
}

// accept tells the sender of an inbound whose turn has come that this NIC has all of it (decision
// 6). It also says whether the receive that it has met, if any, keeps only the beginning.
func (e *Engine) accept(inb *inbound, r *receive) {
	if inb.peer != nil && !inb.accepted {
		inb.accepted = true
		e.acceptMessage(inb.peer, &inb.env, inb.cut() || r != nil && inb.length > r.size)
	}
}

// offer gives an inbound whose turn it is to the receive that wants it, or keeps it until there is
// one.
func (e *Engine) offer(inb *inbound) {
	p := inb.src.p
	if inb.kind == inboundVoid {
		e.freeInbound(inb)
		return
	}
	if !inb.passed {
		if why := e.unwanted(inb.src, &inb.env, inb.length, inb.payload()); why != wire.ReasonNone {
			e.refuseInbound(inb, why)
			return
		}
	}
	if r := e.findReceive(inb.src, &inb.env, inb.length, inb.whole()); r != nil {
		if e.packInbound(r, inb) {
			return
		}
		if r.ring == nil { // a ring stays posted
			r.node.remove()
			r.watch.Off()
		}
		if inb.done {
			e.accept(inb, r)
		}
		e.bind(inb, r)
		return
	}
	// The call was given up: no receive will ever ask for its reply.
	if inb.env.Flags&wire.FlagReply != 0 {
		e.refuseInbound(inb, wire.ReasonCancelled)
		return
	}
	if inb.done {
		e.accept(inb, nil)
	}
	e.counts[vni.NICUnexpected]++
	e.counts[vni.NICUnexpectedBytes] += inb.length
	p.account.Unexpected++
	inb.at = e.now
	p.stray.add(inb)
	if p.probes.n > 0 {
		e.tellProbes(p)
	}
	switch {
	case inb.done: // it has waited for its bytes in its turn
	case inb.kind == inboundRequest:
		e.stageRequest(inb)
	case inb.kind == inboundLocal:
		e.stageLocal(inb)
	}
}

// payload returns the message, or nil if it has not arrived whole. A message of a process of this
// NIC still lies in memory that the process can change, so it counts as not arrived.
func (inb *inbound) payload() []byte {
	if inb.done {
		return inb.staging
	}
	return nil
}

// bind joins a message and the receive that it goes to. The bytes that have arrived are copied out
// of staging, which is released; the rest goes to its place directly (QNIX-48). The copy takes
// everything in staging, missing pieces included, since they will be written over in their place.
// So no map of the arrived bytes is needed.
func (e *Engine) bind(inb *inbound, r *receive) {
	e.leaveLine(inb)
	if r.ring != nil {
		r = e.reserve(r, inb)
	}
	r.state, r.inb, inb.recv = recvMatched, inb, r
	inb.parts = r.parts
	if inb.staging != nil && !r.covers(inb.here()) {
		e.expect(inb)
		e.drain(inb)
		return
	}
	if inb.staging != nil {
		e.scatter(r.parts, 0, inb.staging)
	}
	e.unstage(inb)
	e.expect(inb)
	switch {
	case inb.done:
		e.deliverInbound(inb)
	case inb.kind == inboundRequest:
		if inb.length == 0 {
			e.permitNothing(inb)
			return
		}
		e.grants.add(e, inb)
	case inb.kind == inboundLocal:
		e.resumeLocal(inb)
	}
}

// finish ends an inbound whose last byte has come.
func (e *Engine) finish(inb *inbound) {
	inb.done = true
	inb.watch.Off()
	if inb.peer != nil {
		inb.peer.ep.AckNow() // its sender waits for this to get its memory back
	}
	switch inb.kind {
	case inboundPut:
		e.finishPut(inb)
		return
	case inboundGet:
		e.finishGet(inb)
		return
	}
	if inb.id != 0 {
		inb.peer.in.remove(inb.id)
		inb.id = 0
		// A reply may yet turn out to be late.
		if inb.recv != nil || inb.env.Flags&wire.FlagReply == 0 && !inb.parked() {
			e.accept(inb, inb.recv)
		}
	}
	e.grants.drop(e, inb)
	switch {
	case inb.recv == nil:
		e.bytesCame(inb)
	case inb.staging != nil:
		e.drain(inb)
	default:
		e.deliverInbound(inb)
	}
}

// deliverInbound completes the receive of an inbound whose bytes are all in the receive's memory.
func (e *Engine) deliverInbound(inb *inbound) {
	r := inb.recv
	if !inb.counted {
		e.countReceived(r.p, 1, inb.length)
	}
	n, status := min(inb.length, r.keeps()), vni.StatusOK
	if inb.cut() {
		n, status = min(n, inb.kept), vni.StatusTruncated
	}
	e.completeReceive(r, inb.src, &inb.env, n, inb.length, status)
	e.freeInbound(inb)
}

// abort undoes an inbound that its sender gives up. Its number is passed over, and the receive
// that it was matched with waits again, in its old place.
func (e *Engine) abort(inb *inbound) {
	if inb.parked() {
		if e.cfg.Defect == mutate.WithdrawKeepsNumber || !inb.src.mayVoid() {
			e.freeInbound(inb)
			return
		}
		if inb.peer != nil {
			inb.peer.in.remove(inb.id)
		}
		e.grants.drop(e, inb)
		e.leaveLine(inb)
		e.void(inb)
		e.release(inb.src) // it may have waited in its turn for its bytes
		return
	}
	e.loseInbound(inb)
}

// refuseInbound drops an inbound that is not wanted. It tells the sender if a send or a call can
// wait for that.
func (e *Engine) refuseInbound(inb *inbound, why wire.Reason) {
	awaited := !inb.done || inb.env.Flags&wire.FlagAccept != 0 ||
		inb.env.Flags&wire.FlagWhole != 0 && inb.env.Token != 0
	switch {
	case inb.kind == inboundLocal:
		if s := inb.local; s != nil {
			inb.local = nil
			e.completeSend(s, statusOfReason(why))
		}
	case inb.peer != nil && inb.kind != inboundVoid && !inb.accepted && awaited:
		e.refuse(inb.peer, inb.id, inb.env.SrcSlot, inb.env.Token, why)
	}
	e.freeInbound(inb)
}

// stageRequest permits a message into staging although no receive waits for it (QNIX-47), if it is
// short and there is room: its sender has only run out of credit. A long message waits; its round
// trip is short compared with its transfer.
func (e *Engine) stageRequest(inb *inbound) {
	if inb.length > limits.StagedMessage || !e.charge(inb, int(stagedCost(inb.length))) {
		return
	}
	if inb.length == 0 {
		e.permitNothing(inb)
		return
	}
	inb.staging = e.staging.blank(int(inb.length))
	e.expect(inb)
	e.grants.add(e, inb)
}

// permitNothing ends the transfer of an empty message. Its request was all there is, and a
// permission of 0 bytes ends it at its sender.
func (e *Engine) permitNothing(inb *inbound) {
	e.permit(inb, 0)
	e.finish(inb)
}
