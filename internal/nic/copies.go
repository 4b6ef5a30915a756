package nic

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Copies are the sends of a multicast, one for each receiver. They belong to no context, and their
// numbers follow those of the contexts. The end of a copy does not start another: the code that
// ends sends walks along lists of them and would meet the new one. The next Poll starts the
// remaining copies.

// serve starts a copy for each receiver that needs one. It returns false if the process has
// reached its limit of copies. If it returns true, the multicast may have ended.
func (e *Engine) serve(mc *multicast) bool {
	for n := len(mc.todo); mc.begun < n; {
		place := int(mc.todo[mc.begun])
		v := &mc.receivers[place]
		if v.state == receiverEnded {
			mc.begun++
			continue
		}
		s := e.newCopy(mc, place)
		if s == nil {
			return false
		}
		if mc.begun++; v.state == receiverMissed {
			e.sendAgain(s, v)
			continue
		}
		v.state = receiverCopied
		e.resolve(s)
	}
	return true
}

// newCopy makes the send to one receiver, or returns nil if its process has reached its limit of
// copies. The copy has a number among the sends of its process, and so its own token: an answer of
// the peer to one copy is not taken for another.
func (e *Engine) newCopy(mc *multicast, place int) *send {
	p := mc.s.p
	i := len(p.copies)
	switch n := len(p.free); {
	case n > 0:
		i, p.free = p.free[n-1], p.free[:n-1]
	case i == limits.MulticastCopies:
		return nil
	default:
		p.copies = append(p.copies, nil)
	}
	p.lastCopy = p.lastCopy%tokenCounts + 1
	s := e.copies.Take()
	*s = send{p: p, ctx: len(p.sends) + i, kind: kindMessage, name: mc.receivers[place].name, multi: mc, place: place}
	s.node.v, s.queued.v = s, s
	s.env = wire.Envelope{SrcSlot: p.slot, SrcGen: p.gen, Token: p.lastCopy<<16 | uint32(s.ctx), Tag: mc.tag}
	s.frag = rel.Fragment{Owner: s, Space: wire.Data, Length: mc.length, Parts: mc.parts[:mc.n]}
	p.copies[i] = s
	return s
}

// sendAgain sends a copy to a receiver that a relay has missed. The copy has the number of the
// relay, and waits neither for its turn nor for credit.
func (e *Engine) sendAgain(s *send, v *receiver) {
	if e.cfg.Defect == mutate.RelayRenumbered {
		d := v.dest
		v.state, v.dest = receiverCopied, nil
		e.toAddress(s, d.key)
		e.leaveDest(s.p, d)
		return
	}
	s.again, s.dest = true, v.dest
	s.env.DstSlot, s.env.DstGen, s.env.Number = v.dest.key.Slot, v.dest.key.Gen, v.number
	v.state, v.dest = receiverCopied, nil
	e.ready(s)
}

// copyEnded handles the end of a copy.
func (e *Engine) copyEnded(s *send, status vni.Status) {
	mc, p, place := s.multi, s.p, s.place
	e.countSend(s, status)
	e.clearSend(s)
	i := s.ctx - len(p.sends)
	p.copies[i] = nil
	p.free = append(p.free, i)
	s.multi = nil
	e.copies.Give(s)
	if p.held.n > 0 {
		e.resumeSoon(p)
	}
	e.endReceiver(mc, place, status)
}

// resumeSoon schedules the multicasts of a process that have more copies to start for the next
// Poll.
func (e *Engine) resumeSoon(p *process) {
	if p.resumeNode.in == nil && !p.gone {
		e.resumed.pushBack(&p.resumeNode)
	}
}

// resume continues the multicasts that resumeSoon has scheduled.
func (e *Engine) resume() {
	for n := e.resumed.n; n > 0; n-- {
		p := e.resumed.front()
		p.resumeNode.remove()
		for mc := p.held.front(); mc != nil; mc = p.held.front() {
			mc.node.remove()
			if !e.serve(mc) {
				p.held.insertAfter(&mc.node, nil)
				break
			}
		}
	}
}
