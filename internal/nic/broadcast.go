package nic

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A broadcast goes down a tree (tree.go) from NIC to NIC; the processes in between are not asked, and one
// that is stopped delays nobody below it.
//
//	root            member in between                      members below
//	  │── Offer ─────►│── Offer ───────────────────────────────►│   of more than one piece: is there room?
//	  │◄───── Grant ──│◄────────────────────────────── Grant ──│
//	  │── Piece ─────►│── Piece ───────────────────────────────►│   each piece is passed on as soon as it is here
//	  │── Piece ─────►│── Piece ───────────────────────────────►│
//	  │               │◄──────────────────────────────── Ack ──│
//	  │◄──────── Ack ─│   everybody below has it, and so have I
//
// What is passed on is in transit memory, of which each membership has so much and grants no more; it is free again when
// those below have the data, whatever the process here does. If the process has not asked for the broadcast by then, the
// data is kept for it within a quota. Beyond the quota it is dropped, and fetched from the root when the process asks:
// until then the Ack is withheld, so that the root's process, and nobody else, waits for it.

// enterBroadcast is the process's part.
func (e *Engine) enterBroadcast(c *coll, length int) {
	m := c.m
	if m.rank != c.root {
		switch {
		case !c.known:
		case c.late:
			c.late, c.fetching = false, true
			e.tryGrant(c)
		case c.complete:
			e.deliverBroadcast(c)
		}
		e.settleColl(c)
		return
	}
	e.learnBroadcast(c, length)
	for i := range c.pieces() {
		c.order = append(c.order, uint16(i))
	}
	c.complete = true
	number := c.number
	e.pumpAll(c)
	if m.ops[number] == c {
		e.settleColl(c)
	}
}

// learnBroadcast notes how much comes, and prepares to pass it on. Short data goes without being offered.
func (e *Engine) learnBroadcast(c *coll, length int) {
	m := c.m
	c.known, c.length = true, length
	for _, rank := range e.branch(m, c.root).children {
		l := e.newLeg(c, rank, pieceBroadcast)
		e.watchLeg(l)
		l.granted = length <= m.g.piece
		if !l.granted {
			e.signal(m, rank, c.number, signalOffer, 0, uint64(c.root)<<32|uint64(length))
		}
	}
}

// offerHeard takes the offer of long data.
func (e *Engine) offerHeard(m *member, from int, s wire.Signal) {
	root, length := int(s.Value>>32), int(uint32(s.Value))
	if !m.g.complete || root >= len(m.g.seats) || length > limits.BroadcastBytes || length <= m.g.piece || root == m.rank {
		e.counts[vni.DropFormat]++
		return
	}
	c := e.collFor(m, s.Operation)
	if c.kind != collUnknown && c.kind != collBroadcast || c.known || c.entered && c.root != root {
		e.mismatch(m)
		return
	}
	c.kind, c.root, c.offered = collBroadcast, root, from
	e.learnBroadcast(c, length)
	e.tryGrant(c)
}

// mayTake reports whether there is transit memory for an operation. There always is for the oldest that wants some. Offers
// overtake one another, and broadcasts of several roots go different ways; if one NIC kept newer ones until the next took
// them, while that kept its memory for older ones, nobody would go on. So a membership holds TransitBytes and besides, of each
// broadcast that came after newer ones, what that needs.
func (e *Engine) mayTake(c *coll) bool {
	m := c.m
	if m.inTransit == 0 || m.inTransit+c.length <= limits.TransitBytes {
		return true
	}
	for n, o := range m.ops { // order does not matter: all are looked at, or one decides
		if o != c && o.held && !o.staged && int32(n-c.number) < 0 {
			return false
		}
	}
	return true
}

// tryGrant takes memory for the data of an operation and asks for it, or waits until there is some.
func (e *Engine) tryGrant(c *coll) {
	m := c.m
	if !e.mayTake(c) {
		if c.wait.in == nil {
			m.waiting.pushBack(&c.wait)
		}
		return
	}
	e.takeBuffer(c)
	if c.fetching {
		c.complete, c.order, c.have = false, c.order[:0], [len(c.have)]uint64{}
		e.signal(m, c.root, c.number, signalFetch, 0, 0)
		return
	}
	e.signal(m, c.offered, c.number, signalGrant, 0, 0)
	c.offered = -1
}

// retryWaiting lets operations that wait for transit memory try again, the oldest first.
func (e *Engine) retryWaiting(m *member) {
	for m.waiting.n > 0 {
		c := m.waiting.front()
		for n := m.waiting.head; n != nil; n = n.next {
			if int32(n.v.number-c.number) < 0 {
				c = n.v
			}
		}
		if !e.mayTake(c) {
			return
		}
		c.wait.remove()
		e.tryGrant(c)
	}
}

