package nic

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A multicast is one command and as many messages as it has receivers, which need not be a group nor expect anything but
// a message (QNIX-8, QNIX-11). The send of its context serves one receiver after the other, each by all the rules of a
// message: order, credit, permission. Short ones leave as fast as a turn takes; of long ones the receivers could not take
// more at a time, since the sender's link carries each copy.
type multicast struct {
	receivers []vni.Name
	next      int // receiver to serve
	parts     [limits.Descriptors][]byte
	n         int // of parts
	length    uint64
	token     uint32
	tag       uint64
	failed    vni.Status // of the first that could not be served
	which     int        // its place
}

var errMulticast = errors.New("nic: multicast with a bad list of receivers")

// startMulticast takes a Multicast: it copies the list out of the process's memory, judges it, and serves the first.
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
	*mc = multicast{receivers: mc.receivers[:0], token: s.env.Token, tag: s.env.Tag, length: s.frag.Length - list}
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
	for _, b := range s.frag.Parts {
		if skip := min(list, uint64(len(b))); skip < uint64(len(b)) || len(b) == 0 {
			mc.parts[mc.n] = b[skip:]
			mc.n++
			list -= skip
		} else {
			list -= skip
		}
	}
	s.multi = mc
	e.serveNext(s)
}

// serveNext sends the message of a multicast to the next receiver. Each has a token of its own, so that a late refusal by
// one is not taken for that of another.
func (e *Engine) serveNext(s *send) {
	mc := s.multi
	count := (mc.token>>16 + uint32(mc.next)) & 0x7fff
	s.accepted, s.released, s.watched, s.requested = false, false, false, false
	s.kind, s.name, s.gen = kindMessage, mc.receivers[mc.next], 0
	s.env = wire.Envelope{SrcSlot: s.p.slot, SrcGen: s.p.gen, Token: max(count, 1)<<16 | uint32(s.ctx), Tag: mc.tag}
	s.frag = rel.Fragment{Owner: s, Space: wire.Data, Length: mc.length, Parts: append(s.parts[:0], mc.parts[:mc.n]...)}
	mc.next++
	e.resolve(s)
}

// served goes on to the next receiver, or completes the multicast.
func (e *Engine) served(s *send, status vni.Status) {
	mc := s.multi
	e.countSend(s, status)
	if status != vni.StatusOK && mc.failed == vni.StatusOK {
		mc.failed, mc.which = status, mc.next-1
	}
	over := s.p.gone || slices.Contains([]vni.Status{vni.StatusCancelled, vni.StatusClosed, vni.StatusBadArgument}, status)
	if !over && mc.next < len(mc.receivers) {
		e.clearSend(s)
		e.serveNext(s)
		return
	}
	c := vni.Completion{Status: mc.failed, Len: mc.length, Full: mc.length, Tag: uint64(mc.which), Token: mc.token}
	s.multi = nil
	clear(mc.parts[:])
	e.multicasts.give(mc)
	e.endSend(s, &c)
}
