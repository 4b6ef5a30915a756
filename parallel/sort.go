package parallel

import (
	"cmp"
	"slices"
	"unsafe"
)

// Rank sets each active element of dst to the position that the element of key would have in its
// line along an axis if the line were sorted. That is the number of active elements of the line
// that are smaller, or that are equal and have a lower coordinate. NaN comes before all other
// floats. So the ranks of a line with n active positions are 0 to n−1. To sort several variables
// by one key, call Rank and then [Send].
func Rank[T cmp.Ordered](c *Ctx, dst *Var[int], key *Var[T], axis int) error {
	return c.collective(describe(opRank, axis, 0, 0).of(&key.varInfo), func() error {
		err := firstError(c.check(&dst.varInfo, &key.varInfo), c.s.checkAxis(axis), notSame(dst, key))
		if err != nil {
			return err
		}
		dst.version++
		so, err := sortKeys(c, key, axis)
		if err != nil {
			return err
		}
		return so.tellRanks(dst)
	})
}

// Sort sets the active elements of dst to the active elements of src, sorted along each line of an
// axis: the smallest element goes to the active position with the lowest coordinate. NaN comes
// before all other floats. The variables must differ.
func Sort[T cmp.Ordered](c *Ctx, dst, src *Var[T], axis int) error {
	return c.collective(describe(opSort, axis, 0, 0).of(&src.varInfo), func() error {
		err := firstError(c.check(&dst.varInfo, &src.varInfo), c.s.checkAxis(axis), differ(dst, src))
		if err != nil {
			return err
		}
		dst.version++
		so, err := sortKeys(c, src, axis)
		if err != nil {
			return err
		}
		return so.tellKeys(dst)
	})
}

func notSame[T any](dst *Var[int], key *Var[T]) error {
	if any(dst) == any(key) {
		return badArgument("dst is key; expected two variables")
	}
	return nil
}

// entry is an active element that is sent to another rank. Entries are sorted by line, then by
// key, then by coordinate. The line is a line of a box that is whole on the sorted axis. All
// ranks number these lines in the same way.
type entry[T any] struct {
	line, x int // line, and coordinate on the sorted axis
	key     T
	rank    int // its number in its line, once all entries are sorted
}

func compareEntries[T cmp.Ordered](a, b *entry[T]) int {
	if a.line != b.line {
		return cmp.Compare(a.line, b.line)
	}
	if n := cmp.Compare(a.key, b.key); n != 0 {
		return n
	}
	return cmp.Compare(a.x, b.x)
}

func byValue[T cmp.Ordered](a, b entry[T]) int { return compareEntries(&a, &b) }

// sorter sorts the lines of a shape along an axis. If the axis is divided, it sorts by samples:
// each rank sorts its own entries, the ranks agree on the entries that separate their parts, and
// each rank gets one part.
type sorter[T cmp.Ordered] struct {
	c       *Ctx
	l       *lines
	entries []entry[T] // the part of this rank, sorted
}

func sortKeys[T cmp.Ordered](c *Ctx, key *Var[T], axis int) (*sorter[T], error) {
	so := &sorter[T]{c: c, l: newLines(c.s, axis)}
	so.entries = make([]entry[T], 0, c.Active())
	last, all := len(c.s.axes)-1, c.s.all()
	c.spans(&all, false, func(r *row) {
		line, x := so.l.of(r), r.pos[axis]+c.s.local.lo[axis]
		for _, k := range key.mem[r.off : r.off+r.n] {
			so.entries = append(so.entries, entry[T]{line: line, x: x, key: k})
			if axis == last {
				x++
			} else {
				line++
			}
		}
	})
	so.sort()
	if axis == c.s.div && c.s.m.size > 1 {
		if err := so.redistribute(); err != nil {
			return nil, err
		}
		return so, so.number()
	}
	so.numberFrom(nil)
	return so, nil
}

func (so *sorter[T]) sort() {
	slices.SortFunc(so.entries, byValue[T])
}

