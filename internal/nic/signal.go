package nic

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// hereSignal is a signal between two members of this NIC. They are passed on by a queue, so that one does not follow
// another on the stack without end.
type hereSignal struct {
	to   *member
	from int
	sig  wire.Signal
}

// signal sends a signal to another member.
func (e *Engine) signal(m *member, rank int, number uint32, what, round uint8, value uint64) {
	to := &m.g.seats[rank]
	s := wire.Signal{GroupHeader: wire.GroupHeader{Group: to.number, Epoch: m.g.key.Index, Operation: number, Rank: uint32(m.rank)},
		What: what, Round: round, Value: value}
	if to.nic == e.cfg.ID {
		if o := e.groups.members[to.number]; o != nil {
			e.groups.here = append(e.groups.here, hereSignal{o, m.rank, s})
		}
		return
	}
	if pr := e.peerOf(to.nic); pr != nil {
		e.sendSignal(pr, s)
	}
}

func (e *Engine) sendSignal(pr *peer, s wire.Signal) {
	e.counts[vni.NICSignalsSent]++
	b := pr.ep.Control(e.now, wire.SignalLen)
	if b == nil {
		pr.ep.Connect(e.now)
		pr.signals = append(pr.signals, s)
		return
	}
	s.Put(b)
}

// flushSignals sends what has waited for the pair to open.
func (e *Engine) flushSignals(pr *peer) {
	l := pr.signals
	pr.signals = nil
	for _, s := range l {
		e.sendSignal(pr, s)
	}
}

// runGroups passes on the signals between members of this NIC.
func (e *Engine) runGroups() {
	t := &e.groups
	for i := 0; i < len(t.here); i++ {
		h := t.here[i]
		t.here[i] = hereSignal{}
		if t.members[h.sig.Group] == h.to {
			e.takeSignal(h.to, h.from, h.sig)
		}
	}
	t.here = t.here[:0]
}

// receiverOf finds the member that a record of a peer is for, and judges what every such record has. Nil: it is for
// nobody, or for nobody any more.
func (e *Engine) receiverOf(pr *peer, h *wire.GroupHeader) *member {
	m := e.groups.members[h.Group]
	if m == nil || h.Epoch != m.g.key.Index {
		return nil // it has left
	}
	if m.g.complete {
		if int(h.Rank) >= len(m.g.seats) || m.g.seats[h.Rank].nic != pr.nic {
			e.stranger(pr, m)
			return nil
		}
	}
	return m
}

// stranger answers a NIC whose process takes itself for a member of m's group, and is not: its join must not wait for ever.
func (e *Engine) stranger(pr *peer, m *member) {
	e.counts[vni.DropFormat]++
	for _, g := range e.groups.list {
		if g == m.g || g.key != m.g.key {
			continue
		}
		for i := range g.seats {
			if s := &g.seats[i]; s.nic == pr.nic && !s.gone {
				e.sendSignal(pr, wire.Signal{GroupHeader: wire.GroupHeader{Group: s.number, Epoch: g.key.Index}, What: signalMismatch})
			}
		}
	}
}

// open reports whether a member's operation may still go on, and that it is not one that has ended.
func (m *member) open(number uint32) bool {
	if m.ended(number) {
		return false
	}
	return m.ops[number] != nil || int32(number-m.next) >= 0 && !m.left
}

// tooFar reports whether others are further ahead of m than they can be.
func (m *member) tooFar(number uint32) bool {
	return m.ops[number] == nil && len(m.ops) > len(m.g.seats)*limits.CollectivesUnderWay+limits.GroupAhead
}

// signalRecord takes a signal of a peer.
func (e *Engine) signalRecord(pr *peer, s wire.Signal) {
	if m := e.groups.members[s.Group]; m != nil && m.g.key.Index == s.Epoch {
		switch {
		case s.What == signalMismatch && (m.join != nil || m.g.complete && s.Value == m.g.sum):
			e.disagreed(m)
		case s.What == signalFull && m.join != nil && m.base == nil:
			e.endJoin(m, vni.StatusGroupSize)
		}
	}
	if s.What == signalMismatch || s.What == signalFull {
		return
	}
	if m := e.receiverOf(pr, &s.GroupHeader); m != nil {
		e.takeSignal(m, int(s.Rank), s)
	}
}

// takeSignal takes a signal from another member.
func (e *Engine) takeSignal(m *member, from int, s wire.Signal) {
	switch s.What {
	case signalLost:
		if m.g.complete && s.Value < uint64(len(m.g.seats)) && !m.g.seats[s.Value].gone {
			e.loseSeat(m.g, int(s.Value), 0, true)
		}
		return
	case signalMismatch:
		if m.join != nil || s.Value == m.g.sum {
			e.disagreed(m)
		}
		return
	}
	if !m.open(s.Operation) {
		if s.What == signalRound && s.Operation == 0 && m.g.complete && s.Value != m.g.sum {
			if pr := e.peerOf(m.g.seats[from].nic); pr != nil {
				e.stranger(pr, m)
			}
		}
		return
	}
	if m.tooFar(s.Operation) {
		e.counts[vni.DropFormat]++
		e.mismatch(m)
		return
	}
	switch s.What {
	case signalRound:
		e.roundHeard(m, s)
	case signalOffer:
		e.offerHeard(m, from, s)
	case signalGrant, signalFetch, signalAck:
		if c := m.ops[s.Operation]; c != nil && c.known {
			e.legHeard(c, from, s.What)
		}
	default:
		e.counts[vni.DropFormat]++
	}
}

// pieceRecord takes a piece of a peer.
func (e *Engine) pieceRecord(pr *peer, p wire.Piece, payload []byte) {
	if m := e.receiverOf(pr, &p.GroupHeader); m != nil {
		e.takePiece(m, int(p.Rank), &p, payload)
	}
}

// takePiece takes a piece from another member.
func (e *Engine) takePiece(m *member, from int, p *wire.Piece, payload []byte) {
	if !m.g.complete || !m.open(p.Operation) {
		return
	}
	if int(p.Root) >= len(m.g.seats) || m.tooFar(p.Operation) {
		e.counts[vni.DropFormat]++
		return
	}
	c := e.collFor(m, p.Operation)
	kind := collReduce
	if p.What == pieceBroadcast {
		kind = collBroadcast
	}
	if c.kind != collUnknown && c.kind != kind || (c.known || c.entered) && c.root != int(p.Root) {
		e.mismatch(m)
		return
	}
	c.kind, c.root = kind, int(p.Root)
	if kind == collBroadcast {
		e.broadcastPiece(c, p, payload)
		return
	}
	if c.known && (c.length != int(p.Length) || c.operator != vni.Operator(p.Operator)) {
		e.mismatch(m)
		return
	}
	e.reducePiece(c, from, p, payload)
}
