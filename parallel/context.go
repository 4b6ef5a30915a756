package parallel

import (
	"context"
	"errors"
	"slices"

	"github.com/weftnet/weft/internal/mutate"
)

// Ctx is a shape with its active positions, and the context of the operations on it. Operations
// change elements only at active positions, and reductions and scans combine only elements at
// active positions. [With] makes a Ctx in which every position is active, and [Ctx.Where] narrows
// it.
//
// A Ctx must not be used after its context has ended, and not by two goroutines concurrently.
type Ctx struct {
	ctx  context.Context
	s    *Shape
	mask []bool // of the positions of the local box; nil if all are active
	root *Ctx   // the Ctx of With
}

// With returns a Ctx with all positions of a shape active. If ctx ends during an operation, the
// operation fails at every rank, and so does the machine.
func With(ctx context.Context, s *Shape) *Ctx {
	c := &Ctx{ctx: ctx, s: s}
	c.root = c
	return c
}

// Shape returns the shape.
func (c *Ctx) Shape() *Shape { return c.s }

// Context returns the context that was given to [With].
func (c *Ctx) Context() context.Context { return c.ctx }

// Everywhere returns the Ctx in which all positions are active.
func (c *Ctx) Everywhere() *Ctx { return c.root }

// Where calls the function then with the active positions at which mask is true. Afterwards it
// calls the function other with the active positions at which mask is false. Every rank calls
// both functions, even if none of its positions is active. So both may contain collective
// operations. Where reads mask once, at the start. The function other may be nil. If then fails,
// Where returns its error without calling other.
//
// Where fails with [ErrBadArgument] if mask has another shape.
func (c *Ctx) Where(mask *Var[bool], then, other func(c *Ctx) error) error {
	if mask.s != c.s {
		return c.s.m.failAs("Where", badArgument("the mask has %v; expected %v", mask.s, c.s))
	}
	yes, no := make([]bool, c.s.count), make([]bool, c.s.count)
	all := c.s.all()
	c.s.rows(&all, false, func(r *row) {
		y, n, m := yes[r.at:r.at+r.n], no[r.at:r.at+r.n], mask.mem[r.off:r.off+r.n]
		for i, x := range m {
			active := c.mask == nil || c.mask[r.at+i]
			y[i], n[i] = active && x, active && !x
		}
	})
	if c.s.m.defect == mutate.ParallelBranchSkipped && !slices.Contains(yes, true) {
		then = func(*Ctx) error { return nil }
	}
	if err := then(&Ctx{c.ctx, c.s, yes, c.root}); err != nil || other == nil {
		return err
	}
	return other(&Ctx{c.ctx, c.s, no, c.root})
}

// Active returns the number of active positions at this rank.
func (c *Ctx) Active() int {
	if c.mask == nil {
		return c.s.count
	}
	n := 0
	for _, x := range c.mask {
		if x {
			n++
		}
	}
	return n
}

// spans calls f for each run of active positions in a box without halos.
func (c *Ctx) spans(b *box, back bool, f func(r *row)) {
	if c.mask == nil {
		c.s.rows(b, back, f)
		return
	}
	last := len(c.s.axes) - 1
	c.s.rows(b, back, func(r *row) {
		active := c.mask[r.at : r.at+r.n]
		part := *r
		span := func(from, to int) {
			part.off, part.at, part.n = r.off+from, r.at+from, to-from
			part.pos[last] = r.pos[last] + from
			f(&part)
		}
		if back {
			for to := len(active); to > 0; {
				if !active[to-1] {
					to--
					continue
				}
				from := to - 1
				for from > 0 && active[from-1] {
					from--
				}
				span(from, to)
				to = from
			}
			return
		}
		for from := 0; from < len(active); {
			if !active[from] {
				from++
				continue
			}
			to := from + 1
			for to < len(active) && active[to] {
				to++
			}
			span(from, to)
			from = to
		}
	})
}

// flat reports whether the active positions of every box of this rank form one run. That is the
// case on a shape of one axis without a mask. Loops over blocks then need no call for each run,
// and allocate nothing.
func (c *Ctx) flat() bool { return c.mask == nil && len(c.s.axes) == 1 }

// eachBlock calls f for each block of this rank, in order.
func (c *Ctx) eachBlock(f func(b *box)) {
	for i := c.s.first[c.s.m.rank]; i < c.s.first[c.s.m.rank+1]; i++ {
		b := c.s.block(i)
		f(&b)
	}
}

// fits reports whether variables have the shape of c. If not, the next operation of the machine
// fails.
func (c *Ctx) fits(op string, vars ...*varInfo) bool {
	err := c.check(vars...)
	if err != nil && c.s.m.broken == nil {
		c.s.m.broken = &RankError{c.s.m.rank, op, err}
	}
	return err == nil
}

// check returns an error if a variable has another shape than c.
func (c *Ctx) check(vars ...*varInfo) error {
	for _, v := range vars {
		if v.s != c.s {
			return badArgument("a variable has %v; expected %v", v.s, c.s)
		}
	}
	return nil
}

// collective runs the body of an operation between begin and end.
func (c *Ctx) collective(what description, body func() error) error {
	m := c.s.m
	if err := m.begin(c.ctx, what); err != nil {
		return err
	}
	return m.end(c.ctx, body())
}

// failAs makes the machine fail at every rank because a call that does not communicate has
// failed.
func (m *Machine) failAs(op string, err error) error {
	if !m.busy.CompareAndSwap(false, true) {
		return &RankError{m.rank, op, errors.Join(err, ErrBusy)}
	}
	err = m.fail(&RankError{m.rank, op, err})
	m.busy.Store(false)
	return err
}
