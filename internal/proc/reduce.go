package proc

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/weftnet/weft/internal/vni"
)

// The NICs reduce a short vector, which they combine on its path, piece by piece. Each piece
// costs the process an operation. So the processes reduce a long vector instead, and each of them
// combines one part of it:
//
//	agree: are length, operator and root the same at all, and does every member have memory?
//	  └─ no memory ──► piece by piece
//	announce regions, unless known ─► PUT part j of each member into member j's region ─► agree
//	each combines its part, in rank order ─► PUT it to the members that want it ─► agree ─► copy
//
// So each byte crosses the network twice, whatever the size of the group. A region holds the
// parts of all members, one after the other. If its member wants the results of all, they follow:
//
//	0 ── part of rank 0 ── part of rank 1 … ── part·size ── result of rank 0 ── result of rank 1 …

// All, as the root of a Reduce, means that every member gets the result.
const All = -1

// reducedPart is the shortest part, in bytes. The announcements and agreements cost as much as
// about a hundred pieces.
const reducedPart = 64 << 10

// agreedWords is the largest number of words on which members agree.
const agreedWords = 8

// reduction describes what the members do with their vectors.
type reduction struct {
	op      string // for errors
	root    int    // or All
	width   int    // bytes of an element
	o       vni.Operator
	combine func(into, from []byte) // of the program, replaces o; reducefunc.go
}

// newReduction returns a reduction to a root, with a name for errors.
func newReduction(root, width int) reduction {
	if root == All {
		return reduction{op: "all-reduce", root: root, width: width}
	}
	return reduction{op: "reduce", root: root, width: width}
}

// apply combines the elements of from into those of to.
func (r *reduction) apply(to, from []byte) {
	if r.combine != nil {
		if len(to) > 0 {
			r.combine(to, from)
		}
	} else {
		r.o.Combine(to, from)
	}
}

// what returns a number that two reductions share only if they can be the same one.
func (r *reduction) what() uint64 {
	if r.combine != nil {
		return 1<<63 | uint64(r.width)
	}
	return uint64(r.o)
}

// wants reports whether a member gets the result.
func (r *reduction) wants(rank int) bool { return r.root == All || r.root == rank }

// Reduce combines the vectors of all members element by element, with the operator. It leaves the
// result in the vector of the member with rank root, or of every member if root is All. The
// vector has little-endian elements of the operator's width. Every member must have the same
// number of elements.
func (g *Group) Reduce(ctx context.Context, root int, o vni.Operator, vector []byte) error {
	r := newReduction(root, 0)
	if err := g.begin(ctx, r.op); err != nil {
		return err
	}
	defer g.done()
	if root != All {
		if err := g.checkRoot(r.op, root); err != nil {
			return err
		}
	}
	if !o.Valid() || !o.Fits(len(vector)) {
		return g.bad(r.op, "operator %d on %d bytes", o, len(vector))
	}
	r.o, r.width = o, o.Width()
	if n := len(g.roster); n > 1 && len(vector) >= n*reducedPart {
		able, err := g.reduceParts(ctx, &r, vector)
		if able || err != nil {
			return err
		}
	}
	return g.reducePieces(ctx, r.op, root, o, vector)
}

// reducePieces is the form of Reduce that the NICs carry out.
func (g *Group) reducePieces(ctx context.Context, op string, root int, o vni.Operator, vector []byte) error {
	tag := uint64(vni.AllRanks)
	if root != All {
		tag = uint64(root)
	}
	return g.cut(ctx, op, len(vector), g.piece, func(r *request, at, n int) [][]byte {
		r.code, r.send.Tag, r.both = vni.CodeReduce, tag|uint64(o)<<32, true
		r.to(vector[at : at+n])
		return nil
	})
}

// reduceParts is the form of Reduce that the processes carry out. If a member has no memory for
// it, able is false, err is nil and nothing was done.
func (g *Group) reduceParts(ctx context.Context, r *reduction, vector []byte) (able bool, err error) {
	wants := r.wants(g.rank)
	written := vector
	if !wants {
		written = nil
	}
	if err := g.look(r.op, vector, written); err != nil {
		return false, err
	}
	n := len(g.roster)
	// The parts of the last ranks may be shorter, or empty.
	part := (len(vector)/r.width + n - 1) / n * r.width
	room := n * part
	if wants {
		room *= 2
	}
	m, err := g.region(room)
	if able, err = g.suits(ctx, r, len(vector), err == nil); err != nil || !able {
		return able, err
	}
	of := func(b []byte, rank int) []byte { return b[min(rank*part, len(b)):min((rank+1)*part, len(b))] }
	if err := g.putAll(ctx, r.op, func(to int) (uint64, []byte) {
		return uint64(g.rank * part), of(vector, to)
	}); err != nil {
		return true, err
	}
	own := of(vector, g.rank)
	sum := m.mem[g.rank*part:][:len(own)]
	g.combineParts(r, m.mem, part, own, sum)
	err = g.putAll(ctx, r.op, func(to int) (uint64, []byte) {
		if !r.wants(to) {
			return 0, nil
		}
		return uint64((n + g.rank) * part), sum
	})
	if err != nil || !wants {
		return true, err
	}
	copy(own, sum)
	for i := range n {
		if i != g.rank {
			copy(of(vector, i), m.mem[(n+i)*part:])
		}
	}
	return true, nil
}

