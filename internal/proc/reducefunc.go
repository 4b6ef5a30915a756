package proc

import (
	"context"

	"github.com/weftnet/weft/internal/limits"
)

// Only the processes can reduce by a function of the program: NICs carry the vectors and combine
// nothing. The function gets the vectors in the order of ranks, and one member combines them for
// all. So the result has the same bits everywhere:
//
//	vectors of a few bytes   gathered at the root, or rank 0, which combines them ──►
//	                         broadcast, if all want the result
//	longer ones              in parts, as reduce.go has it
//	a member has no memory   broadcast one after the other; the root, or rank 0, combines each
//	                         with the result so far

// ReduceFunc combines the vectors of all members by combine. combine gets into, the result of
// some elements of lower ranks, and from, the same elements of a higher rank. It leaves the
// result in into. The vectors have elements of width bytes. Every member must have the same
// number of elements.
func (g *Group) ReduceFunc(ctx context.Context, root, width int, combine func(into, from []byte), vector []byte) error {
	r := newReduction(root, width)
	if err := g.begin(ctx, r.op); err != nil {
		return err
	}
	defer g.done()
	if root != All {
		if err := g.checkRoot(r.op, root); err != nil {
			return err
		}
	}
	if width < 1 || len(vector)%width != 0 {
		return g.bad(r.op, "elements of %d bytes in a vector of %d", width, len(vector))
	}
	r.combine = combine
	returned := false
	defer func() {
		// combine has panicked or ended its goroutine, and the other members wait.
		if !returned {
			g.quit()
		}
	}()
	err := g.reduceFunc(ctx, &r, vector)
	returned = true
	return err
}

func (g *Group) reduceFunc(ctx context.Context, r *reduction, vector []byte) error {
	switch n := len(g.roster); {
	case n == 1:
		return g.barrier(ctx, r.op)
	case len(vector) <= limits.GatheredReduction/n:
		return g.reduceGathered(ctx, r, vector)
	}
	able, err := g.reduceParts(ctx, r, vector)
	if able || err != nil {
		return err
	}
	return g.reduceInTurn(ctx, r, vector)
}

// combiner returns the rank of the member that combines for all.
func (r *reduction) combiner() int { return max(r.root, 0) }

// reduceGathered gathers the vectors at one member, which combines them.
func (g *Group) reduceGathered(ctx context.Context, r *reduction, vector []byte) error {
	written := vector
	if !r.wants(g.rank) {
		written = nil
	}
	if err := g.look(r.op, vector, written); err != nil {
		return err
	}
	at, n := r.combiner(), len(vector)
	f := formReduceFunc
	if r.root == All {
		f = formAllReduceFunc
	}
	what := uint64(r.width)<<32 | uint64(n)
	h, mem, theirs, err := g.show(ctx, r.op, f, at, n*len(g.roster), what)
	if err != nil {
		return err
	}
	if theirs != what {
		return g.disagree(ctx, r.op)
	}
	if err := g.putOwn(ctx, r.op, at, h, mem, uint64(g.rank*n), vector); err != nil {
		return err
	}
	if g.rank == at && n > 0 {
		into := mem[:n]
		for i := 1; i < len(g.roster); i++ {
			r.combine(into, mem[i*n:][:n])
		}
		copy(vector, into)
	}
	return g.giveResult(ctx, r, vector)
}

// reduceInTurn broadcasts the vectors one after the other. For this, no member needs a region.
func (g *Group) reduceInTurn(ctx context.Context, r *reduction, vector []byte) error {
	sum, scratch := []byte(nil), make([]byte, len(vector))
	for i := range g.roster {
		b := scratch
		if i == g.rank {
			b = vector
		}
		if err := g.broadcast(ctx, r.op, i, b); err != nil {
			return err
		}
		g.midway = true
		switch {
		case g.rank != r.combiner():
		case i == 0:
			sum = append(sum, b...)
		default:
			r.combine(sum, b)
		}
	}
	if g.rank == r.combiner() {
		copy(vector, sum)
	}
	return g.giveResult(ctx, r, vector)
}

// giveResult broadcasts the result from the vector of its combiner, if all members want it.
func (g *Group) giveResult(ctx context.Context, r *reduction, vector []byte) error {
	if r.root != All {
		return nil
	}
	return g.broadcast(ctx, r.op, r.combiner(), vector)
}
