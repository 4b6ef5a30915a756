package nic

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
)

// A coll is one collective operation as one member sees it. It exists from the first that is heard of it, from the
// process or from another member, until the process has its result and this NIC owes the others nothing more.
//
//	command of the process ──┐
//	                         ├─► under way ──► result is here ──► process told ──┐
//	signal or piece of       │         │                                         ├─► freed
//	another member ──────────┘         └──► passed on to those below ────────────┘
//
// What arrives early, before the process has asked for the operation or even finished those before, is kept here; how
// many operations that can be is bounded: a member is ahead by at most one that waits for this one, but by any number of
// those that do not, so their data is kept within a quota and fetched later beyond it (broadcast.go).
type collKind uint8

const (
	collUnknown collKind = iota
	collBarrier
	collBroadcast
	collReduce
)

// The signals.
const (
	signalRound    = 1 // barrier: the sender has entered the round; value: sum over the seats as it sees them, in operation 0
	signalOffer    = 2 // broadcast: value is root<<32 | length of data that can be had from the sender
	signalGrant    = 3 // broadcast: send it
	signalFetch    = 4 // broadcast, to the root: send it to me, I had no room when it came by
	signalAck      = 5 // broadcast: everybody below the sender has it. Reduction: your contribution has been taken in
	signalLost     = 6 // value: rank of a member that has gone
	signalMismatch = 7 // the members do not agree; value: sum over the seats as the sender sees them
	signalFull     = 8 // to one that joins: the group has all its members
)

// What a piece is.
const (
	pieceBroadcast    = 1
	pieceContribution = 2 // of a reduction, towards the root
	pieceResult       = 3 // of a reduction, to all
)

type coll struct {
	m       *member
	number  uint32
	kind    collKind
	entered bool            // the process has asked for it
	watched []*rel.Endpoint // the peers that it waits for, which are probed
	s       *send           // where it waits
	wait    node[coll]

	// barrier.go
	round  int
	rounds uint64 // that have been heard of, a bit each; of a reduction, children
	sum    uint64 // over the seats, as those say who have entered operation 0

	// broadcast.go, reduce.go
	root     int
	known    bool // root, length and, of a reduction, operator are known
	length   int
	operator vni.Operator
	buf      []byte // NIC-owned: what passes through, or the sum
	order    []uint16
	have     [limits.BroadcastBytes/leastPiece/64 + 1]uint64
	legs     []*leg // to those below
	acks     int    // that have come from below
	offered  int    // rank that has made an offer which has not been granted; -1 none
	complete bool   // all the data is here, or was
	staged   bool   // buf is kept for the process alone
	late     bool   // buf had to be given up: the process fetches it from the root
	fetching bool
	acked    bool
	parts    [mostChildren][]byte // contributions by place of the child
	took     int                  // how many of them are here
	held     bool                 // buf is accounted for, be it empty
}

// mostChildren of a member in a tree: on a torus both ways of a row, both of a column, and those at one position, which
// among 4,096 members have not more than 12 children each.
const mostChildren = 64

// leastPiece bounds how many pieces a broadcast has.
const leastPiece = 256

// collFor finds an operation of a member, or makes it.
func (e *Engine) collFor(m *member, number uint32) *coll {
	c := m.ops[number]
	if c == nil {
		c = e.groups.colls.take()
		order, legs, watched := c.order[:0], c.legs[:0], c.watched[:0]
		*c = coll{m: m, number: number, order: order, legs: legs, watched: watched, offered: -1}
		c.wait.v = c
		m.ops[number] = c
	}
	return c
}

