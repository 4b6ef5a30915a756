package nic

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/coll"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A service is a part of a NIC with its own records and its own state: groups are one. It is a
// package below this one. The engine calls the service when something happens that concerns it.
// The service calls the engine through its own interface, which has the methods that it needs of
// those here. docs/architecture.md has the whole list, under "Adding a service to the engine".

// services is the engine as services see it.
type services Engine

func (s *services) engine() *Engine { return (*Engine)(s) }

// part returns a service's part of the entry of a NIC, or nil if there is no such NIC.
func part[P any](s *services, nic uint64, of func(*peer) *P) *P {
	if pr := s.engine().peerOf(nic); pr != nil {
		return of(pr)
	}
	return nil
}

// Now returns the time of this poll.
func (s *services) Now() clock.Time { return s.now }

// CheckAt makes the engine call expire at t or earlier.
func (s *services) CheckAt(t clock.Time) { s.expiry.at(t) }

// Record reserves a Table record with n bytes of payload, all zero. It returns nil if the pair is
// not open.
func (s *services) Record(to *rel.Endpoint, n int) []byte {
	b := to.Control(s.now, wire.RecordLen+n)
	if b == nil {
		return nil
	}
	s.counts[vni.NICNameUpdatesSent]++
	wire.PutTable(b, n)
	b = b[wire.RecordLen:]
	clear(b[:n])
	return b
}

// Expect notes that a process is known by its name although its claim may still be in flight.
func (s *services) Expect(name vni.Name, at vni.Address) { s.names.Expect(name, at) }

// Complete ends a command.
func (s *services) Complete(r coll.Request, c vni.Completion) { s.engine().endSend(r.(*send), &c) }

// Reject ends a command whose arguments are wrong.
func (s *services) Reject(r coll.Request, c vni.Completion, argument error) {
	p := r.(*send).p
	s.engine().endSend(r.(*send), &c)
	s.engine().badArgument(p, argument)
}

// TakeBuffer returns a buffer of transit memory.
func (s *services) TakeBuffer(n int) []byte { return s.transit.take(n) }

// GiveBuffer gives a buffer of transit memory back.
func (s *services) GiveBuffer(b []byte) { s.transit.give(b) }

// Read fills to with bytes of the send's memory, starting at from.
func (s *send) Read(to []byte, from uint64) { vni.Gather(to, s.frag.Parts, from) }

// Write copies b into the send's memory at offset at.
func (s *send) Write(at uint64, b []byte) { scatter(s.frag.Parts, at, b) }

// forGroups is the engine as internal/coll sees it.
type forGroups struct{ *services }

// Peer returns the group state of a NIC.
func (h forGroups) Peer(nic uint64) *coll.Peer {
	return part(h.services, nic, func(pr *peer) *coll.Peer { return &pr.groups })
}

// Groups returns the Group Table (QNIX-54).
func (e *Engine) Groups() *coll.Table { return e.groups }
