package nic

import (
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Every message follows one path, whatever carries it:
//
//	fragment, run ┐
//	relay ────────┤
//	first piece ──┼─► come before? credit? ─┬─► in turn? ─► filter ─► posted receive? ─► delivered
//	request ──────┘                         │      │ no       │ drop        │ no
//	local message: once, no credit needed ──┘      ▼          ▼             ▼
//	                                            parked   passed over  waits for a receive
//
// A parked message goes the rest of the way when its turn comes. So a filter judges the messages
// in their order and each one once, whatever carried them and whether or not a receive is posted.
// The direct way takes a message from the link itself (lone.go) only if the process has no filter.

// arrival says whether a message continues after its envelope has arrived.
type arrival uint8

const (
	goesOn     arrival = iota
	cameBefore         // by a relay, or it was withdrawn
	noCredit           // a correct NIC does not send such a message
)

// arrived judges a message from src whose envelope has arrived, or a run of messages that are next
// in order. It takes their cost from the credit that src's NIC was given. The cost is 0 for a
// message that asks for permission.
func (e *Engine) arrived(src *source, env *wire.Envelope, cost uint64) arrival {
	if (env.Number != src.expected || src.early.n > 0) && !src.fresh(env.Number) {
		e.counts[vni.NICDuplicates]++
		return cameBefore
	}
	if env.Token&callToken != 0 && src.p.givenUp > 0 {
		// The token is in use again.
		src.p.forgetGivenUp(src.credit, givenUpCall{env.SrcSlot, env.SrcGen, env.Token})
	}
	if e.cfg.Defect == mutate.CreditUnchecked && !src.credit.covers(cost) {
		return goesOn
	}
	if !src.credit.spend(e.now, cost) {
		e.counts[vni.DropFormat]++
		return noCredit
	}
	return goesOn
}

// Arrival describes a message to a Filter.
type Arrival struct {
	From   vni.Name
	Addr   vni.Address
	Tag    uint64
	Length uint64 // of the message, in bytes
	// The whole message if it came in one piece from another NIC, else nil; valid only during the
	// call.
	Payload []byte
}

// Filter judges the messages for a process in their turn, before they are matched, and datagrams
// as they arrive. It reports whether to drop the message. No receive gets a dropped message, and a
// send that waits for its outcome fails. A Filter must not call the engine.
type Filter func(m *Arrival) (drop bool)

// Guard puts a filter in front of a process, or removes it if f is nil. It reports whether the
// process exists.
func (e *Engine) Guard(slot uint16, gen uint32, f Filter) bool {
	e.begin()
	p := e.process(slot)
	if p == nil || p.gen != gen {
		return false
	}
	if p.guard = nil; f != nil {
		p.guard = &guard{filter: f}
	}
	return true
}

// guard is the filter of a process and the message that the filter looks at. The message is kept
// here so that no call allocates.
type guard struct {
	filter Filter
	bytes  bool // it judges by the message's bytes: see judged.go
	seen   Arrival
}

// unwanted returns the reason to stop a message whose turn it is, or ReasonNone. payload is nil if
// the message has not arrived whole.
func (e *Engine) unwanted(src *source, env *wire.Envelope, length uint64, payload []byte) wire.Reason {
	switch g := src.p.guard; {
	case g != nil && e.drops(g, Arrival{
		From: src.name, Addr: vni.Address{NIC: src.nic, Slot: env.SrcSlot, Gen: env.SrcGen},
		Tag: env.Tag, Length: length, Payload: payload}):
		return wire.ReasonFiltered
	case env.Flags&wire.FlagAccept != 0 && src.p.libraries.lack(env.Tag):
		return wire.ReasonNoReceiver
	}
	return wire.ReasonNone
}

// drops calls a filter and reports whether it drops m.
func (e *Engine) drops(g *guard, m Arrival) bool {
	g.seen = m
	drop := g.filter(&g.seen)
	g.seen.Payload = nil
	if drop {
		e.counts[vni.NICFiltered]++
	}
	return drop
}
