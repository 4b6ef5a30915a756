package coll

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A broadcast goes down a tree (tree.go) from NIC to NIC. The processes in between are not
// involved, so a stopped process delays nothing below it.
//
//	root            member in between    members below
//	  │── Offer ─────►│── Offer ──────────────►│   of more than one piece: is there room?
//	  │◄───── Grant ──│◄────────────── Grant ──│
//	  │── Piece ─────►│── Piece ──────────────►│   each piece is passed on as soon as it arrives
//	  │── Piece ─────►│── Piece ──────────────►│
//	  │               │◄──────────────── Ack ──│
//	  │◄──────── Ack ─│   all below have it, and so have I
//
// Data to be passed on is in transit memory. Each membership has a fixed amount of it and grants
// no more. The memory is free again when the members below have the data, whatever the process
// here does. If the process has not asked for the broadcast by then, the data is kept for it
// within a quota. Beyond the quota the data is dropped, and fetched from the root when the
// process asks. Until then the Ack is withheld, so that only the root's process waits for it.

// enterBroadcast starts a broadcast for the process.
func (t *Table) enterBroadcast(o *operation) {
	if o.m.rank != o.root {
		switch {
		case !o.known:
		case o.late:
			o.late, o.fetching = false, true
			t.tryGrant(o)
		case o.complete:
			t.deliver(o)
		}
		t.settle(o)
		return
	}
	t.learn(o, o.room)
	for i := range o.pieces() {
		o.order = append(o.order, uint16(i))
	}
	o.complete = true
	t.carryOn(o)
}

// learn notes the length of the data, and prepares to pass it on. Short data is sent without an
// offer.
func (t *Table) learn(o *operation, length int) {
	m := o.m
	o.known, o.length = true, length
	for _, rank := range t.branch(m, o.root).Children {
		l := t.newLeg(o, rank, pieceBroadcast)
		t.watchLeg(l)
		l.granted = length <= m.g.piece
		if !l.granted {
			t.signal(m, rank, o.number, signalOffer, 0, uint64(o.root)<<32|uint64(length))
		}
	}
}

// offerHeard handles the offer of long data.
func (t *Table) offerHeard(m *member, from int, s wire.Signal) {
	root, length := int(s.Value>>32), int(uint32(s.Value))
	if !m.g.complete || root >= len(m.g.seats) || length > limits.BroadcastBytes || length <= m.g.piece ||
		root == m.rank {
		t.count(vni.DropFormat)
		return
	}
	o := t.operation(m, s.Operation)
	if o.kind != kindUnknown && o.kind != kindBroadcast || o.known || o.entered && o.root != root {
		t.mismatch(m)
		return
	}
	o.kind, o.root, o.offered = kindBroadcast, root, from
	t.learn(o, length)
	t.tryGrant(o)
}

// mayTake reports whether there is transit memory for an operation. For the oldest that wants
// some there always is. The reason: offers overtake one another, and broadcasts of several roots
// take different ways. If one NIC kept newer ones until the next NIC took them, while that NIC
// kept its memory for older ones, neither would proceed. So a membership holds TransitBytes and,
// in addition, the needs of each broadcast that arrived after newer ones.
func (t *Table) mayTake(o *operation) bool {
	m := o.m
	if m.inTransit == 0 || m.inTransit+o.length <= limits.TransitBytes {
		return true
	}
	for n, other := range m.ops { // order does not matter: all are checked, or one decides
		if other != o && other.held && !other.staged && int32(n-o.number) < 0 {
			return false
		}
	}
	return true
}

// tryGrant takes memory for the data of an operation and asks for the data, or waits for memory.
func (t *Table) tryGrant(o *operation) {
	m := o.m
	if !t.mayTake(o) {
		if !o.waits {
			o.waits = true
			m.waiting++
		}
		return
	}
	t.takeBuffer(o)
	if o.fetching {
		o.complete, o.order, o.have = false, o.order[:0], [len(o.have)]uint64{}
		t.signal(m, o.root, o.number, signalFetch, 0, 0)
		return
	}
	t.signal(m, o.offered, o.number, signalGrant, 0, 0)
	o.offered = -1
}

// retryWaiting retries operations that wait for transit memory, the oldest first.
func (t *Table) retryWaiting(m *member) {
	for m.waiting > 0 && t.cfg.Defect != mutate.WaiterForgotten {
		var oldest *operation
		for n, o := range m.ops { // the least of them, in any order
			if o.waits && (oldest == nil || int32(n-oldest.number) < 0) {
				oldest = o
			}
		}
		if !t.mayTake(oldest) {
			return
		}
		t.stopWaiting(oldest)
		t.tryGrant(oldest)
	}
}

