package proc

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/weftnet/weft/internal/vni"
)

// A short vector is reduced by the NICs, which add up on its way, piece by piece. Each piece costs the process an operation, so that a long vector is
// reduced by the processes instead, each of which combines one part of it:
//
//	agree: are length, operator and root the same at all, and does every member have memory?
//	  └─ no memory ──► piece by piece
//	regions are told, unless they are known ──► part j of every member is put into the region of member j ──► agree
//	each combines its part, in the order of ranks ──► it is put into the regions of those that want it ──► agree ──► copied
//
// Each byte so crosses the network twice, whatever the size of the group. A region has the parts of all members, one behind the other, and behind
// them, where they are wanted, the results of all:
//
//	0 ── part of rank 0 ── part of rank 1 … ── part·size ── result of rank 0 ── result of rank 1 …

// All, as the root of a Reduce, gives the result to every member.
const All = -1

// reducedPart is how long a part is at least, in bytes: what is told and agreed upon costs as much as some hundred pieces.
const reducedPart = 64 << 10

// Reduce combines the vectors of all members element by element, with the operator, and leaves the result in that of the
// member with rank root, or of every member if root is All. The vector has 64-bit little-endian elements, equally many at
// each member.
func (g *Group) Reduce(ctx context.Context, root int, o vni.Operator, vector []byte) error {
	if err := g.begin(ctx, opReduce); err != nil {
		return err
	}
	defer g.done()
	if root != All {
		if err := g.checkRoot(opReduce, root); err != nil {
			return err
		}
	}
	if !o.Valid() || len(vector)%8 != 0 {
		return g.unfit(opReduce, fmt.Errorf("%w: operator %d on %d bytes", ErrBadArgument, o, len(vector)))
	}
	if n := len(g.roster); n > 1 && len(vector) >= n*reducedPart {
		return g.reduceParts(ctx, root, o, vector)
	}
	return g.reducePieces(ctx, root, o, vector)
}

const opReduce = "reduce"

// reducePieces is Reduce by the NICs.
func (g *Group) reducePieces(ctx context.Context, root int, o vni.Operator, vector []byte) error {
	tag := uint64(vni.AllRanks)
	if root != All {
		tag = uint64(root)
	}
	return g.cut(ctx, opReduce, len(vector), g.piece, func(r *request, at, n int) [][]byte {
		r.code, r.send.Tag, r.both = vni.CodeReduce, tag|uint64(o)<<32, true
		r.to(vector[at : at+n])
		return nil
	})
}

// reduceParts is Reduce by the processes.
func (g *Group) reduceParts(ctx context.Context, root int, o vni.Operator, vector []byte) error {
	wants := root == All || root == g.rank
	written := vector
	if !wants {
		written = nil
	}
	if err := g.look(opReduce, vector, written); err != nil {
		return err
	}
	n := len(g.roster)
	part := (len(vector)/8 + n - 1) / n * 8 // that of the last ranks may be shorter, or empty
	room := n * part
	if wants {
		room *= 2
	}
	r, err := g.region(room)
	able, err := g.suits(ctx, root, o, len(vector), err == nil)
	if err != nil {
		return err
	}
	if !able {
		return g.reducePieces(ctx, root, o, vector)
	}
	of := func(b []byte, rank int) []byte { return b[min(rank*part, len(b)):min((rank+1)*part, len(b))] }
	if err := g.putAll(ctx, func(to int) (uint64, []byte) { return uint64(g.rank * part), of(vector, to) }); err != nil {
		return err
	}
	own := of(vector, g.rank)
	sum := r.mem[g.rank*part:][:len(own)] // where none is put
	for i := range n {
		from := own
		if i != g.rank {
			from = r.mem[i*part:][:len(own)]
		}
		if i == 0 {
			copy(sum, from)
		} else {
			o.Combine(sum, from)
		}
	}
	err = g.putAll(ctx, func(to int) (uint64, []byte) {
		if root != All && root != to {
			return 0, nil
		}
		return uint64((n + g.rank) * part), sum
	})
	if err != nil || !wants {
		return err
	}
	copy(own, sum)
	for i := range n {
		if i != g.rank {
			copy(of(vector, i), r.mem[(n+i)*part:])
		}
	}
	return nil
}

