package coll

import (
	"slices"

	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A leg carries the data of an operation to one other member, piece by piece, as far as the data is here and the
// peer takes it. Pieces go on in the order in which they came, whatever that is: so nothing waits for a piece that was
// lost on its way here but that piece.
type leg struct {
	o       *operation
	rank    int
	what    uint8
	next    int          // index in order, of the operation, of the next piece
	blocked *Peer        // that takes no more just now
	watched rel.Watching // the other's NIC, until all below have it, if it is not this one
	granted bool         // the other has room for it
	acked   bool         // all below have it
	fetch   bool         // asked for later by a member whose NIC had no room
}

func (t *Table) newLeg(o *operation, rank int, what uint8) *leg {
	n := len(o.legs)
	if n < cap(o.legs) && o.legs[:n+1][n] != nil { // a spare one
		o.legs = o.legs[:n+1]
	} else {
		o.legs = append(o.legs, new(leg))
	}
	l := o.legs[n]
	*l = leg{o: o, rank: rank, what: what}
	t.legs++
	return l
}

// dropLegs ends the legs of an operation.
func (t *Table) dropLegs(o *operation) {
	for _, l := range o.legs {
		l.watched.Off()
		if pr := l.blocked; pr != nil {
			pr.blocked = slices.DeleteFunc(pr.blocked, func(other *leg) bool { return other == l })
		}
		*l = leg{}
		t.legs--
	}
	o.legs = o.legs[:0]
}

// watchLeg has the NIC below probed: its answer is waited for whether our process waits for anything or not, and perhaps
// by another member, whose NIC cannot tell that it has fallen silent.
func (t *Table) watchLeg(l *leg) {
	if pr := t.peerOf(l.o.m, l.rank); pr != nil {
		l.watched.On(pr.Endpoint)
	}
}

func (o *operation) legTo(rank int) *leg {
	i := slices.IndexFunc(o.legs, func(l *leg) bool { return l.rank == rank && !l.fetch })
	if i < 0 {
		return nil
	}
	return o.legs[i]
}

// fetchedBy reports whether a member has come for what it had no room for.
func (o *operation) fetchedBy(rank int) bool {
	return slices.ContainsFunc(o.legs, func(l *leg) bool { return l.rank == rank && l.fetch })
}

// pieces is how many pieces the data of an operation has; an empty one has one.
func (o *operation) pieces() int { return max((o.length+o.m.g.piece-1)/o.m.g.piece, 1) }

// sent reports whether every leg has carried all of the data.
func (o *operation) sent() bool {
	n := o.pieces()
	return !slices.ContainsFunc(o.legs, func(l *leg) bool { return l.next < n })
}

// pump sends what a leg can. It reports whether the operation is still there afterwards: what a member on this NIC does with a
// piece may end it.
func (t *Table) pump(l *leg) (there bool) {
	o := l.o
	m, number := o.m, o.number
	to := &m.g.seats[l.rank]
	pr := t.peerOf(m, l.rank)
	if pr == nil && to.NIC != t.cfg.NIC {
		return true // the member has gone, and its end is about to be noticed
	}
	for l.granted && l.next < len(o.order) && l.blocked == nil {
		at := int(o.order[l.next]) * m.g.piece
		n := min(o.length-at, m.g.piece)
		p := wire.Piece{GroupHeader: m.header(to, o.number), Root: uint32(o.root), Offset: uint32(at), Length: uint32(o.length),
			What: l.what, Operator: uint8(o.operator)}
		if pr == nil {
			l.next++
			if other := t.members[to.number]; other != nil {
				t.takePiece(other, m.rank, &p, o.piece(at, n))
			}
			if m.ops[number] != o {
				return false
			}
			continue
		}
		b := pr.Reserve(t.nic.Now(), wire.SpaceFor(n), wire.PieceLen+n)
		if b == nil {
			l.blocked = pr
			pr.blocked = append(pr.blocked, l)
			break
		}
		l.next++
		p.Put(b, n)
		o.copyPiece(b[wire.PieceLen:wire.PieceLen+n], at)
		t.count(vni.NICPiecesSent)
	}
	return true
}

// copyPiece copies data of an operation from where it is: in transit memory, or still in that of the root's process.
func (o *operation) copyPiece(to []byte, at int) {
	if o.buf != nil {
		copy(to, o.buf[at:])
	} else if o.req != nil {
		o.req.Read(to, uint64(at))
	}
}

// piece is data of an operation in one place.
func (o *operation) piece(at, n int) []byte {
	if o.buf != nil {
		return o.buf[at : at+n]
	}
	b := make([]byte, n) // members on one NIC, from the root's own memory: rare enough
	o.copyPiece(b, at)
	return b
}

// carryOn sends what the legs of an operation can, and then does what its state calls for.
func (t *Table) carryOn(o *operation) {
	for i := 0; i < len(o.legs); i++ {
		if !t.pump(o.legs[i]) {
			return
		}
	}
	t.settle(o)
}

// Writable lets every leg that waits for a peer try again.
func (t *Table) Writable(pr *Peer) {
	if t.cfg.Defect == mutate.LegForgotten {
		return
	}
	for n := len(pr.blocked); n > 0 && len(pr.blocked) > 0; n-- {
		l := pr.blocked[0]
		l.blocked = nil
		pr.blocked = slices.Delete(pr.blocked, 0, 1)
		if t.pump(l) {
			t.settle(l.o)
		}
	}
}
