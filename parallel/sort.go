package parallel

import (
	"cmp"
	"fmt"
	"slices"
	"unsafe"
)

// Rank sets each active element of dst to the number of active elements of key on the same line
// along an axis that come before it if the line is sorted: those that are smaller, and those that
// are equal and have a lower coordinate. NaN comes before all other floats. So the ranks of a line
// with n active positions are 0 to n−1. To sort several variables by one key, call Rank and then
// [Send].
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

// entry is an active element on its way. Entries are sorted by line, then by key, then by
// coordinate. The line is that of a box that is whole on the sorted axis, numbered alike on all
// ranks.
type entry[T any] struct {
	line, x int // line, and coordinate on the sorted axis
	key     T
	tie     int // number of the element among all that were sorted; then its rank in its line
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
	entries []entry[T] // the part of this rank, sorted; tie is the rank in the line
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
		pieces[r] = piece{r, bytesOf(so.entries[from:max(from, to)])}
		wants[r] = want{from: r, open: true, limit: so.c.s.held(r) * int(unsafe.Sizeof(entry[T]{}))}
		from = max(from, to)
	}
	if err := m.exchange(so.c.ctx, pieces, wants); err != nil {
		return err
	}
	var mine []entry[T]
	for r := range wants {
		mine = append(mine, elementsOf[entry[T]](wants[r].buf)...)
	}
	so.entries = mine
	so.sort()
	return nil
}

// allGather returns the lists of all ranks. The list of a rank has at most limit bytes.
func allGather[E any](c *Ctx, list []E, limit func(rank int) int) ([][]E, error) {
	m := c.s.m
	pieces, wants := make([]piece, m.size), make([]want, m.size)
	for i := range m.size {
		r := (m.rank + i) % m.size
		pieces[i] = piece{r, bytesOf(list)}
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

// tail says how many entries a rank has on its last line.
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
		e.tie = n
		n++
	}
}

// result is what a rank tells about a position of another rank.
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
		parts[q] = append(parts[q], result[int]{e.line, e.x, e.tie})
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
		q, k := s.m.rank, e.tie
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

// coordinates marks results that name the number of an active position on a line by a negative
// number: ^k.
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
			pieces[r] = piece{r, bytesOf(parts[r])}
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
