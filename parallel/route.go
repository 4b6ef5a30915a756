package parallel

import (
	"errors"
	"fmt"
	"unsafe"
)

// Get sets each active element of dst to the element of src whose index at holds at the same
// position. The variables dst and at have the shape of c. The variable src may have any shape of
// the machine. The index of a position is defined at [Shape]. If an index is out of range, Get
// fails with [ErrBadArgument].
func Get[T any](c *Ctx, dst *Var[T], at *Var[int], src *Var[T]) error {
	what := describe(opGet, noAxis, 0, 0).of(&dst.varInfo).other(src.s)
	return c.collective(what, func() error {
		if err := firstError(c.check(&dst.varInfo, &at.varInfo), c.machine(src.s), differ(dst, src)); err != nil {
			return err
		}
		dst.version++
		m := c.s.m
		rt, err := newRoute(c, at, src.s)
		if err != nil {
			return err
		}
		asks := rt.lists()
		rt.each(func(q, index int, _ *row, _ int) { asks[q] = append(asks[q], index) })
		pieces, wants := make([]piece, m.size), make([]want, m.size)
		for r := range m.size {
			pieces[r] = piece{to: r, data: bytesOf(asks[r])}
			wants[r] = want{from: r, open: true, limit: c.s.held(r) * 8}
		}
		if err := m.exchange(c.ctx, pieces, wants); err != nil {
			return err
		}
		answers := make([][]T, m.size)
		for r := range m.size {
			values, err := src.elements(r, elementsOf[int](wants[r].buf))
			if err != nil {
				return err
			}
			answers[r] = make([]T, len(asks[r]))
			pieces[r].data = bytesOf(values)
			wants[r] = want{from: r, buf: bytesOf(answers[r])}
		}
		if err := m.exchange(c.ctx, pieces, wants); err != nil {
			return err
		}
		next := make([]int, m.size)
		rt.each(func(q, _ int, r *row, i int) {
			dst.mem[r.off+i] = answers[q][next[q]]
			next[q]++
		})
		return nil
	})
}

// elements returns the elements of this rank that another rank requests.
func (v *Var[T]) elements(asker int, indices []int) ([]T, error) {
	s, values := v.s, make([]T, len(indices))
	for i, index := range indices {
		if index < 0 || index >= s.total {
			return nil, fmt.Errorf("rank %d asks for index %d of %d", asker, index, s.total)
		}
		x, off := s.place(index)
		if s.ownerOf(x) != s.m.rank {
			return nil, fmt.Errorf("rank %d asks for index %d, which another rank holds", asker, index)
		}
		values[i] = v.mem[off]
	}
	return values, nil
}

// Send sets the elements of dst whose indices at holds to the elements of src at the same
// positions. Only active positions send. The variables at and src have the shape of c. The variable
// dst may have any shape of the machine, and its elements need not be active. Elements to which
// nothing is sent do not change.
//
// If several positions send to one element, it becomes the combination of their elements by
// collide, in the order of blocks, and of indices in a block. So its bits do not depend on the
// number of ranks. If collide is the zero Op, it has no Join. Then two positions that send to one
// element are an error: Send fails with [ErrCollision], and the text names both. If an index is out
// of range, Send fails with [ErrBadArgument].
func Send[T any](c *Ctx, dst *Var[T], at *Var[int], src *Var[T], collide Op[T]) error {
	name := collide.Name
	if collide.Join == nil {
		name = "no operator"
	}
	what := describe(opSend, noAxis, 0, 0).of(&src.varInfo).other(dst.s).by(name)
	return c.collective(what, func() error {
		if err := firstError(c.check(&src.varInfo, &at.varInfo), c.machine(dst.s), differ(dst, src)); err != nil {
			return err
		}
		dst.version++
		m := c.s.m
		rt, err := newRoute(c, at, dst.s)
		if err != nil {
			return err
		}
		letters := make([][]letter[T], m.size)
		for r := range letters {
			letters[r] = make([]letter[T], 0, rt.counts[r])
		}
		last := len(c.s.axes) - 1
		rt.each(func(q, index int, r *row, i int) {
			letters[q] = append(letters[q], letter[T]{index, c.s.index(r) + i*c.s.global[last], src.mem[r.off+i]})
		})
		pieces, wants := make([]piece, m.size), make([]want, m.size)
		for r := range m.size {
			pieces[r] = piece{to: r, data: bytesOf(letters[r])}
			wants[r] = want{from: r, open: true, limit: c.s.held(r) * int(unsafe.Sizeof(letter[T]{}))}
		}
		if err := m.exchange(c.ctx, pieces, wants); err != nil {
			return err
		}
		return deliver(dst, wants, &collide)
	})
}

