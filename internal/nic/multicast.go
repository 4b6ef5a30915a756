package nic

import (
	"encoding/binary"
	"errors"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A multicast is one command and as many messages as it has receivers, which need not be a group nor expect anything but
// a message (QNIX-8, QNIX-11).
//
//	command ──► a copy to each receiver: resolved, queued, ready … ──► all have ended: completed
//
// A copy is a send like that of a context, by all the rules of a message: order, credit, permission. It is begun with the
// command, so that it has its place before whatever the process sends to that receiver later, and none waits for another.
// The end of a copy begins nothing: who ends sends walks along lists of them, and would meet the new one.
type multicast struct {
	node      node[multicast] // in process.held or Engine.resumed
	s         *send           // of its context
	receivers []vni.Name
	begun     int // receivers that have got a copy
	left      int // receivers that have not ended; and 1 until all have begun
	parts     [limits.Descriptors][]byte
	n         int // of parts
	length    uint64
	tag       uint64
	failed    vni.Status // of the first in the list that could not be served
	which     int        // its place
}

var errMulticast = errors.New("nic: multicast with a bad list of receivers")

// startMulticast takes a Multicast: it copies the list out of the process's memory, judges it, and begins the copies.
func (e *Engine) startMulticast(p *process, s *send, c vni.Command) {
	sc, ok := e.loadSend(p, s, c.Code)
	if !ok {
		return
	}
	if err := e.gather(s, &sc); err != nil {
		e.rejectSend(s, err)
		return
	}
	list := uint64(c.Size) * vni.ReceiverBytes
	if c.Size == 0 || c.Size > limits.MulticastReceivers || list > s.frag.Length || s.accept || s.env.Flags != 0 {
		e.rejectSend(s, errMulticast)
		return
	}
	mc := e.multicasts.take()
	*mc = multicast{s: s, receivers: mc.receivers[:0], left: int(c.Size) + 1, length: s.frag.Length - list, tag: s.env.Tag}
	mc.node.v = mc
	for i := range uint64(c.Size) {
		var b [vni.ReceiverBytes]byte
		gatherRange(b[:], s.frag.Parts, i*vni.ReceiverBytes)
		var n vni.Name
		copy(n.App[:], b[:])
		n.Index = binary.LittleEndian.Uint32(b[24:])
		if !n.Valid() {
			e.multicasts.give(mc)
			e.rejectSend(s, errMulticast)
			return
		}
		mc.receivers = append(mc.receivers, n)
	}
	mc.cut(s.frag.Parts, list)
	s.kind, s.state, s.multi = kindMulticast, sendCopies, mc
	if p.held.n > 0 { // those before it wait
		p.held.pushBack(&mc.node)
		return
	}
	e.serve(mc)
}

// cut makes what lies behind the list of receivers, of so many bytes, the multicast's message.
func (mc *multicast) cut(parts [][]byte, list uint64) {
	for _, b := range parts {
		skip := min(list, uint64(len(b)))
		list -= skip
		if b = b[skip:]; len(b) > 0 {
			mc.parts[mc.n] = b
			mc.n++
		}
	}
}

// serve begins a copy for each receiver, as far as its process may have more of them.
func (e *Engine) serve(mc *multicast) {
	p := mc.s.p
	for ; mc.begun < len(mc.receivers); mc.begun++ {
		s := e.newCopy(mc, mc.begun)
		if s == nil {
			p.held.pushBack(&mc.node)
			return
		}
		e.resolve(s)
	}
	e.receiverEnded(mc)
}

// newCopy makes the send to one receiver; nil if its process has as many as it may. It has a number among the sends of
// its process, behind the contexts, and so a token of its own: what the peer says of one copy is not taken for another.
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
	s := e.copies.take()
	*s = send{p: p, ctx: len(p.sends) + i, kind: kindMessage, name: mc.receivers[place], multi: mc, place: place}
	s.node.v, s.queued.v = s, s
	s.env = wire.Envelope{SrcSlot: p.slot, SrcGen: p.gen, Token: p.lastCopy<<16 | uint32(s.ctx), Tag: mc.tag}
	s.frag = rel.Fragment{Owner: s, Space: wire.Data, Length: mc.length, Parts: mc.parts[:mc.n]}
	p.copies[i] = s
	return s
}

// copyEnded takes the end of a copy.
func (e *Engine) copyEnded(s *send, status vni.Status) {
	mc, p := s.multi, s.p
	e.countSend(s, status)
	e.clearSend(s)
	if status != vni.StatusOK && (mc.failed == vni.StatusOK || s.place < mc.which) {
		mc.failed, mc.which = status, s.place
	}
	i := s.ctx - len(p.sends)
	p.copies[i] = nil
	p.free = append(p.free, i)
	s.multi = nil
	e.copies.give(s)
	if next := p.held.front(); next != nil {
		next.node.remove()
		e.resumed.pushBack(&next.node)
	}
	e.receiverEnded(mc)
}

// resume goes on with the multicasts for which there may be copies again.
func (e *Engine) resume() {
	for n := e.resumed.n; n > 0; n-- {
		mc := e.resumed.front()
		mc.node.remove()
		e.serve(mc)
	}
}

// receiverEnded completes a multicast with its last receiver.
func (e *Engine) receiverEnded(mc *multicast) {
	if mc.left--; mc.left > 0 {
		return
	}
	s := mc.s
	c := vni.Completion{Status: mc.failed, Len: mc.length, Full: mc.length, Tag: uint64(mc.which), Token: s.env.Token}
	s.multi = nil
	clear(mc.parts[:])
	e.multicasts.give(mc)
	e.endSend(s, &c)
}

// stopMulticast ends a multicast with all its copies, wherever they are.
func (e *Engine) stopMulticast(s *send, why wire.Reason, status vni.Status) {
	mc, p := s.multi, s.p
	mc.failed, mc.which = status, mc.begun
	for _, c := range p.copies {
		if c != nil && c.multi == mc {
			mc.which = min(mc.which, c.place)
		}
	}
	unbegun := len(mc.receivers) - mc.begun
	mc.node.remove()
	mc.begun += unbegun
	mc.left -= unbegun
	for _, c := range p.copies {
		if c != nil && c.multi == mc {
			e.giveUp(c, why)
			e.completeSend(c, status)
		}
	}
	if unbegun > 0 {
		e.receiverEnded(mc)
	}
}
