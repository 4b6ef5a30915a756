package parallel

import (
	"slices"

	"github.com/weftnet/weft/internal/mutate"
)

// ScanOpt selects the form of a [Scan]. The zero ScanOpt is an inclusive scan from the lowest
// coordinate on.
type ScanOpt struct {
	// Exclusive leaves out the element itself: the first one gets the identity.
	Exclusive bool

	// Reverse scans from the highest coordinate down.
	Reverse bool

	// Segments starts a new segment at each active position at which it is true. The lowest
	// position of a line starts one in any case. With Reverse, the segments are the same, and each
	// is scanned from its end. nil: each line is one segment.
	Segments *Var[bool]
}

// Scan sets each active element of dst to the combination of the active elements of src on the
// same line along an axis. The combination goes from the start of the line, or of the segment, up
// to this element. The variables must differ. With Reverse, the result at a position combines
// this element and the elements above it, in the order of positions.
//
// The bits do not depend on the number of ranks. On the axis that the ranks divide, an element
// combines the blocks before its own, in pairs as in [Reduce], and then the elements of its own
// block in order.
func Scan[T any](c *Ctx, dst, src *Var[T], axis int, op Op[T], o ScanOpt) error {
	flags := byte(0)
	infos := []*varInfo{&dst.varInfo, &src.varInfo}
	if o.Exclusive {
		flags |= flagExclusive
	}
	if o.Reverse {
		flags |= flagReverse
	}
	if o.Segments != nil {
		flags |= flagSegments
		infos = append(infos, &o.Segments.varInfo)
	}
	what := describe(opScan, axis, flags, 0).of(&src.varInfo).by(op.Name)
	return c.collective(what, func() error {
		if err := firstError(c.check(infos...), c.s.checkAxis(axis), op.check(), differ(dst, src)); err != nil {
			return err
		}
		dst.version++
		if o.Segments != nil {
			return scanSegments(c, dst, src, axis, &op, o)
		}
		return scanLines(c, dst, src, axis, &op, o)
	})
}

// A scanner is the local part of a scan. It combines the lines of a box with acc. It also writes
// the results of the box; acc then holds the combination of the elements before the box.
type scanner[E any] struct {
	identity E
	join     func(a, b E) E
	exact    bool // any grouping gives the same bits
	total    func(b *box, acc []E)
	apply    func(b *box, acc []E)
}

// run scans along an axis.
func (sc *scanner[E]) run(c *Ctx, l *lines, back bool) error {
	s := c.s
	acc := make([]E, l.count)
	if l.axis != s.div {
		fillWith(acc, sc.identity)
		all := s.all()
		sc.apply(&all, acc)
		return nil
	}
	a, b := s.blocksOf(s.m.rank, back)
	at := func(i int) box {
		if back {
			i = s.blocks - 1 - i
		}
		return s.block(i)
	}
	t := &tree[E]{join: sc.join, lines: l.count}
	push := func(i int, x *box) {
		v := t.take()
		fillWith(v, sc.identity)
		sc.total(x, v)
		t.push(i, 1, v)
	}
	if s.m.size > 1 {
		for i := a; i < b; i++ {
			x := at(i)
			push(i, &x)
		}
		nodes, err := nodesBefore(c, t, back)
		if err != nil {
			return err
		}
		t = treeOf(t, nodes)
	}
	for i := a; i < b; i++ {
		x := at(i)
		if i == a || !sc.exact {
			t.prefix(acc, sc.identity)
		}
		if i+1 < b && !sc.exact {
			push(i, &x) // while the block is in the cache
		}
		sc.apply(&x, acc)
	}
	return nil
}

// nodesBefore returns the nodes of the ranks before this one in a scan, in the order of the scan.
// own holds the nodes of this rank.
func nodesBefore[E any](c *Ctx, own *tree[E], back bool) ([][]node[E], error) {
	m := c.s.m
	nodes, err := gatherNodes(c.ctx, c.s, own, back)
	switch {
	case err != nil:
		return nil, err
	case back:
		nodes = nodes[m.rank+1:]
		slices.Reverse(nodes)
	case m.defect == mutate.ParallelPrefixShort && m.rank > 0:
		nodes = nodes[:m.rank-1]
	default:
		nodes = nodes[:m.rank]
	}
	return nodes, nil
}

