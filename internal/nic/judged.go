package nic

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A filter that judges by the bytes, as programs do, must see them before the message is matched,
// and the receiver must get the same bytes. So with such a filter, a message of up to
// StagedMessage bytes has its turn when all of it is in the NIC's own memory:
//
//	in one piece from another NIC ─────────────────────────────► filter ─► matched
//	in several, or asking for permission: parked ── all here ──► filter ─► matched
//	of this NIC: copied; without room for that parked ─────────► filter ─► matched
//
// A longer message, and one that its process describes piece by piece, is judged without its
// bytes.
//
// Unexpected messages may have used up all staging of the receiver. Without a filter, they would
// not keep out a message for which a receive is posted. So such a message may overdraw the staging
// in its turn, before the line: it will leave the staging soon. Only one message overdraws it, and
// the next when the process is within its quota again, so the quota is exceeded by at most one
// short message. If the receive has gone when the message has been judged, the message stays in
// staging and waits for another receive.

// awaitsBytes reports whether a message whose turn it is must wait for its bytes. It makes sure
// that they come.
func (e *Engine) awaitsBytes(inb *inbound) bool {
	if !inb.lacksBytes() {
		return false
	}
	switch {
	case inb.kind == inboundLocal:
		return !e.judgeLocal(inb)
	case inb.kind == inboundRequest && inb.staging == nil && inb.grant.in == nil:
		e.stageRequest(inb)
	}
	return !inb.done
}

// lacksBytes reports whether bytes are missing of a message that has its turn as a whole: its
// sender counts it as sent, or its filter judges it by its bytes.
func (inb *inbound) lacksBytes() bool {
	if inb.done || inb.kind == inboundVoid {
		return false
	}
	if inb.env.Flags&wire.FlagWhole != 0 {
		return true
	}
	g := inb.src.p.guard
	return g != nil && g.bytes && inb.length <= limits.StagedMessage && (inb.local == nil || inb.local.refill == nil)
}

// overdraws reports whether a message that waits for its bytes may exceed the staging quota.
func (e *Engine) overdraws(inb *inbound) bool {
	p := inb.src.p
	return inb.lacksBytes() && p.staged+p.credited <= e.cfg.StagingBytes && p.findPosted(inb.src, &inb.env) != nil
}

// overdrawer returns the first message in the line for the staging of p that may overdraw it, or
// nil.
func (e *Engine) overdrawer(p *process) *inbound {
	if p.guard == nil || !p.guard.bytes || p.staged+p.credited > e.cfg.StagingBytes {
		return nil
	}
	for inb := range p.unstaged.all {
		if e.overdraws(inb) {
			return inb
		}
	}
	return nil
}

// overdraw stages a message of the line that may overdraw the staging of p. It is called when a
// receive has been posted or staging has been freed.
func (e *Engine) overdraw(p *process) {
	if inb := e.overdrawer(p); inb != nil {
		e.stage(inb)
	}
}

// judgeLocal copies a message of a process of this NIC and judges the copy: the sender could
// change its own memory after the filter has looked. It returns false if there is no room for the
// copy yet.
func (e *Engine) judgeLocal(inb *inbound) bool {
	if inb.charged == 0 && !e.charge(inb, int(stagedCost(inb.length))) {
		return false
	}
	s := inb.local
	inb.staging = e.staging.take(int(inb.length))
	copyOut(inb.staging, s.frag.Parts)
	e.counts[vni.NICCopiedIn] += inb.length
	inb.done, inb.got, inb.local = true, inb.length, nil
	status := vni.StatusOK
	inb.kind, inb.passed = inboundStaged, true
	if why := e.unwanted(inb.src, &inb.env, inb.length, inb.staging); why != wire.ReasonNone {
		e.unstage(inb)
		inb.kind = inboundVoid
		status = statusOfReason(why)
	}
	e.completeSend(s, status)
	return true
}

// bytesCame notes that all bytes of a message have arrived. The message may have waited for them
// in its turn.
func (e *Engine) bytesCame(inb *inbound) {
	if inb.parked() {
		e.release(inb.src)
	}
}
