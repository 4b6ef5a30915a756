package parallel

import "github.com/weftnet/weft/internal/mutate"

// Reduce combines the elements of v at all active positions, on all ranks. Every rank gets the same
// result, and its bits do not depend on the number of ranks. If no position is active, the result
// is the identity of op.
//
// The order is part of the definition: each run of active positions in a block is combined first,
// then the runs of the block in the order of indices, then neighboring blocks in pairs. On
// processors that fuse multiplication and addition, Join may round differently.
func Reduce[T any](c *Ctx, v *Var[T], op Op[T]) (T, error) {
	var result T
	what := describe(opReduce, noAxis, 0, 0).of(&v.varInfo).by(op.Name)
	err := c.collective(what, func() (err error) {
		if err = firstError(c.check(&v.varInfo), op.check()); err == nil {
			result, err = reduce(c, v, &op)
		}
		return err
	})
	if err != nil {
		result = *new(T)
	}
	return result, err
}

func reduce[T any](c *Ctx, v *Var[T], op *Op[T]) (T, error) {
	s := c.s
	t := tree[T]{join: op.Join, lines: 1}
	totals := make([]T, s.first[s.m.rank+1]-s.first[s.m.rank])
	for i := range totals {
		b := s.first[s.m.rank] + i
		totals[i] = blockTotal(c, v, b, op)
		t.push(b, 1, totals[i:i+1:i+1])
	}
	nodes, err := gatherNodes(c.ctx, s, &t, false)
	if err != nil {
		return op.Identity, err
	}
	if s.m.defect == mutate.ParallelTreeOfRanks {
		nodes = oneOfEach(&t, nodes, op)
	}
	whole := treeOf(&t, nodes)
	var result [1]T
	whole.prefix(result[:], op.Identity)
	return result[0], nil
}

// oneOfEach implements a defect for tests: a tree whose nodes are the ranks.
func oneOfEach[T any](t *tree[T], nodes [][]node[T], op *Op[T]) [][]node[T] {
	list := make([]node[T], len(nodes))
	for r := range nodes {
		own := tree[T]{join: op.Join, lines: 1, nodes: nodes[r]}
		list[r] = node[T]{first: r, blocks: 1, v: make([]T, 1)}
		own.prefix(list[r].v, op.Identity)
	}
	return [][]node[T]{list}
}

// blockTotal combines the active elements of a block.
func blockTotal[T any](c *Ctx, v *Var[T], block int, op *Op[T]) T {
	if c.flat() {
		from := c.s.origin - c.s.local.lo[0]
		return op.total(op.Identity, v.mem[from+c.s.coord(block):from+c.s.coord(block+1)])
	}
	x, acc := c.s.block(block), op.Identity
	c.spans(&x, false, func(r *row) { acc = op.total(acc, v.mem[r.off:r.off+r.n]) })
	return acc
}

// ReduceAxis sets each active element of dst to the combination of the active elements of src on
// the same line along an axis. The variables must differ. The bits do not depend on the number of
// ranks.
func ReduceAxis[T any](c *Ctx, dst, src *Var[T], axis int, op Op[T]) error {
	what := describe(opReduceAxis, axis, 0, 0).of(&src.varInfo).by(op.Name)
	return c.collective(what, func() error {
		err := firstError(c.check(&dst.varInfo, &src.varInfo), c.s.checkAxis(axis), op.check(), differ(dst, src))
		if err != nil {
			return err
		}
		dst.version++
		s := c.s
		l := newLines(s, axis)
		acc := make([]T, l.count)
		fillWith(acc, op.Identity)
		all := s.all()
		if axis != s.div {
			lineTotals(l, c, &all, src, acc, &op)
			spreadLines(l, c, dst, acc)
			return nil
		}
		t := tree[T]{join: op.Join, lines: l.count}
		a, b := s.blocksOf(s.m.rank, false)
		for ; a < b; a++ {
			x, v := s.block(a), t.take()
			fillWith(v, op.Identity)
			lineTotals(l, c, &x, src, v, &op)
			t.push(a, 1, v)
		}
		nodes, err := gatherNodes(c.ctx, s, &t, false)
		if err != nil {
			return err
		}
		whole := treeOf(&t, nodes)
		whole.prefix(acc, op.Identity)
		spreadLines(l, c, dst, acc)
		return nil
	})
}

// lines numbers the lines along an axis that cross the local box, in the order of indices.
type lines struct {
	s      *Shape
	axis   int
	count  int
	stride [MaxAxes]int
}

func newLines(s *Shape, axis int) *lines {
	l := &lines{s: s, axis: axis, count: 1}
	for i := len(s.axes) - 1; i >= 0; i-- {
		if i != axis {
			l.stride[i] = l.count
			l.count *= s.local.n[i]
		}
	}
	return l
}

// along reports whether each row lies on one line.
func (l *lines) along() bool { return l.axis == len(l.s.axes)-1 }

// of returns the line of the first position of a row.
func (l *lines) of(r *row) int {
	line := 0
	for i := range l.s.axes {
		line += r.pos[i] * l.stride[i]
	}
	return line
}

// lineTotals combines the active elements of a box with acc, line by line.
func lineTotals[T any](l *lines, c *Ctx, b *box, v *Var[T], acc []T, op *Op[T]) {
	c.spans(b, false, func(r *row) {
		line, run := l.of(r), v.mem[r.off:r.off+r.n]
		if l.along() {
			acc[line] = op.total(acc[line], run)
			return
		}
		to := acc[line : line+len(run)]
		for i, x := range run {
			to[i] = op.Join(to[i], x)
		}
	})
}

// spreadLines sets each active element of dst to the value of its line.
func spreadLines[T any](l *lines, c *Ctx, dst *Var[T], values []T) {
	all := c.s.all()
	c.spans(&all, false, func(r *row) {
		to, line := dst.mem[r.off:r.off+r.n], l.of(r)
		if l.along() {
			fillWith(to, values[line])
		} else {
			copy(to, values[line:])
		}
	})
}

func fillWith[T any](to []T, x T) {
	for i := range to {
		to[i] = x
	}
}

// firstError returns the first error that is not nil.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// differ returns an error if two variables are the same.
func differ[T any](dst, src *Var[T]) error {
	if dst == src {
		return badArgument("dst is src; expected two variables")
	}
	return nil
}