func (t *Table) stopWaiting(o *operation) {
	if o.waits {
		o.waits = false
		o.m.waiting--
	}
}

func (t *Table) takeBuffer(o *operation) {
	o.buf, o.held = t.nic.TakeBuffer(o.length), true
	o.m.inTransit += o.length
}

func (t *Table) dropBuffer(o *operation) {
	if !o.held {
		return
	}
	t.nic.GiveBuffer(o.buf)
	o.buf, o.held = nil, false
	if o.staged {
		o.staged = false
		o.m.staged -= o.length
		o.m.stagedOps--
	} else {
		o.m.inTransit -= o.length
	}
}

// broadcastPiece handles a piece.
func (t *Table) broadcastPiece(o *operation, p *wire.Piece, payload []byte) {
	m := o.m
	if !o.known {
		if int(p.Length) > m.g.piece || o.root == m.rank {
			t.count(vni.DropFormat)
			return
		}
		t.learn(o, int(p.Length))
		t.takeBuffer(o)
	}
	at := int(p.Offset)
	i := at / m.g.piece
	if o.complete || !o.held || int(p.Length) != o.length || at%m.g.piece != 0 ||
		len(payload) != min(o.length-at, m.g.piece) ||
		o.have[i/64]&(1<<(i%64)) != 0 {
		if !o.complete {
			t.count(vni.DropFormat)
		}
		return
	}
	o.have[i/64] |= 1 << (i % 64)
	copy(o.buf[at:], payload)
	o.order = append(o.order, uint16(i))
	if len(o.order) == o.pieces() {
		o.complete = true
		if o.entered {
			t.deliver(o)
		}
	}
	t.carryOn(o)
}

// deliver gives the data to the process.
func (t *Table) deliver(o *operation) {
	if o.req == nil {
		return
	}
	n, status := min(o.room, o.length), vni.StatusOK
	if n < o.length {
		status = vni.StatusTruncated
		t.count(vni.NICTruncated)
	}
	o.req.Write(0, o.buf[:n])
	t.finish(o, status, n, o.length)
}

// legHeard handles a signal from a member below, or from one that fetches.
func (t *Table) legHeard(o *operation, from int, what uint8) {
	if o.kind == kindReduce {
		if what == signalAck {
			t.contributionTaken(o, from)
		}
		return
	}
	l, there := o.legTo(from), true
	switch {
	case what == signalFetch && o.root == o.m.rank && o.req != nil && !o.fetchedBy(from):
		l = t.newLeg(o, from, pieceBroadcast)
		l.granted, l.fetch = true, true
		there = t.pump(l)
	case what == signalGrant && l != nil:
		l.granted = true
		there = t.pump(l)
	case what == signalAck && l != nil && !l.acked:
		l.acked = true
		l.watched.Off()
		o.acks++
	}
	if there {
		t.settle(o)
	}
}

func (t *Table) settleBroadcast(o *operation) {
	if !o.known || !o.complete || !o.sent() {
		return
	}
	m := o.m
	below := 0
	for _, l := range o.legs {
		if !l.fetch {
			below++
		}
	}
	if m.rank == o.root {
		if o.acks == below {
			t.finish(o, vni.StatusOK, o.length, o.length)
			t.free(o)
		}
		return
	}
	t.shelve(o)
	if o.acks < below && t.cfg.Defect != mutate.AckAhead ||
		(o.late || o.fetching && o.req != nil) && t.cfg.Defect != mutate.LateForgotten {
		return
	}
	if !o.acked {
		o.acked = true
		t.signal(m, t.branch(m, o.root).Parent, o.number, signalAck, 0, 0)
	}
	if o.entered && o.req == nil {
		t.free(o)
	}
}

// shelve frees transit memory whose data has been passed on: the process has it, or it is staged,
// or it is dropped.
func (t *Table) shelve(o *operation) {
	m := o.m
	switch {
	case !o.held || o.staged || o.entered && o.req != nil:
		return
	case o.entered:
		t.dropBuffer(o)
	case m.staged+o.length <= limits.GroupStaging && m.stagedOps < limits.GroupStagedOperations:
		o.staged = true
		m.inTransit -= o.length
		m.staged += o.length
		m.stagedOps++
	default:
		t.dropBuffer(o)
		o.late = true
		t.count(vni.NICCollectivesLate)
	}
	t.retryWaiting(m)
}