// freeColl forgets an operation, done or not.
func (e *Engine) freeColl(c *coll) {
	m := c.m
	delete(m.ops, c.number)
	e.watchColl(c, -1)
	for _, l := range c.legs {
		l.node.remove()
		l.unwatch()
		*l = leg{}
		e.groups.legs.give(l)
	}
	c.legs = c.legs[:0]
	c.wait.remove()
	e.dropBuffer(c)
	for i, b := range c.parts {
		if b != nil {
			e.groups.transit.give(b)
			c.parts[i] = nil
		}
	}
	e.groups.colls.give(c)
	e.retryWaiting(m)
	if m.left {
		e.retire(m)
	}
}

// enterColl takes an operation that the process of a member asks for.
func (e *Engine) enterColl(m *member, s *send, sc *vni.SendContext, code vni.Code) {
	root, op := int(uint32(sc.Tag)), vni.Operator(sc.Tag>>32)
	all := code == vni.CodeReduce && uint32(sc.Tag) == vni.AllRanks
	if all {
		root = 0
	}
	n := len(m.g.seats)
	length := int(sc.Len)
	bad := code != vni.CodeBarrier && (root < 0 || root >= n) || code != vni.CodeReduce && length > limits.BroadcastBytes ||
		code == vni.CodeReduce && (!op.Valid() || length > m.g.piece || length%8 != 0)
	if bad {
		e.rejectSend(s, errGroupArgument)
		return
	}
	c := e.collFor(m, m.next)
	if m.next++; m.next == 0 { // which is the join's, also after four thousand million
		m.next++
	}
	c.s, c.entered = s, true
	kind := collBarrier
	switch code {
	case vni.CodeBroadcast, vni.CodeBroadcastShort:
		kind = collBroadcast
	case vni.CodeReduce:
		kind = collReduce
	}
	if c.kind != collUnknown && c.kind != kind || c.known && (c.root != root || kind == collReduce && (c.length != length || c.operator != withAll(op, all))) {
		e.mismatch(m)
		return
	}
	c.kind = kind
	if kind != collBarrier {
		c.root = root
	}
	e.watchColl(c, 1)
	switch kind {
	case collBarrier:
		e.advanceBarrier(c)
	case collBroadcast:
		e.enterBroadcast(c, length)
	case collReduce:
		c.known, c.length, c.operator = true, length, withAll(op, all)
		e.enterReduce(c)
	}
}

// finishColl gives the process of an operation its result.
func (e *Engine) finishColl(c *coll, status vni.Status, n, full int) {
	s := c.s
	if s == nil {
		return
	}
	c.s = nil
	e.watchColl(c, -1)
	switch c.kind {
	case collBarrier:
		if c.number == 0 {
			e.joined(c.m)
			return
		}
		e.counts[vni.NICBarriers]++
	case collBroadcast:
		e.counts[vni.NICBroadcasts]++
	case collReduce:
		e.counts[vni.NICReductions]++
	}
	e.endSend(s, &vni.Completion{Status: status, Len: uint64(n), Full: uint64(full)})
}

// watchColl has the peers probed that an operation waits for, or no longer does: if one dies, the operation must end
// (decision 7).
func (e *Engine) watchColl(c *coll, by int) {
	if by < 0 {
		for i, ep := range c.watched { // those very endpoints: a peer may have been forgotten, and another come
			ep.Watch(-1)
			c.watched[i] = nil
		}
		c.watched = c.watched[:0]
		return
	}
	m := c.m
	if c.kind == collBarrier {
		n := len(m.g.seats)
		for d := 1; d < n; d *= 2 {
			e.watchRank(c, (m.rank-d+n)%n)
		}
		return
	}
	b := e.branch(m, c.root)
	if b.parent >= 0 {
		e.watchRank(c, b.parent)
		e.watchRank(c, c.root)
	}
	for _, rank := range b.children {
		e.watchRank(c, rank)
	}
}

func (e *Engine) watchRank(c *coll, rank int) {
	if s := &c.m.g.seats[rank]; s.nic != e.cfg.ID {
		if pr := e.peerOf(s.nic); pr != nil {
			pr.ep.Watch(1)
			c.watched = append(c.watched, pr.ep)
		}
	}
}
