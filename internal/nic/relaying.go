package nic

import (
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/relay"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// forRelays is the engine as internal/relay sees it.
type forRelays struct{ *services }

// Peer returns the relay state of a NIC.
func (h forRelays) Peer(nic uint64) *relay.Peer {
	return part(h.services, nic, func(pr *peer) *relay.Peer { return &pr.relays })
}

// Deliver gives a message to a process. It reports whether the process has it now, or had it
// already.
func (h forRelays) Deliver(head *wire.RelayHead, to wire.RelayReceiver, message []byte) bool {
	e := h.engine()
	source, p := e.peerOf(head.NIC), e.process(to.Slot)
	if source == nil || !source.ep.Up() || p == nil || p.gen != to.Gen || !p.served() {
		return false
	}
	src := e.source(p, sourceKey{source, head.Slot, head.Gen})
	if src == nil {
		return false
	}
	env := wire.Envelope{DstSlot: to.Slot, DstGen: to.Gen, SrcSlot: head.Slot, SrcGen: head.Gen,
		Number: to.Number, Token: head.Token, Tag: head.Tag}
	switch e.arrived(src, &env, stagedCost(uint64(len(message)))) {
	case noCredit:
		return false
	case goesOn:
		e.counts[vni.NICRelayedMessages]++
		e.takeWhole(src, &env, message)
	}
	return true
}

// Over handles the outcome of a multicast's relay.
func (h forRelays) Over(source any, r *relay.Relay) { h.engine().relayOver(source.(*multicast), r) }

// LegEnded lets a multicast continue that waited for a NIC, perhaps for the one that has answered.
func (h forRelays) LegEnded(source any) {
	if s := source.(*multicast).s; s.state == sendBlocked {
		h.engine().ready(s)
	}
}

// startRelay makes the relay and lets it take turns. The relay has a copy of the bytes, the one
// copy that a multicast costs beyond those of a message. So it can continue after the command has
// completed, or the process has ended.
func (e *Engine) startRelay(mc *multicast) {
	s := mc.s
	most := wire.RelayHeadLen + len(mc.relayed)*(wire.RelayNICLen+wire.RelayReceiverLen) + int(mc.length)
	body := e.transit.take(most)
	b := body[wire.RelayHeadLen:]
	nics := uint16(0)
	for i := 0; i < len(mc.relayed); {
		pr, n := mc.at(i).dest.peer, 0
		for ; i < len(mc.relayed) && mc.at(i).dest.peer == pr; i++ {
			v := mc.at(i)
			w := wire.RelayReceiver{Gen: v.dest.key.Gen, Number: v.number, Slot: v.dest.key.Slot}
			w.Put(b[wire.RelayNICLen+n*wire.RelayReceiverLen:])
			n++
		}
		w := wire.RelayNIC{NIC: pr.nic, Session: pr.ep.Session(), Receivers: uint16(n)}
		w.Put(b)
		b = b[wire.RelayNICLen+n*wire.RelayReceiverLen:]
		nics++
	}
	vni.Gather(b[:mc.length], mc.parts[:mc.n], 0)
	head := wire.RelayHead{NIC: e.cfg.ID, Gen: s.p.gen, Slot: s.p.slot, NICs: nics, Token: s.env.Token, Tag: mc.tag}
	head.Put(body)
	r, unsent := e.relays.Start(body[:most-len(b)+int(mc.length)], mc)
	mc.relay = r
	if unsent {
		e.ready(s)
	}
	e.relays.Begun(r)
}

// relayTurn sends a packet of a relay in a turn of its process.
func (e *Engine) relayTurn(s *send) {
	switch full, done := e.relays.Turn(s.multi.relay); {
	case done:
		s.wait(sendCopies, nil)
	case full != nil:
		s.wait(sendBlocked, &e.peerOf(full.NIC()).blocked)
	}
}

// relayOver handles the outcome of a multicast's relay.
func (e *Engine) relayOver(mc *multicast, r *relay.Relay) {
	p, missed := mc.s.p, false
	e.disown(mc)
	for i := range mc.relayed {
		v := mc.at(i)
		switch {
		case v.state != receiverRelayed: // its NIC was lost, or it has gone
		case r.Missed(i) && e.cfg.Defect != mutate.RelayMissForgotten:
			v.state = receiverMissed
			mc.todo = append(mc.todo, mc.relayed[i])
			missed = true
			e.counts[vni.NICRelaysMissed]++
		default:
			e.countMessage(p, vni.StatusOK, mc.length)
			e.endReceiver(mc, int(mc.relayed[i]), vni.StatusOK)
		}
	}
	if missed && mc.started {
		if mc.node.in == nil { // else it waits for copies anyway
			p.held.pushBack(&mc.node)
		}
		e.resumeSoon(p)
	}
}

// disown lets a relay continue without its multicast.
func (e *Engine) disown(mc *multicast) {
	if mc.relay != nil {
		mc.relay = nil
		mc.s.wait(sendCopies, nil)
	}
}

// abandonRelay lets a relay whose outcome is not awaited continue alone.
func (e *Engine) abandonRelay(mc *multicast) {
	if r := mc.relay; r != nil {
		e.disown(mc)
		e.relays.Abandon(r)
	}
}
