package coll

import (
	"errors"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
)

// An operation is one collective operation in the view of one member. It exists from its first
// sign, from the process or from another member, until the process has its result and this NIC
// owes the others nothing more.
//
//	command of the process ──┐
//	                         ├─► in flight ──► result is here ──► process told ──┐
//	signal or piece of       │         │                                         ├─► freed
//	another member ──────────┘         └──► passed on to those below ────────────┘
//
// Early data is kept here: the process has not asked for the operation yet, or has not finished
// those before. The number of such operations is bounded. A member is ahead by at most one
// operation that waits for this member. It may be ahead by any number of the others, so their
// data is kept within a quota, and fetched later beyond it (broadcast.go).
type operation struct {
	m       *member
	number  uint32
	kind    kind
	entered bool            // the process has asked for it
	watched []*rel.Endpoint // the peers that it waits for, which are probed
	req     Request         // of the process, until the process has its result
	since   clock.Time      // when the process asked for it
	room    int             // size of the process's memory
	waits   bool            // for transit memory

	// barrier.go
	round  int
	told   int    // rounds that this member has announced
	rounds uint64 // rounds heard of, a bit each; in a reduction, children
	sum    uint64 // over the seats, from the members that have entered operation 0

	// broadcast.go, reduce.go
	root     int
	known    bool // root, length and, in a reduction, operator are known
	length   int
	operator vni.Operator
	buf      []byte // NIC-owned: data in transit, or the sum
	held     bool   // buf is accounted for, even if empty
	order    []uint16
	have     [limits.BroadcastBytes/leastPiece/64 + 1]uint64
	legs     []*leg // to the members below; beyond the length are spare ones
	acks     int    // arrived from below
	offered  int    // rank of the member whose offer has not been granted; -1 none
	complete bool   // all the data is here, or was
	staged   bool   // buf is kept only for the process
	late     bool   // buf had to be given up: the process fetches it from the root
	fetching bool
	acked    bool
	parts    [][]byte // contributions by index of the child
	took     int      // how many of them are here
}

// kind is the kind of an operation.
type kind uint8

const (
	kindUnknown kind = iota
	kindBarrier
	kindBroadcast
	kindReduce
)

var kinds = [256]kind{
	vni.CodeBarrier: kindBarrier, vni.CodeBroadcast: kindBroadcast, vni.CodeBroadcastShort: kindBroadcast,
	vni.CodeReduce: kindReduce,
}

// ends holds the counters of successful operations by kind.
var ends = [...]vni.Counter{
	kindBarrier: vni.NICBarriers, kindBroadcast: vni.NICBroadcasts, kindReduce: vni.NICReductions,
}

// leastPiece bounds the number of pieces of a broadcast.
const leastPiece = 256

var errArgument = errors.New("coll: group operation with a bad root, operator or length")

// operation returns an operation of a member, and makes it if necessary.
func (t *Table) operation(m *member, number uint32) *operation {
	o := m.ops[number]
	if o != nil {
		return o
	}
	o = t.operations.Take()
	*o = operation{
		m: m, number: number, offered: -1,
		order: o.order[:0], legs: o.legs[:0], watched: o.watched[:0], parts: o.parts[:0],
	}
	m.ops[number] = o
	return o
}

// free forgets an operation, done or not.
func (t *Table) free(o *operation) {
	m := o.m
	delete(m.ops, o.number)
	o.unwatch()
	t.dropLegs(o)
	t.stopWaiting(o)
	t.dropBuffer(o)
	for i, b := range o.parts {
		t.nic.GiveBuffer(b)
		o.parts[i] = nil
	}
	o.m, o.req = nil, nil
	t.operations.Give(o)
	t.retryWaiting(m)
	if m.left {
		t.retire(m)
	}
}