func (e *Engine) takeBuffer(c *coll) {
	c.buf, c.held = e.groups.transit.take(c.length), true
	c.m.inTransit += c.length
}

func (e *Engine) dropBuffer(c *coll) {
	if !c.held {
		c.buf = nil
		return
	}
	c.held = false
	if c.buf != nil {
		e.groups.transit.give(c.buf)
		c.buf = nil
	}
	if c.staged {
		c.staged = false
		c.m.staged -= c.length
		c.m.stagedOps--
		return
	}
	c.m.inTransit -= c.length
}

// broadcastPiece takes a piece.
func (e *Engine) broadcastPiece(c *coll, p *wire.Piece, payload []byte) {
	m := c.m
	if !c.known {
		if int(p.Length) > m.g.piece || c.root == m.rank {
			e.counts[vni.DropFormat]++
			return
		}
		e.learnBroadcast(c, int(p.Length))
		e.takeBuffer(c)
	}
	at := int(p.Offset)
	i := at / m.g.piece
	if c.complete || !c.held || int(p.Length) != c.length || at%m.g.piece != 0 || len(payload) != min(c.length-at, m.g.piece) ||
		c.have[i/64]&(1<<(i%64)) != 0 {
		if !c.complete {
			e.counts[vni.DropFormat]++
		}
		return
	}
	c.have[i/64] |= 1 << (i % 64)
	copy(c.buf[at:], payload)
	c.order = append(c.order, uint16(i))
	number := c.number
	if len(c.order) == c.pieces() {
		c.complete = true
		if c.entered {
			e.deliverBroadcast(c)
		}
	}
	e.pumpAll(c)
	if m.ops[number] == c {
		e.settleColl(c)
	}
}

// deliverBroadcast gives the process the data.
func (e *Engine) deliverBroadcast(c *coll) {
	if c.s == nil {
		return
	}
	n, status := min(int(c.s.frag.Length), c.length), vni.StatusOK
	if n < c.length {
		status = vni.StatusTruncated
		e.counts[vni.NICTruncated]++
	}
	scatter(c.s.frag.Parts, 0, c.buf[:n])
	e.finishColl(c, status, n, c.length)
}

// legHeard takes a signal of a member below, or of one that fetches.
func (e *Engine) legHeard(c *coll, from int, what uint8) {
	m, number := c.m, c.number
	if c.kind == collReduce {
		if what == signalAck {
			e.contributionTaken(c, from)
		}
		return
	}
	l := c.legTo(from)
	switch {
	case what == signalFetch && c.root == m.rank && c.s != nil && !c.fetchedBy(from):
		l = e.newLeg(c, from, pieceBroadcast)
		l.granted, l.fetch = true, true
		e.pump(l)
	case what == signalGrant && l != nil:
		l.granted = true
		e.pump(l)
	case what == signalAck && l != nil && !l.acked:
		l.acked = true
		l.unwatch()
		c.acks++
	}
	if m.ops[number] == c {
		e.settleColl(c)
	}
}

// settleColl does what the state of an operation calls for once something of it has been completed.
func (e *Engine) settleColl(c *coll) {
	if c.kind == collReduce {
		e.settleReduce(c)
		return
	}
	if !c.known || !c.complete || !c.sent() {
		return
	}
	m := c.m
	below := 0
	for _, l := range c.legs {
		if !l.fetch {
			below++
		}
	}
	if m.rank == c.root {
		if c.acks == below {
			e.finishColl(c, vni.StatusOK, c.length, c.length)
			e.freeColl(c)
		}
		return
	}
	e.shelve(c)
	if c.acks < below || (c.late || c.fetching && c.s != nil) && e.cfg.Defect != mutate.LateForgotten {
		return
	}
	if !c.acked {
		c.acked = true
		e.signal(m, e.branch(m, c.root).parent, c.number, signalAck, 0, 0)
	}
	if c.entered && c.s == nil {
		e.freeColl(c)
	}
}

// shelve frees transit memory whose data has been passed on: the process has it, or it is staged, or it is dropped.
func (e *Engine) shelve(c *coll) {
	m := c.m
	switch {
	case !c.held || c.staged || c.entered && c.s != nil:
		return
	case c.entered:
		e.dropBuffer(c)
	case m.staged+c.length <= limits.GroupStaging && m.stagedOps < limits.GroupStagedOperations:
		c.staged = true
		m.inTransit -= c.length
		m.staged += c.length
		m.stagedOps++
	default:
		e.dropBuffer(c)
		c.late = true
		e.counts[vni.NICCollectivesLate]++
	}
	e.retryWaiting(m)
}
