package coll

import (
	"slices"

	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A leg carries the data of an operation to one other member, piece by piece, as far as the data
// is here and the peer accepts it. Pieces are passed on in their order of arrival. So if a piece
// was lost on its way here, only that piece is delayed.
type leg struct {
	o       *operation
	rank    int
	what    uint8
	next    int          // index of the next piece in the operation's order
	blocked *Peer        // the peer that accepts no more at the moment
	watched rel.Watching // the other's NIC, until all below have the data, unless it is this one
	granted bool         // the other has room for the data
	acked   bool         // all below have the data
	fetch   bool         // asked for later by a member whose NIC had no room
}

func (t *Table) newLeg(o *operation, rank int, what uint8) *leg {
	n := len(o.legs)
	if n < cap(o.legs) && o.legs[:n+1][n] != nil { // reuse a spare leg
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

// watchLeg makes rel probe the NIC below. Its answer is awaited even if our process waits for
// nothing. Another member may be waiting for it, and that member's NIC cannot tell that it has
// fallen silent.
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

// fetchedBy reports whether a member has fetched the data for which it had no room.
func (o *operation) fetchedBy(rank int) bool {
	return slices.ContainsFunc(o.legs, func(l *leg) bool { return l.rank == rank && l.fetch })
}

// pieces returns the number of pieces of an operation's data; empty data has one.
func (o *operation) pieces() int { return max((o.length+o.m.g.piece-1)/o.m.g.piece, 1) }

// sent reports whether every leg has carried all of the data.
func (o *operation) sent() bool {
	n := o.pieces()
	return !slices.ContainsFunc(o.legs, func(l *leg) bool { return l.next < n })
}

// pump sends as much as a leg can. It reports whether the operation still exists afterwards: a
// member on this NIC may end it when it handles a piece.
func (t *Table) pump(l *leg) (there bool) {
	o := l.o
	m, number := o.m, o.number
	to := &m.g.seats[l.rank]
	pr := t.peerOf(m, l.rank)
	if pr == nil && to.NIC != t.cfg.NIC {
		return true // the member has gone, and its end will soon be noticed
	}
	for l.granted && l.next < len(o.order) && l.blocked == nil {
		at := int(o.order[l.next]) * m.g.piece
		n := min(o.length-at, m.g.piece)
		p := wire.Piece{
			GroupHeader: m.header(to, o.number), Root: uint32(o.root), Offset: uint32(at), Length: uint32(o.length),
			What: l.what, Operator: uint8(o.operator),
		}
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

// copyPiece copies data of an operation from its place: transit memory, or the memory of the
// root's process.
func (o *operation) copyPiece(to []byte, at int) {
	if o.buf != nil {
		copy(to, o.buf[at:])
	} else if o.req != nil {
		o.req.Read(to, uint64(at))
	}
}

// piece returns data of an operation in one contiguous slice.
func (o *operation) piece(at, n int) []byte {
	if o.buf != nil {
		return o.buf[at : at+n]
	}
	b := make([]byte, n) // members on one NIC, from the root's own memory: rare enough
	o.copyPiece(b, at)
	return b
}

// carryOn sends as much as the legs of an operation can, and then takes the next step of the
// operation.
func (t *Table) carryOn(o *operation) {
	for i := 0; i < len(o.legs); i++ {
		if !t.pump(o.legs[i]) {
			return
		}
	}
	t.settle(o)
}

// Writable retries every leg that waits for a peer.
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