// enter begins an operation that the process of a member asks for. The tag has the root, and the
// operator of a reduction.
func (t *Table) enter(m *member, r Request, code vni.Code, tag uint64, length int) {
	root, op, k := int(uint32(tag)), vni.Operator(tag>>32), kinds[code]
	all := k == kindReduce && uint32(tag) == vni.AllRanks
	if all {
		root = 0
	}
	if !m.sound(k, root, op, length) {
		t.nic.Reject(r, vni.Completion{Status: vni.StatusBadArgument}, errArgument)
		return
	}
	if all {
		op |= wantedByAll
	}
	o := t.operation(m, m.next)
	if m.next++; m.next == 0 { // 0 is the join's number, even after four thousand million
		m.next++
	}
	o.req, o.room, o.entered, o.since = r, length, true, t.nic.Now()
	if o.kind != kindUnknown && o.kind != k ||
		o.known && (o.root != root || k == kindReduce && (o.length != length || o.operator != op)) {
		m.noteFailed(m.step(o.number, k, root, all)) // o describes the others' operation
		t.mismatch(m)
		return
	}
	o.kind = k
	if k != kindBarrier {
		o.root = root
	}
	t.watch(o)
	switch k {
	case kindBarrier:
		t.advanceBarrier(o)
	case kindBroadcast:
		t.enterBroadcast(o)
	case kindReduce:
		o.known, o.length, o.operator = true, length, op
		t.tryReduce(o)
	}
}

// sound reports whether the arguments of an operation are valid.
func (m *member) sound(k kind, root int, op vni.Operator, length int) bool {
	inside := root >= 0 && root < len(m.g.seats)
	switch k {
	case kindBroadcast:
		return inside && length <= limits.BroadcastBytes
	case kindReduce:
		return inside && op.Valid() && length <= m.g.piece && op.Fits(length)
	}
	return length <= limits.BroadcastBytes
}

// settle takes the next step of an operation after a part of it has completed.
func (t *Table) settle(o *operation) {
	if o.kind == kindReduce {
		t.settleReduce(o)
	} else {
		t.settleBroadcast(o)
	}
}

// takeRequest takes the request away from an operation, nil if it has none: the process waits for
// it no more.
func (t *Table) takeRequest(o *operation) Request {
	r := o.req
	o.req = nil
	o.unwatch()
	return r
}

// finish gives the process of an operation its result.
func (t *Table) finish(o *operation, status vni.Status, n, full int) {
	if o.req == nil {
		return
	}
	r := t.takeRequest(o)
	o.m.since = t.nic.Now()
	if o.number == 0 {
		t.joined(o.m)
		return
	}
	t.count(ends[o.kind])
	t.nic.Complete(r, vni.Completion{Status: status, Len: uint64(n), Full: uint64(full)})
}

// watch probes the peers that an operation waits for: if one dies, the operation must end
// (decision 7).
func (t *Table) watch(o *operation) {
	m := o.m
	if o.kind == kindBarrier {
		n := len(m.g.seats)
		for d := 1; d < n; d *= 2 {
			t.watchRank(o, (m.rank-d+n)%n)
		}
		return
	}
	b := t.branch(m, o.root)
	if b.Parent >= 0 {
		t.watchRank(o, b.Parent)
		t.watchRank(o, o.root)
	}
	for _, rank := range b.Children {
		t.watchRank(o, rank)
	}
}

func (t *Table) watchRank(o *operation, rank int) {
	if pr := t.peerOf(o.m, rank); pr != nil {
		pr.Watch(1)
		o.watched = append(o.watched, pr.Endpoint)
	}
}

// unwatch ends watch, for exactly those endpoints: a peer may have been forgotten, and another
// one added.
func (o *operation) unwatch() {
	for i, ep := range o.watched {
		ep.Watch(-1)
		o.watched[i] = nil
	}
	o.watched = o.watched[:0]
}

// peerOf returns the NIC of the member of m's group with a rank; nil if it is this NIC, or no
// longer known.
func (t *Table) peerOf(m *member, rank int) *Peer {
	nic := m.g.seats[rank].NIC
	if nic == t.cfg.NIC {
		return nil
	}
	return t.nic.Peer(nic)
}
