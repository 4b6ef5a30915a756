package parallel

import (
	"fmt"
	"unsafe"
)

// Transpose calls f for runs of active positions of this rank, with the elements of src at the
// exchanged coordinates: out[k] is the element of dst at the coordinates pos[0] and pos[1]+k, and
// in[k] is the element of src at the coordinates pos[1]+k and pos[0]. The function f computes the
// elements of out. It must not change in, and must not keep its arguments. The runs do not come
// in the order of indices. To copy, call the builtin function copy in f.
//
// The variables have two axes each, and each axis of dst is as long as the other axis of src. The
// variable dst has the shape of c. The variables must differ. All elements of src take part, active
// or not. If src or dst does not fit, Transpose fails with [ErrBadArgument].
//
// For the elements that this rank sends, src keeps twice the memory of these elements.
func Transpose[T, U any](c *Ctx, dst *Var[U], src *Var[T], f func(pos []int, out []U, in []T)) error {
	m := c.s.m
	if err := m.begin(c.ctx, describe(opTranspose, noAxis, 0, 0).of(&src.varInfo).other(dst.s)); err != nil {
		return err
	}
	err := firstError(c.check(&dst.varInfo), c.machine(src.s), turnable(dst.s, src.s))
	if err == nil && any(dst) == any(src) {
		err = badArgument("dst is src; expected two variables")
	}
	if err == nil {
		err = transpose(c, dst, src, f)
	}
	if err == nil {
		err = m.lag(c.ctx)
	}
	if err != nil {
		return m.end(c.ctx, err)
	}
	m.busy.Store(false)
	return nil
}

// transpose passes the parts to f as they arrive, so the data needs no other memory in between.
// Its sends stay in flight: they end when the other ranks poll, and these may compute for a while
// first. So the exchanges alternate between two buffers.
func transpose[T, U any](c *Ctx, dst *Var[U], src *Var[T], f func(pos []int, out []U, in []T)) error {
	m := c.s.m
	dst.version++
	if src.turned == nil || src.turned.to != dst.s {
		src.turned = newTurn(src, dst.s)
	}
	t, pos := src.turned, make([]int, 2)
	if err := m.flush(c.ctx, t.seqs[0]); err != nil {
		return err
	}
	t.seqs[0], t.seqs[1] = t.seqs[1], m.seq
	t.pieces[0], t.pieces[1] = t.pieces[1], t.pieces[0]
	t.sets[0], t.sets[1] = t.sets[1], t.sets[0]
	for i, b := range t.from {
		w := &t.wants[i]
		*w = want{from: w.from, buf: w.buf, size: b.n[0] * rowBytes[T](&b)}
		if w.buf == nil {
			w.each = func(part []byte, offset int) error {
				b, err := t.rows(&b, len(part), offset)
				if err == nil {
					turnFrom(c, dst, t.elements(part), b, pos, f)
				}
				return err
			}
		}
	}
	t.pack()
	if err := m.start(c.ctx, t.pieces[1], t.wants); err != nil {
		return err
	}
	// Long messages make progress only while both ranks poll. So no rank continues until the
	// others have its data.
	if err := m.finish(c.ctx, t.wants); err != nil {
		return err
	}
	pieces, wants := t.receipts()
	if err := m.exchange(c.ctx, pieces, wants); err != nil {
		return err
	}
	turnOwn(c, dst, src, t.overlap(m.rank, m.rank), pos, f)
	for i := range t.wants {
		if buf := t.wants[i].buf; buf != nil {
			turnFrom(c, dst, elementsOf[T](buf), t.from[i], pos, f)
		}
	}
	return nil
}

// turnable returns an error unless one shape has the lengths of the other in reverse order.
func turnable(to, from *Shape) error {
	if len(to.axes) != 2 || len(from.axes) != 2 {
		return badArgument("shapes of %d and %d axes; expected 2 axes each", len(to.axes), len(from.axes))
	}
	if to.axes[0].Len != from.axes[1].Len || to.axes[1].Len != from.axes[0].Len {
		return badArgument("dst has %v and src has %v; expected the same lengths in reverse order", to, from)
	}
	return nil
}

