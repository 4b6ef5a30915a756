package nic

import (
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A message arrives by one rule, whichever way it comes:
//
//	fragment, run ──┐
//	relay ──────────┤
//	first piece ────┼─► arrived: come before? credit? ──┬─► in its turn? ─► filter ─► posted receive? ─► delivered
//	request ────────┘                                   │       │ no          │ drop         │ no
//	local message: comes once, needs no credit ─────────┘       ▼             ▼              ▼
//	                                                          parked     passed over    waits for a receive
//
// A message that is parked goes the rest of the way when its turn comes. A filter so judges messages in their order, and each once,
// whatever brought it and whether or not a receive is posted. The direct way takes a message from the link itself (lone.go) only where
// no filter stands in front of the process.

// arrival says whether a message goes on whose envelope has come.
type arrival uint8

const (
	goesOn     arrival = iota
	cameBefore         // by a relay, or it was withdrawn
	noCredit           // no correct NIC sends such
)

// arrived judges a message from src whose envelope has come, or a run of them that are next, and takes its cost of the credit that
// src's NIC was handed; 0 for one that asks for permission.
func (e *Engine) arrived(src *source, env *wire.Envelope, cost uint64) arrival {
	if (env.Number != src.expected || src.early.n > 0) && !src.fresh(env.Number) {
		e.counts[vni.NICDuplicates]++
		return cameBefore
	}
	if env.Token&callToken != 0 && src.p.givenUp > 0 {
		src.p.forgetGivenUp(src.credit, givenUpCall{env.SrcSlot, env.SrcGen, env.Token}) // the token is in use again
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

// Arrival is a message as a Filter sees it.
type Arrival struct {
	From    vni.Name
	Addr    vni.Address
	Tag     uint64
	Length  uint64 // of the message, in bytes
	Payload []byte // all of it if it came in one piece from another NIC, else nil. It is lent for the call
}

// Filter judges the messages for a process in their turn, and datagrams as they come, before they are matched. It reports whether the message is dropped: then
// no receive sees it, and the send that waits for its outcome fails. It must not call the engine.
type Filter func(m *Arrival) (drop bool)

// Guard puts a filter in front of a process; nil takes it away. It reports whether there is such a process.
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

// guard is the filter of a process, with the message that it looks at, so that none is allocated.
type guard struct {
	filter Filter
	bytes  bool // it judges by them: see judged.go
	seen   Arrival
}

// unwanted says why a message whose turn it is goes no further, if it does not. payload is nil if it has not come whole.
func (e *Engine) unwanted(src *source, env *wire.Envelope, length uint64, payload []byte) wire.Reason {
	switch g := src.p.guard; {
	case g != nil && e.drops(g, Arrival{From: src.name, Addr: vni.Address{NIC: src.nic, Slot: env.SrcSlot, Gen: env.SrcGen}, Tag: env.Tag, Length: length, Payload: payload}):
		return wire.ReasonFiltered
	case env.Flags&wire.FlagAccept != 0 && src.p.libraries.lack(env.Tag):
		return wire.ReasonNoReceiver
	}
	return wire.ReasonNone
}

// drops asks a filter.
func (e *Engine) drops(g *guard, m Arrival) bool {
	g.seen = m
	drop := g.filter(&g.seen)
	g.seen.Payload = nil
	if drop {
		e.counts[vni.NICFiltered]++
	}
	return drop
}
