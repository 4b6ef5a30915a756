package nic

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/names"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Order is the matcher's job (decision 5). A source counts the envelopes that have been matched or
// queued. An early envelope is parked until those before it have arrived. A peer can park only as
// much as it may send: its credit, its permission requests, and rel's window.
//
// A parked message is neither accepted nor delivered, and the end of the session drops it. So what
// a process receives from another within a session has no holes (decision 6).

// sourceKey identifies a process of the fabric, in one life, as a sender to a process of ours. Its
// peer is nil if it is on this NIC.
type sourceKey struct {
	peer *peer
	slot uint16
	gen  uint32
}

type source struct {
	key      sourceKey
	nic      uint64
	p        *process // the receiver
	name     vni.Name // zero until the sender's NIC has announced it
	named    bool     // the name has been announced
	over     bool     // the sender has gone, and p has been told
	credit   *credit  // of its NIC; nil if the sender is on this NIC
	expected uint32   // number of the next envelope to match
	early    list[inbound]
	// What Meet returns as the sender, made at the first Meet; the source is then named.
	sender *vni.Sender
}

// whole returns the sender as processes see it, which does not change. The source is named, or its
// name will never be asked for.
func (src *source) whole() *vni.Sender {
	if src.sender == nil {
		src.sender = &vni.Sender{Name: src.name, NIC: src.nic, Slot: src.key.slot, Gen: src.key.gen}
	}
	return src.sender
}

// sourceOf returns the sender of an envelope, as its receiver knows it. If there is no such
// receiver, it tells the sender and returns nil.
func (e *Engine) sourceOf(pr *peer, env *wire.Envelope, id wire.FragmentID) *source {
	p := e.process(env.DstSlot)
	if p == nil || !p.served() {
		e.refuse(pr, id, env.SrcSlot, env.Token, wire.ReasonProcessGone)
		return nil
	}
	if p.gen != env.DstGen && e.cfg.Defect != mutate.StaleGenerationOK {
		e.refuse(pr, id, env.SrcSlot, env.Token, wire.ReasonStaleGeneration)
		return nil
	}
	src := e.source(p, sourceKey{pr, env.SrcSlot, env.SrcGen})
	if src == nil {
		e.counts[vni.DropFormat]++
	}
	return src
}

// source returns the sender k among those that p has heard of. It returns nil if that would be one
// more than the sender's NIC may have.
func (e *Engine) source(p *process, k sourceKey) *source {
	if src := p.lastSource; src != nil && src.key == k {
		return src
	}
	src := p.sources[k]
	if src == nil {
		src = &source{key: k, p: p, expected: 1, nic: e.cfg.ID}
		if k.peer != nil {
			src.nic, src.credit = k.peer.nic, p.creditOf(k.peer)
			if src.credit.sources == limits.SourcesPerPeer {
				return nil
			}
			src.credit.sources++
			src.credit.heard = true
		}
		switch k.slot {
		case 0:
			src.name, src.named = names.Control, true
		case programSlot:
			src.name, src.named = programName(k.gen), true
		default:
			if n := e.names.At(vni.Address{NIC: src.nic, Slot: k.slot, Gen: k.gen}); n != nil && !n.Stale() {
				// Else its NIC has not announced it in this session.
				src.name, src.named = n.Name, true
			}
		}
		p.sources[k] = src
	}
	p.lastSource = src
	return src
}

// behind returns the last parked envelope with this number or a lower one. Most come in order, so
// it searches from the end.
func (src *source) behind(number uint32) *node[inbound] {
	n := src.early.tail
	for n != nil && int32(n.v.env.Number-number) > 0 {
		n = n.prev
	}
	return n
}

// fresh reports whether an envelope with this number may still arrive.
func (src *source) fresh(number uint32) bool {
	if int32(number-src.expected) < 0 {
		return false
	}
	n := src.behind(number)
	return n == nil || n.v.env.Number != number
}

// mayVoid reports whether one more withdrawn number may be parked.
func (src *source) mayVoid() bool { return src.credit == nil || src.credit.voids < limits.VoidsPerPeer }

// inOrder reports whether the envelope with this number is the one to match now. It returns false
// while the name of its sender is unknown: matching uses names, and the table with this name is on
// its way.
func (e *Engine) inOrder(src *source, number uint32) bool {
	if !src.named {
		return false
	}
	return number == src.expected || e.cfg.Defect == mutate.OrderIgnored
}

// arrive matches an envelope that has arrived, or parks it.
func (e *Engine) arrive(inb *inbound) {
	src := inb.src
	next := e.inOrder(src, inb.env.Number)
	if next && !e.awaitsBytes(inb) {
		e.offer(inb)
		e.advance(src)
		return
	}
	if !next {
		e.counts[vni.NICEarly]++
	}
	src.early.insertAfter(&inb.node, src.behind(inb.env.Number))
	if inb.done && e.cfg.Defect == mutate.AcceptedParked {
		e.accept(inb, nil)
	}
}

// parked reports whether envelopes before that of inb have not arrived yet.
func (inb *inbound) parked() bool { return inb.src != nil && inb.node.in == &inb.src.early }

// advance passes over the envelope just matched, and matches those parked behind it.
func (e *Engine) advance(src *source) {
	src.expected++
	e.release(src)
}

// release matches the parked envelopes whose turn has come.
func (e *Engine) release(src *source) {
	for {
		inb := src.early.front()
		if inb == nil || !e.inOrder(src, inb.env.Number) || e.awaitsBytes(inb) {
			return
		}
		inb.node.remove()
		if inb.kind == inboundVoid {
			e.freeInbound(inb)
		} else {
			e.offer(inb)
		}
		src.expected++
	}
}

// named gives the sources at an address their name, and matches the messages that waited for it.
func (e *Engine) named(n *names.Entry) {
	pr := e.peerOf(n.NIC)
	for p := range e.procs.all {
		if src := p.sources[sourceKey{pr, n.Slot, n.Gen}]; src != nil && !src.named {
			src.name, src.named = n.Name, true
			if e.cfg.Defect != mutate.NamedUnreleased {
				e.release(src)
			}
		}
	}
}

// withdrawn passes over a message that its sender has given up (USNIC has no such thing; a
// context.Context that ends needs it).
func (e *Engine) withdrawn(pr *peer, r wire.Record) {
	id, env := r.Withdraw()
	if inb := pr.in.get(id); inb != nil {
		e.abort(inb)
		return
	}
	p := e.process(env.DstSlot)
	if p == nil || p.gen != env.DstGen || e.cfg.Defect == mutate.WithdrawKeepsNumber {
		return
	}
	src := e.source(p, sourceKey{pr, env.SrcSlot, env.SrcGen})
	if src == nil {
		return
	}
	if !src.fresh(env.Number) {
		if givesUpCall(id, &env) {
			e.noteGivenUp(src, env.Token)
		}
		return
	}
	if !src.mayVoid() {
		return
	}
	// The Withdraw has overtaken its message, which fresh will refuse from now on.
	e.refund(src, env.Tag)
	e.passOver(e.newInbound(src, &env, inboundStaged, 0))
}