// A turn is the exchange of a transposition of one variable, with its memory.
//
//	src of rank p          dst of rank q: the coordinates are exchanged, and the overlap
//	· · · · ·              · · · · of the two is the data that p sends to q, in the order of dst
//	■ ■ ■ ■ ■   ──────►    ■ ■ ■ ■
type turn[T any] struct {
	have    *Shape      // of src
	to      *Shape      // of dst
	pieces  [2][]piece  // of the last exchange and of this one
	sets    [2][]func() // functions that set the data of the pieces
	seqs    [2]uint64   // the operations that sent the pieces
	wants   []want      // with a buf if a row is longer than a message
	from    []box       // the box of each want, in the coordinates of dst
	scratch []T         // a copy of a part that is not aligned for its elements
}

func newTurn[T any](src *Var[T], to *Shape) *turn[T] {
	m := to.m
	t := &turn[T]{have: src.s, to: to}
	for i := range m.size - 1 {
		r := (m.rank + 1 + i) % m.size
		if b := t.overlap(m.rank, r); b.n[0]*b.n[1] > 0 {
			for k := range t.pieces {
				p, set := t.piece(src, r, b)
				t.pieces[k], t.sets[k] = append(t.pieces[k], p), append(t.sets[k], set)
			}
		}
		if b := t.overlap(r, m.rank); b.n[0]*b.n[1] > 0 {
			w := want{from: r}
			if rowBytes[T](&b) > maxData {
				w.buf = bytesOf(makeLarge[T](b.n[0] * b.n[1]))
			}
			t.from, t.wants = append(t.from, b), append(t.wants, w)
		}
	}
	return t
}

// piece returns the piece for a rank, and the function that sets its data.
func (t *turn[T]) piece(src *Var[T], to int, b box) (piece, func()) {
	out := makeLarge[T](b.n[0] * b.n[1])
	return piece{to: to, data: bytesOf(out), unit: rowBytes[T](&b)}, func() {
		eachTile(&b, func(x *box) {
			turnTile(out[(x.lo[0]-b.lo[0])*b.n[1]+x.lo[1]-b.lo[1]:], b.n[1], src, x)
		})
	}
}

// pack sets all the data that this rank sends. If it transposed each part just before the part
// leaves, the part would stay in a cache. But that takes longer, because the earlier parts make
// no progress meanwhile.
func (t *turn[T]) pack() {
	for _, set := range t.sets[1] {
		set()
	}
}

// rowBytes returns the bytes of a row of a box.
func rowBytes[T any](b *box) int { return b.n[1] * int(unsafe.Sizeof(*new(T))) }

// rows returns the rows of a box that one part of its data contains.
func (t *turn[T]) rows(b *box, n, offset int) (box, error) {
	unit, rows := rowBytes[T](b), *b
	if n%unit != 0 || offset%unit != 0 {
		return rows, fmt.Errorf("%d bytes from %d on; expected whole rows of %d bytes", n, offset, unit)
	}
	rows.lo[0], rows.n[0] = b.lo[0]+offset/unit, n/unit
	return rows, nil
}

// elements returns a part of a message as elements.
func (t *turn[T]) elements(part []byte) []T {
	if uintptr(unsafe.Pointer(unsafe.SliceData(part)))%unsafe.Alignof(*new(T)) == 0 {
		return elementsOf[T](part)
	}
	if t.scratch == nil {
		t.scratch = make([]T, maxData/int(unsafe.Sizeof(*new(T))))
	}
	return t.scratch[:copy(bytesOf(t.scratch), part)/int(unsafe.Sizeof(*new(T)))]
}

// overlap returns the elements of rank q's dst that rank p holds, in the coordinates of dst.
func (t *turn[T]) overlap(p, q int) (b box) {
	have, want := t.have.part(p), t.to.part(q)
	for i := range 2 {
		lo := max(have.lo[1-i], want.lo[i])
		hi := min(have.lo[1-i]+have.n[1-i], want.lo[i]+want.n[i])
		b.lo[i], b.n[i] = lo, max(hi-lo, 0)
	}
	return b
}

