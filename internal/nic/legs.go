package nic

import (
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A leg carries the data of an operation to one other member, piece by piece, as far as the data is here and the
// peer takes it. Pieces go on in the order in which they came, whatever that is: so nothing waits for a piece that was
// lost on its way here but that piece.
type leg struct {
	node    node[leg] // in peer.legs while that takes no more
	c       *coll
	rank    int
	what    uint8
	next    int           // index in coll.order of the next piece
	watched *rel.Endpoint // the other's NIC, which is probed until everybody below has it; nil if it is this one
	granted bool          // the other has room for it
	acked   bool          // everybody below has it
	fetch   bool          // asked for later by one whose NIC had no room
}

func (e *Engine) newLeg(c *coll, rank int, what uint8) *leg {
	l := e.groups.legs.take()
	*l = leg{c: c, rank: rank, what: what}
	l.node.v = l
	c.legs = append(c.legs, l)
	return l
}

// watchLeg has the NIC below probed: its answer is waited for whether our process waits for anything or not, and perhaps
// by somebody else, who cannot tell that it has fallen silent.
func (e *Engine) watchLeg(l *leg) {
	if pr := e.peerOf(l.c.m.g.seats[l.rank].nic); pr != nil && pr.nic != e.cfg.ID {
		l.watched = pr.ep
		pr.ep.Watch(1)
	}
}

func (l *leg) unwatch() {
	if l.watched != nil {
		l.watched.Watch(-1)
		l.watched = nil
	}
}

func (c *coll) legTo(rank int) *leg {
	i := slices.IndexFunc(c.legs, func(l *leg) bool { return l.rank == rank && !l.fetch })
	if i < 0 {
		return nil
	}
	return c.legs[i]
}

// fetchedBy reports whether a member has come for what it had no room for.
func (c *coll) fetchedBy(rank int) bool {
	return slices.ContainsFunc(c.legs, func(l *leg) bool { return l.rank == rank && l.fetch })
}

// pieces is how many pieces the data of an operation has; an empty one has one.
func (c *coll) pieces() int { return max((c.length+c.m.g.piece-1)/c.m.g.piece, 1) }

// pump sends what a leg can. Where one ends, its operation may.
func (e *Engine) pump(l *leg) {
	c := l.c
	m, number := c.m, c.number
	to := &m.g.seats[l.rank]
	var pr *peer
	if to.nic != e.cfg.ID {
		if pr = e.peerOf(to.nic); pr == nil {
			return // the member has gone, and its end is about to be noticed
		}
	}
	for l.granted && l.next < len(c.order) && l.node.in == nil {
		at := int(c.order[l.next]) * m.g.piece
		n := min(c.length-at, m.g.piece)
		p := wire.Piece{GroupHeader: wire.GroupHeader{Group: to.number, Epoch: m.g.key.Index, Operation: c.number, Rank: uint32(m.rank)},
			Root: uint32(c.root), Offset: uint32(at), Length: uint32(c.length), What: l.what, Operator: uint8(c.operator)}
		if pr == nil {
			l.next++
			if o := e.groups.members[to.number]; o != nil {
				e.takePiece(o, m.rank, &p, e.piece(c, at, n))
			}
			if m.ops[number] != c { // what it did has ended this
				return
			}
			continue
		}
		space := wire.Data
		if n <= limits.TinyMessage {
			space = wire.Command
		}
		b := pr.ep.Reserve(e.now, space, wire.PieceLen+n)
		if b == nil {
			pr.legs.pushBack(&l.node)
			return
		}
		l.next++
		p.Put(b, n)
		e.copyPiece(b[wire.PieceLen:wire.PieceLen+n], c, at)
		e.counts[vni.NICPiecesSent]++
	}
}

// copyPiece copies data of an operation from where it is: in transit memory, or still in that of the root's process.
func (e *Engine) copyPiece(to []byte, c *coll, at int) {
	if c.buf != nil {
		copy(to, c.buf[at:])
		return
	}
	if c.s != nil {
		gatherRange(to, c.s.frag.Parts, uint64(at))
	}
}

// gatherRange fills to with the bytes of a gather list from offset on.
func gatherRange(to []byte, from [][]byte, offset uint64) {
	for _, b := range from {
		if offset >= uint64(len(b)) {
			offset -= uint64(len(b))
			continue
		}
		to = to[copy(to, b[offset:]):]
		if len(to) == 0 {
			return
		}
		offset = 0
	}
}

// piece is data of an operation in one place.
func (e *Engine) piece(c *coll, at, n int) []byte {
	if c.buf != nil {
		return c.buf[at : at+n]
	}
	b := make([]byte, n) // members on one NIC, from the root's own memory: rare enough
	e.copyPiece(b, c, at)
	return b
}

// pumpAll sends what the legs of an operation can.
func (e *Engine) pumpAll(c *coll) {
	m, number := c.m, c.number
	for i := 0; i < len(c.legs); i++ {
		e.pump(c.legs[i])
		if m.ops[number] != c {
			return
		}
	}
}

// unblockLegs lets every leg that waits for a peer try again.
func (e *Engine) unblockLegs(pr *peer) {
	for n := pr.legs.n; n > 0; n-- {
		l := pr.legs.front()
		if l == nil {
			return
		}
		l.node.remove()
		c := l.c
		m, number := c.m, c.number
		e.pump(l)
		if m.ops[number] == c {
			e.settleColl(c)
		}
	}
}

// sent reports whether every leg has carried all of the data.
func (c *coll) sent() bool {
	n := c.pieces()
	return !slices.ContainsFunc(c.legs, func(l *leg) bool { return l.next < n })
}
