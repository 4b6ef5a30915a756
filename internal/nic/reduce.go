package nic

import (
	"errors"
	"slices"

	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A reduction goes up the tree of a broadcast from the root: a NIC that has its process's vector and those of all
// members below adds them up, in the order of the children, so that the result is the same in every run, and sends the
// sum up. If all members want the result it comes down the same tree. One vector fits one piece; longer ones are several
// operations, of which the process has some under way at a time.
//
//	contribution of a child ──► taken in ──► Ack: the child's process, if it wants no result, is done
//
// The Ack keeps members from running ahead of one that has not begun, except by one operation.

var errGroupArgument = errors.New("nic: group operation with a bad root, operator or length")

// wantedByAll marks, beside the operator, a reduction whose result goes to all.
const wantedByAll = 0x80

func withAll(o vni.Operator, all bool) vni.Operator {
	if all {
		return o | wantedByAll
	}
	return o
}

// enterReduce is the process's part.
func (e *Engine) enterReduce(c *coll) { e.tryReduce(c) }

// reducePiece takes a contribution from below, or the result from above.
func (e *Engine) reducePiece(c *coll, from int, p *wire.Piece, payload []byte) {
	m := c.m
	b := e.branch(m, c.root)
	if len(payload) != int(p.Length) || len(payload) > m.g.piece || len(payload)%8 != 0 {
		e.counts[vni.DropFormat]++
		return
	}
	if p.What == pieceResult {
		if b.parent != from || c.s == nil || !c.known || c.operator&wantedByAll == 0 || c.complete || !c.held {
			e.counts[vni.DropFormat]++
			return
		}
		copy(c.buf, payload)
		e.result(c)
		return
	}
	i := slices.Index(b.children, from)
	if i < 0 || c.rounds&(1<<i) != 0 || !(vni.Operator(p.Operator) &^ wantedByAll).Valid() {
		e.counts[vni.DropFormat]++
		return
	}
	if !c.known {
		c.known, c.length, c.operator = true, int(p.Length), vni.Operator(p.Operator)
	}
	c.rounds |= 1 << i
	c.parts[i] = e.groups.transit.take(len(payload))
	copy(c.parts[i], payload)
	c.took++
	e.tryReduce(c)
}

// tryReduce adds up when all is here, and sends the sum on.
func (e *Engine) tryReduce(c *coll) {
	m := c.m
	b := e.branch(m, c.root)
	if !c.entered || c.took < len(b.children) || c.held {
		return
	}
	e.takeBuffer(c)
	gatherRange(c.buf, c.s.frag.Parts, 0)
	for i, rank := range b.children {
		if e.cfg.Defect != mutate.ContributionLost || i+1 < len(b.children) {
			combine(c.operator&^wantedByAll, c.buf, c.parts[i])
		}
		if c.parts[i] != nil {
			e.groups.transit.give(c.parts[i])
			c.parts[i] = nil
		}
		if c.operator&wantedByAll == 0 { // else the result says it
			e.signal(m, rank, c.number, signalAck, 0, 0)
		}
	}
	if b.parent < 0 {
		e.result(c)
		return
	}
	c.order = append(c.order[:0], 0)
	l := e.newLeg(c, b.parent, pieceContribution)
	l.granted = true
	number := c.number
	e.pumpAll(c)
	if m.ops[number] == c {
		e.settleColl(c)
	}
}

// contributionTaken completes the reduction of a member that wants no result.
func (e *Engine) contributionTaken(c *coll, from int) {
	if e.branch(c.m, c.root).parent != from || c.operator&wantedByAll != 0 || !c.held {
		e.counts[vni.DropFormat]++
		return
	}
	c.complete = true
	e.finishColl(c, vni.StatusOK, 0, c.length)
	e.settleColl(c)
}

// result gives the process the result that is in buf, and passes it on if all want it.
func (e *Engine) result(c *coll) {
	m := c.m
	c.complete = true
	scatter(c.s.frag.Parts, 0, c.buf[:c.length])
	if c.operator&wantedByAll != 0 {
		c.order = append(c.order[:0], 0)
		for _, rank := range e.branch(m, c.root).children {
			e.newLeg(c, rank, pieceResult).granted = true
		}
	}
	e.finishColl(c, vni.StatusOK, c.length, c.length)
	number := c.number
	e.pumpAll(c)
	if m.ops[number] == c {
		e.settleColl(c)
	}
}

// settleReduce forgets a reduction that is done.
func (e *Engine) settleReduce(c *coll) {
	if c.complete && c.s == nil && c.sent() {
		e.freeColl(c)
	}
}