// suits reports whether every member has memory to reduce parts, and has all told of theirs. If members reduce vectors that do not fit, it fails at all of them.
func (g *Group) suits(ctx context.Context, root int, o vni.Operator, length int, able bool) (ok bool, err error) {
	what := []uint64{uint64(length), uint64(o), uint64(root + 1)}
	own := []uint64{word(able), word(g.handles != nil)}
	for _, w := range what {
		own = append(own, w, ^w) // and of both has all bits only if it is the same at all members
	}
	all, err := g.agree(ctx, own...)
	if err != nil {
		return false, err
	}
	g.midway = true
	for i, w := range what {
		if all[2+2*i] != w || all[3+2*i] != ^w {
			return false, g.disagree(ctx)
		}
	}
	if all[0] == 0 || all[1] == 1 {
		return all[0] == 1, nil
	}
	return true, g.tell(ctx)
}

// disagree has the NICs find what the members have found: that they do not do the same. No two of them reduce as much here.
func (g *Group) disagree(ctx context.Context) error {
	if err := g.reducePieces(ctx, All, vni.AndInt64, make([]byte, 8*(g.rank+1))); err != nil {
		return err
	}
	return g.fail(opReduce, Message{}, ErrGroupMismatch)
}

func word(so bool) uint64 {
	if so {
		return 1
	}
	return 0
}

// tell tells all members of the regions of all.
func (g *Group) tell(ctx context.Context) error {
	var own [handleBytes]byte
	h := g.shared.Handle()
	h.put(own[:])
	handles := make([]byte, len(g.roster)*handleBytes)
	if err := g.allGather(ctx, opReduce, own[:], handles); err != nil {
		return err
	}
	g.handles = handles
	return nil
}

// agree returns some words of all members, combined by and.
func (g *Group) agree(ctx context.Context, own ...uint64) ([]uint64, error) {
	var b []byte
	for _, w := range own {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	if err := g.reducePieces(ctx, All, vni.AndInt64, b); err != nil {
		return nil, err
	}
	for i := range own {
		own[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return own, nil
}

// putAll puts bytes into the region of each other member, at an offset there, and returns when all members have done so. If one could not, it fails at
// all of them.
func (g *Group) putAll(ctx context.Context, what func(to int) (offset uint64, b []byte)) error {
	failed := g.putEach(ctx, what)
	if err := ctx.Err(); err != nil {
		g.quit()
		return g.fail(opReduce, Message{}, err)
	}
	all, err := g.agree(ctx, word(failed == nil))
	switch {
	case err != nil:
		return err // of a member that has gone its name
	case failed != nil:
		return g.fail(opReduce, Message{}, failed)
	case all[0] == 0:
		return g.fail(opReduce, Message{}, fmt.Errorf("%w: by another member of the group", ErrUnreachable))
	}
	return nil
}

// putEach does what putAll does of this member, as much of it at a time as the process may have under way.
func (g *Group) putEach(ctx context.Context, what func(to int) (offset uint64, b []byte)) (failed error) {
	var under []*Op
	end := func() (bool, error) {
		if len(under) == 0 {
			return false, nil
		}
		if _, err := g.p.end(ctx, under[0]); failed == nil {
			failed = err
		}
		under = under[1:]
		return true, nil
	}
	for i := 1; i < len(g.roster) && failed == nil; i++ {
		to := (g.rank + i) % len(g.roster) // not all to the same one first
		offset, b := what(to)
		if len(b) == 0 {
			continue
		}
		var h Handle
		h.get(g.handles[to*handleBytes:])
		r := request{waits: true}
		parts, err := g.p.putRequest(&r, h, offset, [][]byte{b})
		if err == nil {
			err = g.p.beginBeside(ctx, parts, &r, end)
		}
		if err != nil {
			failed = cmp.Or(failed, r.fail(err))
			break
		}
		under = append(under, r.op)
	}
	for len(under) > 0 {
		_, _ = end()
	}
	return failed
}
