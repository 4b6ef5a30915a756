package nic

import (
	"fmt"

	"github.com/weftnet/weft/internal/vni"
)

// A probe asks what waits for a receive, and leaves it there. It is told of the oldest message that a receive in its place would get: of
// one that waits already, or else of the next that finds no receive. So a posted receive goes before any probe.
//
//	Probe ──► one waits? ─yes─► told: sender, tag, length, and a ticket
//	             │ no                          │
//	             └─► in process.probes         └─► Receive with the ticket: that message and no other, or none
//
// The ticket is for a receive that needs memory for just that message. Another receive may have taken it meanwhile, and its sender may have
// withdrawn it: then the receive ends at once, and its process probes again. So nothing is kept for a process that never comes back.

// startProbe takes a Probe command, whose context has been read.
func (e *Engine) startProbe(r *receive, atOnce bool) {
	p := r.p
	if r.reply || r.refill != nil || r.size > 0 {
		e.rejectReceive(r, fmt.Errorf("%w: a probe has memory, is of a reply, or is refilled", vni.ErrArgument))
		return
	}
	r.begin(e.now)
	r.state = recvPosted
	p.probes.pushBack(&r.node)
	e.watchSender(r)
	if e.tellProbe(r) {
		return
	}
	if atOnce {
		e.endReceive(r, vni.StatusWithdrawn)
		return
	}
	if r.exact {
		e.doomEnded(r)
	}
}

// tellProbes tells all probes for which a message waits, oldest first.
func (e *Engine) tellProbes(p *process) {
	for r := range p.probes.all {
		e.tellProbe(r)
	}
}

// tellProbe tells a probe of the oldest message that waits and that it wants, if there is one.
func (e *Engine) tellProbe(r *receive) bool {
	inb := r.p.stray.find(e, r)
	if inb == nil {
		return false
	}
	if inb.ticket == 0 {
		r.p.tickets++
		inb.ticket = r.p.tickets
	}
	env := &inb.env
	e.finishReceive(r, &vni.Completion{Len: inb.length, Full: inb.length + inb.ticket, Tag: env.Tag, Token: env.Token,
		From: inb.src.name, NIC: inb.src.nic, Slot: env.SrcSlot, Gen: env.SrcGen})
	return true
}

// claim gives a receive the message of its ticket, if that still waits.
func (e *Engine) claim(r *receive) {
	inb := r.p.stray.find(e, r)
	if inb == nil {
		e.endReceive(r, vni.StatusWithdrawn)
		return
	}
	e.takeStray(inb)
	e.bind(inb, r)
}