// letter is an element that Send sends.
type letter[T any] struct {
	to, from int // indices
	x        T
}

// deliver sets the elements of dst from the letters of all ranks, in the order of ranks. This is
// also the order of blocks.
func deliver[T any](dst *Var[T], wants []want, collide *Op[T]) error {
	s := dst.s
	senders := make([]int, len(dst.mem)) // index of the first sender plus 1
	for r := range wants {
		for _, l := range elementsOf[letter[T]](wants[r].buf) {
			if l.to < 0 || l.to >= s.total {
				return fmt.Errorf("rank %d sends to index %d of %d", r, l.to, s.total)
			}
			x, off := s.place(l.to)
			switch {
			case s.ownerOf(x) != s.m.rank:
				return fmt.Errorf("rank %d sends to index %d, which another rank holds", r, l.to)
			case senders[off] == 0:
				dst.mem[off], senders[off] = l.x, l.from+1
			case collide.Join == nil:
				return fmt.Errorf("%w: the positions with indices %d and %d both send to index %d",
					ErrCollision, senders[off]-1, l.from, l.to)
			default:
				dst.mem[off] = collide.Join(dst.mem[off], l.x)
			}
		}
	}
	return nil
}

// A route finds the ranks that hold the positions that a variable of indices names.
type route struct {
	c      *Ctx
	at     *Var[int]
	to     *Shape
	counts []int // number of active positions that name a position of each rank
	ranks  []int // rank for each active position, in the order of blocks
}

func newRoute(c *Ctx, at *Var[int], to *Shape) (*route, error) {
	if unsafe.Sizeof(int(0)) != 8 {
		return nil, errors.New("indices need a processor of 64 bits")
	}
	rt := &route{c: c, at: at, to: to, counts: make([]int, c.s.m.size)}
	rt.ranks = make([]int, 0, c.s.count)
	var bad error
	c.eachBlock(func(b *box) {
		c.spans(b, false, func(r *row) {
			for i, index := range at.mem[r.off : r.off+r.n] {
				if index < 0 || index >= to.total {
					bad = badArgument("index %d at the position with index %d; expected 0 to %d",
						index, c.s.index(r)+i, to.total-1)
					return
				}
				q := to.ownerOf(index / to.global[to.div] % to.axes[to.div].Len)
				rt.ranks = append(rt.ranks, q)
				rt.counts[q]++
			}
		})
	})
	return rt, bad
}

// lists returns an empty list for each rank, with capacity for the positions that the rank holds.
func (rt *route) lists() [][]int {
	lists := make([][]int, len(rt.counts))
	for r, n := range rt.counts {
		lists[r] = make([]int, 0, n)
	}
	return lists
}

// each calls f for each active position, in the order of blocks. The position is position i of
// the row r, and names an index. The rank q holds the position with this index.
func (rt *route) each(f func(q, index int, r *row, i int)) {
	k := 0
	rt.c.eachBlock(func(b *box) {
		rt.c.spans(b, false, func(r *row) {
			for i, index := range rt.at.mem[r.off : r.off+r.n] {
				f(rt.ranks[k], index, r, i)
				k++
			}
		})
	})
}

// machine returns an error if a shape belongs to another machine.
func (c *Ctx) machine(s *Shape) error {
	if s.m != c.s.m {
		return badArgument("a variable of another machine")
	}
	return nil
}
