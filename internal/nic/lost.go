package nic

import (
	"slices"

	"github.com/weftnet/weft/internal/names"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// When a session ends, a process is told how many of its messages had completed and may not have
// been delivered (decision 6). The receiver drops its parked messages. So if one envelope has not
// arrived, all messages after it are lost too, acknowledged or not:
//
//	to one process  1 2 3 4 5 6 7 8      3 was never acknowledged, 6 is still in flight and
//	                    ▲     └ d.number  fails by itself: 3, 4, 5 and 7 are in doubt
//	                  d.doubt

// Lost notes which messages become doubtful with a record that the peer never acknowledged.
func (h *handler) Lost(ep *rel.Endpoint, r wire.Record) {
	e := h.engine()
	pr := peerWith(ep)
	if pr == nil {
		return
	}
	var env wire.Envelope
	switch r.Type() {
	case wire.TypeFrag:
		env = r.Frag()
	case wire.TypeRun:
		env, _, _ = r.Run()
	case wire.TypeRequest:
		env = r.Request().Envelope
	case wire.TypeWithdraw:
		// A Withdraw of a call that has left carries nothing that must arrive.
		if id, w := r.Withdraw(); !givesUpCall(id, &w) {
			env = w
		}
	case wire.TypeTable:
		e.doubtClaim(pr, r.Payload())
	}
	e.doubt(pr, &env)
}

// doubt marks the messages to a process from the one with this envelope on as in doubt.
func (e *Engine) doubt(pr *peer, env *wire.Envelope) {
	p := e.process(env.SrcSlot)
	if p == nil || p.gen != env.SrcGen {
		return
	}
	if d := p.dests[vni.Address{NIC: pr.nic, Slot: env.DstSlot, Gen: env.DstGen}]; d != nil {
		d.doubtFrom(env.Number)
	}
}

var _ rel.LossHandler = (*handler)(nil)

// doubtClaim marks all messages of a process as in doubt if the peer may not know its name: it has
// then taken none of them.
func (e *Engine) doubtClaim(pr *peer, b []byte) {
	slot, gen, ok := names.Claimant(b)
	p := e.process(slot)
	if !ok || p == nil || p.gen != gen {
		return
	}
	for _, d := range p.dests { // order does not matter
		if d.peer == pr {
			d.doubtFrom(1)
		}
	}
}

// doubtFrom marks the messages from a number on as in doubt.
func (d *dest) doubtFrom(number uint32) {
	if !d.doubted || int32(number-d.doubt) < 0 {
		d.doubted, d.doubt = true, number
	}
}

// doubts reports whether the message with this number is in doubt.
func (d *dest) doubts(number uint32) bool { return d.doubted && int32(number-d.doubt) >= 0 }

// inDoubt returns the number of messages of a process to a peer whose session ends that had
// completed and may not have been delivered. Messages that were withdrawn after a lost one are
// among them.
func (p *process) inDoubt(pr *peer) (n uint64) {
	p.numbered(pr, func(d *dest, number uint32, unsent bool) {
		if unsent {
			d.doubtFrom(number)
		}
	})
	for _, d := range p.dests { // order does not matter
		if d.peer == pr && d.doubted {
			n += uint64(d.number - d.doubt)
		}
	}
	p.numbered(pr, func(d *dest, number uint32, _ bool) {
		if d.doubts(number) {
			n--
		}
	})
	return n
}

// numbered visits the messages of a process to a peer that have a number and have not ended.
// unsent says that the peer may never have seen the envelope.
func (p *process) numbered(pr *peer, visit func(d *dest, number uint32, unsent bool)) {
	for s := range p.underWay {
		switch {
		case s.kind == kindMulticast:
			for _, v := range s.multi.receivers {
				if v.dest != nil && v.dest.peer == pr {
					visit(v.dest, v.number, true)
				}
			}
		case s.kind == kindMessage && s.dest != nil && s.dest.peer == pr && s.queued.in == nil:
			visit(s.dest, s.env.Number, s.again || s.frag.Type == wire.TypeEager)
		}
	}
}

// heardOf reports whether a peer has sent a message to a process in this session.
func (p *process) heardOf(pr *peer) bool {
	return slices.ContainsFunc(p.credits, func(c *credit) bool { return c.pr == pr && c.heard })
}