// combineParts combines this member's part of all vectors, in the order of ranks. own is its own
// part, and the parts of the others lie in mem, part bytes apart. The result goes to sum. sum is
// this member's place in mem, where no other member has put anything.
func (g *Group) combineParts(r *reduction, mem []byte, part int, own, sum []byte) {
	for i := range g.roster {
		from := own
		if i != g.rank {
			from = mem[i*part:][:len(own)]
		}
		if i == 0 {
			copy(sum, from)
		} else {
			r.apply(sum, from)
		}
	}
}

// suits reports whether every member has memory to reduce parts, and has announced its region to
// all. If the members' vectors do not match, suits fails at all of them.
func (g *Group) suits(ctx context.Context, r *reduction, length int, able bool) (ok bool, err error) {
	what := []uint64{uint64(length), r.what(), uint64(r.root + 1)}
	own := []uint64{word(able), word(g.handles != nil)}
	for _, w := range what {
		// The AND of the words of all members has all bits in w or ^w only if w is the same
		// everywhere.
		own = append(own, w, ^w)
	}
	all, err := g.agree(ctx, r.op, own...)
	if err != nil {
		return false, err
	}
	g.midway = true
	for i, w := range what {
		if all[2+2*i] != w || all[3+2*i] != ^w {
			return false, g.disagree(ctx, r.op)
		}
	}
	if all[0] == 0 || all[1] == 1 {
		return all[0] == 1, nil
	}
	return true, g.tell(ctx, r.op)
}

// disagree makes the NICs find what the members have found: they do not do the same. For this,
// each member reduces a number of bytes that no other member uses here, and that members in
// agreement never use.
func (g *Group) disagree(ctx context.Context, op string) error {
	if err := g.reducePieces(ctx, op, All, vni.Agree, make([]byte, 8*(agreedWords+1+g.rank))); err != nil {
		return err
	}
	return g.fail(op, Message{}, ErrGroupMismatch)
}

func word(so bool) uint64 {
	if so {
		return 1
	}
	return 0
}

// tell tells all members the handles of the regions of all.
func (g *Group) tell(ctx context.Context, op string) error {
	handles, err := g.tellOf(ctx, op, formReduce, g.shared)
	if err == nil {
		g.handles = handles
	}
	return err
}

// tellOf tells all members the handle of one region of each member.
func (g *Group) tellOf(ctx context.Context, op string, f form, r *Region) (handles []byte, err error) {
	var own [handleBytes]byte
	h := r.Handle()
	h.put(own[:])
	handles = make([]byte, len(g.roster)*handleBytes)
	return handles, g.allGather(ctx, op, f, own[:], handles)
}

// agree returns the bitwise AND of some words of all members.
func (g *Group) agree(ctx context.Context, op string, own ...uint64) ([]uint64, error) {
	var b []byte
	for _, w := range own {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	if err := g.reducePieces(ctx, op, All, vni.Agree, b); err != nil {
		return nil, err
	}
	for i := range own {
		own[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return own, nil
}

// putAll puts bytes into the region of each other member, at an offset in it. It returns when all
// members have done so. If one of them could not, putAll fails at all of them.
func (g *Group) putAll(ctx context.Context, op string, what func(to int) (offset uint64, b []byte)) error {
	failed := g.putEach(ctx, g.handles, what)
	if err := ctx.Err(); err != nil {
		g.quit()
		return g.fail(op, Message{}, err)
	}
	all, err := g.agree(ctx, op, word(failed == nil))
	switch {
	case err != nil:
		return err // if a member is gone, with its name
	case failed != nil:
		return g.fail(op, Message{}, failed)
	case all[0] == 0:
		return g.fail(op, Message{}, fmt.Errorf("%w: by another member of the group", ErrUnreachable))
	}
	return nil
}

// putEach puts bytes into the region of each other member; handles holds the handles of the
// regions. It has as many PUTs in flight as the process may have.
func (g *Group) putEach(ctx context.Context, handles []byte,
	what func(to int) (offset uint64, b []byte)) (failed error) {
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
		to := (g.rank + i) % len(g.roster) // start with different members, to spread the load
		offset, b := what(to)
		if len(b) == 0 {
			continue
		}
		var h Handle
		h.get(handles[to*handleBytes:])
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
