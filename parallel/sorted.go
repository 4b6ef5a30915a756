package parallel

import (
	"fmt"
	"unsafe"
)

// result is a value that a rank computed for a position of another rank.
type result[T any] struct {
	line, x int
	value   T
}

// tellRanks sets the ranks at the positions from which the entries came.
func (so *sorter[T]) tellRanks(dst *Var[int]) error {
	s := so.c.s
	parts := make([][]result[int], s.m.size)
	for i := range so.entries {
		e := &so.entries[i]
		q := so.ownerOf(e.x)
		parts[q] = append(parts[q], result[int]{e.line, e.x, e.rank})
	}
	return tellResults(so.c, so.l, dst, parts)
}

// tellKeys sets the keys at the active positions of their lines.
func (so *sorter[T]) tellKeys(dst *Var[T]) error {
	s := so.c.s
	places, err := so.activePlaces()
	if err != nil {
		return err
	}
	parts := make([][]result[T], s.m.size)
	for i := range so.entries {
		e := &so.entries[i]
		q, k := s.m.rank, e.rank
		if so.l.axis == s.div {
			for q = 0; k >= places[q][e.line]; q++ {
				k -= places[q][e.line]
			}
		}
		parts[q] = append(parts[q], result[T]{e.line, k, e.key})
	}
	return tellResults(so.c, so.l, dst, so.coordinates(parts))
}

// activePlaces returns the number of active positions of each line at each rank.
func (so *sorter[T]) activePlaces() ([][]int, error) {
	s := so.c.s
	if so.l.axis != s.div {
		return nil, nil
	}
	counts := make([]int, so.l.count)
	all := s.all()
	so.c.spans(&all, false, func(r *row) {
		line := so.l.of(r)
		if so.l.along() {
			counts[line] += r.n
			return
		}
		for i := range r.n {
			counts[line+i]++
		}
	})
	return allGather(so.c, counts, func(int) int { return so.l.count * 8 })
}

func (so *sorter[T]) ownerOf(x int) int {
	if so.l.axis != so.c.s.div {
		return so.c.s.m.rank
	}
	return so.c.s.ownerOf(x)
}

// coordinates marks results that name the number k of an active position on a line, instead of a
// coordinate, by the negative number ^k.
func (so *sorter[T]) coordinates(parts [][]result[T]) [][]result[T] {
	for _, list := range parts {
		for i := range list {
			list[i].x = ^list[i].x
		}
	}
	return parts
}

// tellResults sends the results to the ranks that hold their positions, and sets dst. A negative x
// is ^k for the k-th active position of the line at that rank.
func tellResults[V any](c *Ctx, l *lines, dst *Var[V], parts [][]result[V]) error {
	s, m := c.s, c.s.m
	lists := parts[m.rank : m.rank+1]
	if l.axis == s.div {
		pieces, wants := make([]piece, m.size), make([]want, m.size)
		for r := range m.size {
			pieces[r] = piece{to: r, data: bytesOf(parts[r])}
			wants[r] = want{from: r, open: true, limit: s.count * int(unsafe.Sizeof(result[V]{}))}
		}
		if err := m.exchange(c.ctx, pieces, wants); err != nil {
			return err
		}
		lists = make([][]result[V], m.size)
		for r := range wants {
			lists[r] = elementsOf[result[V]](wants[r].buf)
		}
	}
	places := activeOffsets(c, l)
	start := lineStarts(l)
	for r, list := range lists {
		for _, e := range list {
			x := e.x - s.local.lo[l.axis]
			if e.line < 0 || e.line >= l.count || e.x >= 0 && (x < 0 || x >= s.local.n[l.axis]) ||
				e.x < 0 && ^e.x >= len(places[e.line]) {
				return fmt.Errorf("rank %d sends a result for coordinate %d of line %d", r, e.x, e.line)
			}
			if e.x < 0 {
				x = places[e.line][^e.x]
			}
			dst.mem[start[e.line]+x*s.stride[l.axis]] = e.value
		}
	}
	return nil
}

// activeOffsets lists the active positions of each line of this rank, as coordinates of the local
// box.
func activeOffsets(c *Ctx, l *lines) [][]int {
	places := make([][]int, l.count)
	all := c.s.all()
	c.spans(&all, false, func(r *row) {
		line, x := l.of(r), r.pos[l.axis]
		for range r.n {
			places[line] = append(places[line], x)
			if l.along() {
				x++
			} else {
				line++
			}
		}
	})
	return places
}

// lineStarts returns the offset in memory of the first position of each line.
func lineStarts(l *lines) []int {
	starts := make([]int, l.count)
	b := l.s.all()
	b.n[l.axis] = min(b.n[l.axis], 1)
	l.s.rows(&b, false, func(r *row) {
		line := l.of(r)
		for i := range r.n {
			starts[line+i] = r.off + i
		}
	})
	return starts
}