// receipts returns an exchange by which each rank tells the senders that it has received all
// data.
func (t *turn[T]) receipts() (pieces []piece, wants []want) {
	for i := range t.wants {
		pieces = append(pieces, piece{to: t.wants[i].from})
	}
	for i := range t.pieces[0] {
		wants = append(wants, want{from: t.pieces[0][i].to})
	}
	return pieces, wants
}

// tileSide is the side of the squares in which elements are transposed: a square of numbers of 8
// bytes and its transpose fit in the first-level cache.
const tileSide = 32

// eachTile calls f for each tile of a box.
func eachTile(b *box, f func(x *box)) {
	x := *b
	for i := 0; i < b.n[0]; i += tileSide {
		for j := 0; j < b.n[1]; j += tileSide {
			x.lo[0], x.n[0] = b.lo[0]+i, min(tileSide, b.n[0]-i)
			x.lo[1], x.n[1] = b.lo[1]+j, min(tileSide, b.n[1]-j)
			f(&x)
		}
	}
}

// turnTile writes a tile to memory with step elements per row. The tile's coordinates are those
// of dst. turnTile reads four rows of src together, so that it writes neighboring elements
// together.
func turnTile[T any](to []T, step int, src *Var[T], x *box) {
	s := src.s
	at := s.origin + (x.lo[1]-s.local.lo[0])*s.stride[0] + x.lo[0] - s.local.lo[1]
	row := func(j int) []T { return src.mem[at+j*s.stride[0]:][:x.n[0]] }
	j := 0
	for ; j+4 <= x.n[1]; j += 4 {
		r0, r1, r2, r3 := row(j), row(j+1), row(j+2), row(j+3)
		r1, r2, r3 = r1[:len(r0)], r2[:len(r0)], r3[:len(r0)]
		k := j
		for i := range r0 {
			y := (*[4]T)(to[k:])
			y[0], y[1], y[2], y[3] = r0[i], r1[i], r2[i], r3[i]
			k += step
		}
	}
	for ; j < x.n[1]; j++ {
		k := j
		for _, e := range row(j) {
			to[k] = e
			k += step
		}
	}
}

// turnOwn calls f for the elements that this rank holds itself.
func turnOwn[T, U any](c *Ctx, dst *Var[U], src *Var[T], b box, pos []int, f func(pos []int, out []U, in []T)) {
	tile := make([]T, tileSide*tileSide)
	eachTile(&b, func(x *box) {
		turnTile(tile, x.n[1], src, x)
		turnFrom(c, dst, tile, *x, pos, f)
	})
}

// turnFrom calls f for the elements of a box, which lie in the order of dst.
func turnFrom[T, U any](c *Ctx, dst *Var[U], from []T, b box, pos []int, f func(pos []int, out []U, in []T)) {
	s := c.s
	for i := range 2 {
		b.lo[i] -= s.local.lo[i]
	}
	if c.mask == nil { // the runs of a tile are short, so the cost of each call matters
		off, n := s.origin+b.lo[0]*s.stride[0]+b.lo[1], b.n[1]
		for i := range b.n[0] {
			pos[0], pos[1] = b.lo[0]+i+s.local.lo[0], b.lo[1]+s.local.lo[1]
			f(pos, dst.mem[off:off+n:off+n], from[i*n:(i+1)*n:(i+1)*n])
			off += s.stride[0]
		}
		return
	}
	turnActive(c, dst, from, b, pos, f)
}

// turnActive is turnFrom for the active positions of a mask. The box is in local coordinates.
func turnActive[T, U any](c *Ctx, dst *Var[U], from []T, b box, pos []int, f func(pos []int, out []U, in []T)) {
	s := c.s
	c.spans(&b, false, func(r *row) {
		at := (r.pos[0]-b.lo[0])*b.n[1] + r.pos[1] - b.lo[1]
		pos[0], pos[1] = r.pos[0]+s.local.lo[0], r.pos[1]+s.local.lo[1]
		f(pos, dst.mem[r.off:r.off+r.n:r.off+r.n], from[at:at+r.n:at+r.n])
	})
}
