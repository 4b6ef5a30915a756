package nic

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Two processes of one NIC exchange inside the engine: same matcher, one copy, no link. A long copy is made in pieces,
// a turn each, so that it holds nobody up.

// localTurn moves a send to a process of this NIC on.
func (e *Engine) localTurn(s *send) {
	switch {
	case s.kind == kindMessage && s.inb == nil:
		e.localEnvelope(s)
	case s.kind == kindMessage:
		if e.localCopy(s, s.inb.parts, s.frag.Parts) {
			inb := s.inb
			inb.local, inb.done = nil, true
			e.deliverInbound(inb)
			e.completeSend(s, vni.StatusOK)
		}
	default:
		e.localMemory(s)
	}
}

// localEnvelope offers a message to its receiver.
func (e *Engine) localEnvelope(s *send) {
	d := s.dest
	q := e.process(d.key.slot)
	if q == nil || q.gen != d.key.gen || !q.served() {
		e.completeSend(s, vni.StatusProcessGone)
		return
	}
	src := e.source(q, sourceKey{nil, s.p.slot, s.p.gen})
	s.env.Number = src.expected
	d.number++
	inb := e.newInbound(src, &s.env, inboundLocal, s.frag.Length)
	inb.local, s.inb = s, inb
	s.node.remove()
	s.state = sendLocal
	e.enveloped(s)
	e.counts[vni.NICMessagesLocal]++
	e.arrive(inb)
}

// stageLocal frees the sender of a message that nobody waits for yet, if the message is short and there is room.
func (e *Engine) stageLocal(inb *inbound) {
	p, s := inb.src.p, inb.local
	cost := int(stagedCost(inb.length))
	if inb.length > limits.EagerMessage || p.staged+p.credited+cost > e.cfg.StagingBytes {
		return
	}
	inb.charged = cost
	p.staged += cost
	inb.staging = e.staging.take(int(inb.length))
	copyOut(inb.staging, s.frag.Parts)
	inb.kind, inb.done, inb.got, inb.local = inboundStaged, true, inb.length, nil
	e.completeSend(s, vni.StatusOK)
}

// resumeLocal starts the copy of a message that has found its receive. What is longer than a command should take waits for
// its turns, or whoever posts receives would get copies made between all turns.
func (e *Engine) resumeLocal(inb *inbound) {
	if inb.length > limits.EagerMessage {
		e.ready(inb.local)
		return
	}
	e.localTurn(inb.local)
}

// localCopy copies the next piece of s from one gather list to another, and reports whether that was the last.
func (e *Engine) localCopy(s *send, to, from [][]byte) bool {
	n := min(s.frag.Length-s.frag.Next, limits.LocalPiece)
	copyRange(to, from, s.frag.Next, n)
	s.frag.Next += n
	return s.frag.Next == s.frag.Length
}

// copyRange copies n bytes at offset of one gather list to the same place of another; what has no room is left out.
func copyRange(to, from [][]byte, offset, n uint64) {
	at := offset
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

// localMemory does a PUT or GET between processes of this NIC.
func (e *Engine) localMemory(s *send) {
	q := e.process(s.remote.Slot)
	mem, _, why := e.remoteMemory(q, &s.remote)
	if why != wire.ReasonNone {
		e.completeSend(s, statusOfReason(why))
		return
	}
	there := [1][]byte{mem}
	to, from := there[:], s.frag.Parts
	if s.kind == kindGet {
		to, from = from, to
	}
	if e.localCopy(s, to, from) {
		e.countMemory(s)
		e.completeSend(s, vni.StatusOK)
	}
}
