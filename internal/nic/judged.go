package nic

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A filter that judges by the bytes, as programs do, must have them before the message is matched, and they must be those that the
// receiver gets. So in front of such a filter a message of up to StagedMessage bytes has its turn when all of it is in the NIC's
// own memory:
//
//	in one piece from another NIC ─────────────────────────────► filter ─► matched
//	in several, or asking for permission: parked ── all here ──► filter ─► matched
//	of this NIC: copied; without room for that parked ─────────► filter ─► matched
//
// What is longer, and what its process describes piece by piece, is judged without its bytes.
//
// Messages that are not asked for may have used up all staging of the receiver, and without a filter they would not keep out one that is.
// So a message may overdraw the staging in its turn, before the line, if a posted receive wants it: it is then on its way through. One at a
// time does, and the next when the process is within its quota again; so it takes no more than one short message beyond. If the receive has
// gone when the message has been judged, it waits for another where it is.

// awaitsBytes reports whether a message whose turn it is must wait for its bytes. It sees to it that they come.
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

// lacksBytes reports whether a message has yet to come that has its turn as a whole: its sender counts it as sent, or its filter judges it by its
// bytes.
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

// overdraws reports whether a message that waits for its bytes may take staging that is not there.
func (e *Engine) overdraws(inb *inbound) bool {
	p := inb.src.p
	return inb.lacksBytes() && p.staged+p.credited <= e.cfg.StagingBytes && p.findPosted(inb.src, &inb.env) != nil
}

// overdrawer is the first in the line for the staging of p that may overdraw it, nil if none may.
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

// overdraw stages one of the line, if one may overdraw the staging of p: a receive has been posted, or staging has been freed.
func (e *Engine) overdraw(p *process) {
	if inb := e.overdrawer(p); inb != nil {
		e.stage(inb)
	}
}

// judgeLocal copies a message of a process of this NIC and has it judged: its sender could change its own memory behind the filter's
// back. It returns false if there is no room for the copy yet.
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

// bytesCame notes that all bytes of a message have come which may have waited for them in its turn.
func (e *Engine) bytesCame(inb *inbound) {
	if inb.parked() {
		e.release(inb.src)
	}
}