// scanLines scans without segments.
func scanLines[T any](c *Ctx, dst, src *Var[T], axis int, op *Op[T], o ScanOpt) error {
	l := newLines(c.s, axis)
	join := op.Join
	if o.Reverse {
		join = func(a, b T) T { return op.Join(b, a) }
	}
	loop := op.scan
	if loop == nil || o.Reverse {
		loop = func(dst, run []T, acc T, exclusive bool) T { return scanRun(dst, run, acc, join, o) }
	}
	sc := scanner[T]{identity: op.Identity, join: join, exact: op.exact}
	sc.total = func(b *box, acc []T) {
		if from := c.s.origin + b.lo[0]; c.flat() && op.fold != nil {
			acc[0] = op.total(acc[0], src.mem[from:from+b.n[0]])
			return
		}
		c.spans(b, o.Reverse, func(r *row) {
			line, run := l.of(r), src.mem[r.off:r.off+r.n]
			switch {
			case !l.along():
				for i, x := range run {
					acc[line+i] = join(acc[line+i], x)
				}
			case op.fold != nil: // operators with a fold are commutative
				acc[line] = op.total(acc[line], run)
			case o.Reverse:
				for i := len(run) - 1; i >= 0; i-- {
					acc[line] = join(acc[line], run[i])
				}
			default:
				for _, x := range run {
					acc[line] = join(acc[line], x)
				}
			}
		})
	}
	sc.apply = func(b *box, acc []T) {
		if from := c.s.origin + b.lo[0]; c.flat() {
			acc[0] = loop(dst.mem[from:from+b.n[0]], src.mem[from:from+b.n[0]], acc[0], o.Exclusive)
			return
		}
		c.spans(b, o.Reverse, func(r *row) {
			line, to, run := l.of(r), dst.mem[r.off:r.off+r.n], src.mem[r.off:r.off+r.n]
			if l.along() {
				acc[line] = loop(to, run, acc[line], o.Exclusive)
				return
			}
			for i, x := range run {
				before := acc[line+i]
				acc[line+i] = join(before, x)
				if to[i] = acc[line+i]; o.Exclusive {
					to[i] = before
				}
			}
		})
	}
	return sc.run(c, l, o.Reverse)
}

// scanRun is the loop of a scan along a run.
func scanRun[T any](dst, run []T, acc T, join func(a, b T) T, o ScanOpt) T {
	i, step := 0, 1
	if o.Reverse {
		i, step = len(run)-1, -1
	}
	for range run {
		before := acc
		acc = join(before, run[i])
		if dst[i] = acc; o.Exclusive {
			dst[i] = before
		}
		i += step
	}
	return acc
}

// segment is the combination of the elements since the last start of a segment.
type segment[T any] struct {
	v     T
	start bool // a segment has started among the elements
}

// scanSegments scans with segments. In the order of a reverse scan, a segment ends with its start.
func scanSegments[T any](c *Ctx, dst, src *Var[T], axis int, op *Op[T], o ScanOpt) error {
	l := newLines(c.s, axis)
	join := op.Join
	if o.Reverse {
		join = func(a, b T) T { return op.Join(b, a) }
	}
	sc := scanner[segment[T]]{identity: segment[T]{v: op.Identity}}
	sc.join = func(a, b segment[T]) segment[T] {
		if b.start {
			return b
		}
		return segment[T]{join(a.v, b.v), a.start}
	}
	// pass runs through a box, and writes to dst if write is true.
	pass := func(b *box, acc []segment[T], write bool) {
		c.spans(b, o.Reverse, func(r *row) {
			line, to, run := l.of(r), dst.mem[r.off:r.off+r.n], src.mem[r.off:r.off+r.n]
			starts := o.Segments.mem[r.off : r.off+r.n]
			i, step := 0, 1
			if o.Reverse {
				i, step = r.n-1, -1
			}
			for range r.n {
				a := &acc[line]
				if !l.along() {
					a = &acc[line+i]
				}
				if starts[i] && !o.Reverse {
					*a = segment[T]{op.Identity, true}
				}
				before := a.v
				a.v = join(before, run[i])
				switch {
				case write && o.Exclusive:
					to[i] = before
				case write:
					to[i] = a.v
				}
				if starts[i] && o.Reverse {
					*a = segment[T]{op.Identity, true}
				}
				i += step
			}
		})
	}
	sc.total = func(b *box, acc []segment[T]) { pass(b, acc, false) }
	sc.apply = func(b *box, acc []segment[T]) { pass(b, acc, true) }
	return sc.run(c, l, o.Reverse)
}
