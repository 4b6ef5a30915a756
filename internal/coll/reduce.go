package coll

import (
	"slices"

	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A reduction goes up the tree of a broadcast from the root. A NIC that has its process's vector
// and those of all members below adds them up and sends the sum up. It adds in the order of the
// children, so that the result is the same in every run. If all members want the result, it comes
// down the same tree. One vector fits one piece. A longer vector takes several operations, some
// of which the process has in flight.
//
//	contribution of a child ──► taken in ─► Ack: the child's process is done if it wants no result
//
// The Ack keeps members from running ahead of one that has not begun, except by one operation.

// wantedByAll is set in the operator of a reduction whose result goes to all.
const wantedByAll = 0x80

// reducePiece handles a contribution from below, or the result from above.
func (t *Table) reducePiece(o *operation, from int, p *wire.Piece, payload []byte) {
	m := o.m
	b := t.branch(m, o.root)
	op := vni.Operator(p.Operator) &^ wantedByAll
	if len(payload) != int(p.Length) || len(payload) > m.g.piece || !op.Valid() || !op.Fits(len(payload)) {
		t.count(vni.DropFormat)
		return
	}
	if p.What == pieceResult {
		if b.Parent != from || o.req == nil || !o.known || o.operator&wantedByAll == 0 || o.complete || !o.held {
			t.count(vni.DropFormat)
			return
		}
		copy(o.buf, payload)
		t.result(o)
		return
	}
	i := slices.Index(b.Children, from)
	if i < 0 || o.rounds&(1<<i) != 0 {
		t.count(vni.DropFormat)
		return
	}
	if !o.known {
		o.known, o.length, o.operator = true, int(p.Length), vni.Operator(p.Operator)
	}
	o.rounds |= 1 << i
	for len(o.parts) < len(b.Children) {
		o.parts = append(o.parts, nil)
	}
	o.parts[i] = t.nic.TakeBuffer(len(payload))
	copy(o.parts[i], payload)
	o.took++
	t.tryReduce(o)
}

// tryReduce adds up when all contributions are here, and sends the sum on.
func (t *Table) tryReduce(o *operation) {
	m := o.m
	b := t.branch(m, o.root)
	if !o.entered || o.took < len(b.Children) || o.held {
		return
	}
	t.takeBuffer(o)
	o.req.Read(o.buf, 0)
	for i, rank := range b.Children {
		if t.cfg.Defect != mutate.ContributionLost || i+1 < len(b.Children) {
			t.combine(o.operator&^wantedByAll, o.buf, o.parts[i])
		}
		t.nic.GiveBuffer(o.parts[i])
		o.parts[i] = nil
		if o.operator&wantedByAll == 0 { // else the result acknowledges it
			t.signal(m, rank, o.number, signalAck, 0, 0)
		}
	}
	if b.Parent < 0 {
		t.result(o)
		return
	}
	o.order = append(o.order[:0], 0)
	t.newLeg(o, b.Parent, pieceContribution).granted = true
	t.carryOn(o)
}

// combine combines two contributions.
func (t *Table) combine(op vni.Operator, to, from []byte) {
	switch d := t.cfg.Defect; {
	case d == mutate.OperatorWide:
		to, from = to[:len(to)&^7], from[:len(from)&^7]
	case d == mutate.SignForgotten && op == vni.MinUint64:
		op = vni.MinInt64
	case d == mutate.SignForgotten && op == vni.MaxUint32:
		op = vni.MaxInt32
	}
	op.Combine(to, from)
}

// contributionTaken completes the reduction of a member that wants no result.
func (t *Table) contributionTaken(o *operation, from int) {
	if t.branch(o.m, o.root).Parent != from || o.operator&wantedByAll != 0 || !o.held {
		t.count(vni.DropFormat)
		return
	}
	o.complete = true
	t.finish(o, vni.StatusOK, 0, o.length)
	t.settle(o)
}

// result gives the result in buf to the process, and passes it on if all want it.
func (t *Table) result(o *operation) {
	o.complete = true
	o.req.Write(0, o.buf[:o.length])
	if o.operator&wantedByAll != 0 {
		o.order = append(o.order[:0], 0)
		for _, rank := range t.branch(o.m, o.root).Children {
			t.newLeg(o, rank, pieceResult).granted = true
		}
	}
	t.finish(o, vni.StatusOK, o.length, o.length)
	t.carryOn(o)
}

// settleReduce forgets a reduction that is done.
func (t *Table) settleReduce(o *operation) {
	if o.complete && o.req == nil && o.sent() {
		t.free(o)
	}
}