// redistribute gives each rank one part of the entries.
func (so *sorter[T]) redistribute() error {
	m, n := so.c.s.m, len(so.entries)
	samples := make([]entry[T], 0, m.size)
	for i := range m.size {
		if k := n * i / m.size; n > 0 && (i == 0 || k > n*(i-1)/m.size) {
			samples = append(samples, so.entries[k])
		}
	}
	most := m.size * int(unsafe.Sizeof(entry[T]{}))
	lists, err := allGather(so.c, samples, func(int) int { return most })
	if err != nil {
		return err
	}
	every := slices.Concat(lists...)
	slices.SortFunc(every, byValue[T])
	pieces, wants := make([]piece, m.size), make([]want, m.size)
	from := 0
	for r := range m.size {
		to := n
		if r < m.size-1 {
			if k := len(every) * (r + 1) / m.size; k < len(every) {
				to, _ = slices.BinarySearchFunc(so.entries, every[k], byValue[T])
			}
		}
		pieces[r] = piece{to: r, data: bytesOf(so.entries[from:max(from, to)])}
		wants[r] = want{from: r, open: true, limit: so.c.s.held(r) * int(unsafe.Sizeof(entry[T]{}))}
		from = max(from, to)
	}
	if err := m.exchange(so.c.ctx, pieces, wants); err != nil {
		return err
	}
	parts := make([][]entry[T], m.size)
	for r := range wants {
		parts[r] = elementsOf[entry[T]](wants[r].buf)
	}
	so.entries = mergeParts(parts)
	return nil
}

// mergeParts merges sorted parts in pairs.
func mergeParts[T cmp.Ordered](parts [][]entry[T]) []entry[T] {
	for len(parts) > 1 {
		half := parts[:0]
		for i := 0; i < len(parts); i += 2 {
			part := parts[i]
			if i+1 < len(parts) {
				part = merge(part, parts[i+1])
			}
			half = append(half, part)
		}
		parts = half
	}
	return parts[0]
}

// merge merges two sorted parts.
func merge[T cmp.Ordered](a, b []entry[T]) []entry[T] {
	to := make([]entry[T], 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if compareEntries(&a[0], &b[0]) <= 0 {
			to, a = append(to, a[0]), a[1:]
		} else {
			to, b = append(to, b[0]), b[1:]
		}
	}
	return append(append(to, a...), b...)
}

// allGather returns the lists of all ranks. The list of a rank has at most limit bytes.
func allGather[E any](c *Ctx, list []E, limit func(rank int) int) ([][]E, error) {
	m := c.s.m
	pieces, wants := make([]piece, m.size), make([]want, m.size)
	for i := range m.size {
		r := (m.rank + i) % m.size
		pieces[i] = piece{to: r, data: bytesOf(list)}
		wants[i] = want{from: r, open: true, limit: limit(r)}
	}
	if err := m.exchange(c.ctx, pieces, wants); err != nil {
		return nil, err
	}
	lists := make([][]E, m.size)
	for i := range wants {
		lists[wants[i].from] = elementsOf[E](wants[i].buf)
	}
	return lists, nil
}

// tail holds the number of entries that a rank has on its last line.
type tail struct{ line, n int }

// number numbers the entries of each line. A line may begin on a lower rank.
func (so *sorter[T]) number() error {
	var own []tail
	if n := len(so.entries); n > 0 {
		t := tail{line: so.entries[n-1].line}
		for i := n - 1; i >= 0 && so.entries[i].line == t.line; i-- {
			t.n++
		}
		own = append(own, t)
	}
	lists, err := allGather(so.c, own, func(int) int { return int(unsafe.Sizeof(tail{})) })
	if err != nil {
		return err
	}
	so.numberFrom(lists[:so.c.s.m.rank])
	return nil
}

// numberFrom numbers the entries, after the tails of the lower ranks.
func (so *sorter[T]) numberFrom(lower [][]tail) {
	line, n := -1, 0
	for _, list := range lower {
		for _, t := range list {
			if t.line != line {
				line, n = t.line, 0
			}
			n += t.n
		}
	}
	for i := range so.entries {
		e := &so.entries[i]
		if e.line != line {
			line, n = e.line, 0
		}
		e.rank = n
		n++
	}
}
