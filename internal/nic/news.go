package nic

import (
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// Refusal is a NIC that has said hello and may not talk to this one. It gets no answer: an answer
// would tell strangers that this NIC is here.
type Refusal struct {
	NIC  uint64 // the id that it claims; 0 if it does not belong to the fabric
	Addr link.Addr
	// One of package names, of package trust, rel.ErrOutdated, ErrFabric, ErrPlain or ErrSealed.
	Why   error
	Times uint64
	Last  clock.Time
}

// peerNews holds events between this NIC and others that its log should report.
type peerNews struct {
	changes uint64 // grows with each event
	refused []Refusal
}

// Changes returns a number that grows whenever a session begins or ends, a NIC is found not to
// answer, is forgotten, or is refused for the first time.
func (e *Engine) Changes() uint64 {
	e.begin()
	return e.peers.news.changes
}

// Refusals returns the refused NICs, at most limits.Refusals. A new one replaces the one that has
// been silent longest.
func (e *Engine) Refusals() []Refusal {
	e.begin()
	return slices.Clone(e.peers.news.refused)
}

// refuse notes a refused hello.
func (n *peerNews) refuse(now clock.Time, nic uint64, from link.Addr, why error) {
	oldest := 0
	for i := range n.refused {
		r := &n.refused[i]
		if r.NIC == nic && r.Addr == from && r.Why.Error() == why.Error() {
			r.Times++
			r.Last = now
			return
		}
		if r.Last < n.refused[oldest].Last {
			oldest = i
		}
	}
	n.changes++
	r := Refusal{NIC: nic, Addr: from, Why: why, Times: 1, Last: now}
	if len(n.refused) < limits.Refusals {
		n.refused = append(n.refused, r)
		return
	}
	n.refused[oldest] = r
}

// up notes that a session with a peer begins.
func (n *peerNews) up(pr *peer) {
	n.changes++
	pr.ended, pr.wasUp = nil, true
}

// down notes that a session has ended, or that the first attempt at one has failed. Further failed
// attempts are no news.
func (n *peerNews) down(pr *peer, why error) {
	if pr.wasUp || pr.ended == nil {
		n.changes++
	}
	pr.ended, pr.wasUp = why, false
}
