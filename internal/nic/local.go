package nic

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Two processes of one NIC exchange messages inside the engine, with the same matcher, one copy
// and no link. A long copy is made in pieces, one a turn, so that it delays no other send.

// localTurn advances a send to a process of this NIC.
func (e *Engine) localTurn(s *send) {
	switch {
	case s.kind == kindMessage && s.inb == nil:
		e.localEnvelope(s)
	case s.kind == kindMessage:
		e.localMessage(s)
	default:
		e.localMemory(s)
	}
}

// localAtOnce lets a new message have its turn with its command, if it is short, for a process of
// this NIC, and the only send of its process. So its receiver need not wait until the link has
// been polled. A longer message waits for its turns, as in resumeLocal.
func (e *Engine) localAtOnce(s *send) {
	if s.kind != kindMessage || s.frag.Length > limits.StagedMessage || s.p.sched.n != 1 ||
		s.p.sendNode.in != &e.turns.ready {
		return
	}
	s.p.account.Turns++
	e.localTurn(s)
}

// localEnvelope offers a message to its receiver.
func (e *Engine) localEnvelope(s *send) {
	d := s.dest
	q := e.process(d.key.Slot)
	if q == nil || q.gen != d.key.Gen || !q.served() {
		e.completeSend(s, vni.StatusProcessGone)
		return
	}
	src := e.source(q, sourceKey{nil, s.p.slot, s.p.gen})
	s.env.Number = d.leave(1, 0)
	inb := e.newInbound(src, &s.env, inboundLocal, s.frag.Length)
	inb.local, s.inb = s, inb
	s.node.remove()
	s.state = sendLocal
	e.enveloped(s)
	e.counts[vni.NICMessagesLocal]++
	e.arrive(inb)
}

// stageLocal frees the sender of an unexpected message, if the message is short and there is room.
func (e *Engine) stageLocal(inb *inbound) {
	if inb.parked() { // it waits for room to be judged
		e.release(inb.src)
		return
	}
	s, cost := inb.local, int(stagedCost(inb.length))
	if inb.length > limits.StagedMessage || s.refill != nil || !e.charge(inb, cost) {
		return
	}
	inb.staging = e.staging.take(int(inb.length))
	copyOut(inb.staging, s.frag.Parts)
	e.counts[vni.NICCopiedIn] += inb.length
	inb.kind, inb.done, inb.got, inb.local = inboundStaged, true, inb.length, nil
	e.completeSend(s, vni.StatusOK)
}

// resumeLocal starts the copy of a message that has found its receive. A copy longer than a
// command may take waits for its turns. Otherwise a process that posts receives would get copies
// made between all turns.
func (e *Engine) resumeLocal(inb *inbound) {
	if inb.length > limits.StagedMessage {
		e.ready(inb.local)
		return
	}
	e.localTurn(inb.local)
}

// localMessage copies the next piece of a message that has found its receive, as far as both sides
// are described. If the receiver keeps only the beginning, the rest is not read.
func (e *Engine) localMessage(s *send) {
	inb := s.inb
	f, r := &s.frag, inb.recv
	n := min(s.described(), e.reach(inb), f.Next+limits.LocalPiece) - f.Next
	toAt := f.Next
	if r.refill != nil {
		toAt -= r.refill.base
	}
	copyRange(inb.parts, f.Parts, toAt, f.Next-f.Base, n)
	if r.refill != nil {
		e.over(r.refill, f.Next, n)
		inb.slide(r.refill)
	}
	e.localCopied(s, n)
	switch {
	case f.Next == f.Length, r.covers(f.Length) && f.Next >= r.keeps():
		inb.local, inb.done = nil, true
		status := vni.StatusOK
		if s.accept && inb.length > r.size {
			status = vni.StatusTruncated
		}
		e.deliverInbound(inb)
		e.completeSend(s, status)
	case f.Next == min(s.described(), e.reach(inb)):
		s.node.remove()
		s.state = sendLocal
	}
}

// localCopied notes that the next n bytes of a send have been copied.
func (e *Engine) localCopied(s *send, n uint64) {
	s.frag.Next += n
	e.counts[vni.NICCopiedIn] += n
	if s.refill != nil {
		e.over(s.refill, s.frag.Next-n, n)
		s.slide()
	}
}

// copyRange copies n bytes at position at of one gather list to position offset of another. It
// leaves out bytes for which there is no room.
func copyRange(to, from [][]byte, offset, at, n uint64) {
	for _, b := range from {
		if at >= uint64(len(b)) {
			at -= uint64(len(b))
			continue
		}
		c := min(uint64(len(b))-at, n)
		scatter(to, offset, b[at:at+c])
		offset += c
		if n -= c; n == 0 {
			return
		}
		at = 0
	}
}

// localMemory copies the next piece of a PUT or GET between processes of this NIC. As between two
// NICs, messages to the same process do not wait until it has ended.
func (e *Engine) localMemory(s *send) {
	if s.frag.Next == 0 {
		e.enveloped(s)
	}
	q := e.process(s.remote.Slot)
	n := min(s.described()-s.frag.Next, limits.LocalPiece)
	mem, _, why := e.remoteMemory(q, &s.remote, s.kind != kindGet, s.frag.Next, n)
	if why != wire.ReasonNone {
		e.completeSend(s, statusOfReason(why))
		return
	}
	there := [1][]byte{mem}
	at, own := s.frag.Next, s.frag.Next-s.frag.Base
	if s.kind == kindGet {
		copyRange(s.frag.Parts, there[:], own, at, n)
	} else {
		copyRange(there[:], s.frag.Parts, at, own, n)
	}
	e.localCopied(s, n)
	switch s.frag.Next {
	case s.frag.Length:
		e.countMemory(s)
		e.completeSend(s, vni.StatusOK)
	case s.described():
		s.node.remove()
		s.state = sendPermission
	}
}
