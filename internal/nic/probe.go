package nic

import (
	"fmt"

	"github.com/weftnet/weft/internal/vni"
)

// A probe asks which message waits for a receive, and leaves it there. It reports the oldest
// message that a receive in its place would get. If none waits, it reports the next message that
// finds no receive. So a posted receive goes before any probe.
//
//	Probe ──► one waits? ─yes─► told: sender, tag, length, and a ticket
//	             │ no                          │
//	             └─► in process.probes         └─► Receive with the ticket: that message or none
//
// The ticket is for a receive that needs memory for just that message. Another receive may have
// taken the message meanwhile, or its sender may have withdrawn it. The receive then ends at once,
// and its process probes again. So the NIC keeps nothing for a process that never returns.

// startProbe starts a Probe whose context has been read. If atOnce, the probe does not wait for a
// message.
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

// tellProbes completes all probes for which a message waits, oldest first.
func (e *Engine) tellProbes(p *process) {
	for r := range p.probes.all {
		e.tellProbe(r)
	}
}

// tellProbe completes a probe with the oldest waiting message that it wants, if there is one.
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

// claim gives a receive the message of its ticket, if the message still waits.
func (e *Engine) claim(r *receive) {
	inb := r.p.stray.find(e, r)
	if inb == nil {
		e.endReceive(r, vni.StatusWithdrawn)
		return
	}
	e.takeStray(inb)
	e.bind(inb, r)
}
