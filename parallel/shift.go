package parallel

import (
	"encoding/binary"
	"unsafe"
)

// Border gives the elements beyond the ends of an axis. [Value], [Torus] and [Keep] make one. An
// axis that is a torus in the shape has no end, and ignores the Border. The zero Border is the zero
// value of T.
type Border[T any] struct {
	value T
	kind  byte
}

const (
	borderValue = iota
	borderTorus
	borderKeep
)

// Value returns the Border with x beyond both ends of an axis.
func Value[T any](x T) Border[T] { return Border[T]{value: x} }

// Torus returns the Border that joins the ends of an axis.
func Torus[T any]() Border[T] { return Border[T]{kind: borderTorus} }

// Keep returns the Border that leaves elements as they are if their source lies beyond an end.
func Keep[T any]() Border[T] { return Border[T]{kind: borderKeep} }

// flags returns the flags of a Border in a description.
func (b *Border[T]) flags() byte { return [...]byte{0, flagTorus, flagKeep}[b.kind] }

// into adds the border of a variable to a description: its flags, and a hash of its value.
// Elements with padding have no hash, because equal elements may differ in their bytes.
func (b *Border[T]) into(d description, v *varInfo) description {
	d[2] |= b.flags()
	if b.kind != borderValue || !v.dense {
		return d
	}
	hash := uint32(2166136261) // FNV-1a
	for _, x := range unsafe.Slice((*byte)(unsafe.Pointer(&b.value)), v.size) {
		hash = (hash ^ uint32(x)) * 16777619
	}
	binary.LittleEndian.PutUint32(d[12:], hash)
	return d
}

// A strip is a number of coordinates of the divided axis that one rank sends to another.
type strip struct {
	at   int // first coordinate at the receiver; may lie in a halo
	from int // first coordinate at the sender
	n    int
}

// strips lists the coordinates that rank r holds among those that the receiver wants: coordinate
// x of its part, from at to at+n−1, comes from x+by. If wrap is true, the axis is a torus, and
// |by| is at most its length.
func (s *Shape) strips(r, at, n, by int, wrap bool) (list []strip) {
	length, from, to := s.axes[s.div].Len, s.start[r], s.start[r+1]
	for k := -1; k <= 1; k++ {
		if k != 0 && !wrap {
			continue
		}
		d := by + k*length
		lo, hi := max(at+d, from), min(at+n+d, to)
		if lo < hi {
			list = append(list, strip{lo - d, lo, hi - lo})
		}
	}
	return list
}

// Shift sets each active element of dst to the element of src that lies by positions below it on an
// axis. So elements move up by the given number of positions, or down if by is negative. The border
// gives the elements beyond the ends of the axis. The variables must differ. The elements of src
// need not be active.
func Shift[T any](c *Ctx, dst, src *Var[T], axis, by int, border Border[T]) error {
	what := border.into(describe(opShift, axis, 0, int64(by)).of(&src.varInfo), &src.varInfo)
	return c.collective(what, func() error {
		err := firstError(c.check(&dst.varInfo, &src.varInfo), c.s.checkAxis(axis), differ(dst, src))
		if err != nil {
			return err
		}
		dst.version++
		length := c.s.axes[axis].Len
		sh := shifter[T]{c: c, dst: dst, src: src, axis: axis, border: border}
		sh.wrap = c.s.axes[axis].Torus || border.kind == borderTorus
		if sh.wrap {
			by %= length
		}
		sh.by = max(-length, min(by, length))
		if axis == c.s.div {
			return sh.between()
		}
		sh.local(length)
		return nil
	})
}

type shifter[T any] struct {
	c        *Ctx
	dst, src *Var[T]
	axis, by int
	wrap     bool
	border   Border[T]
}

// local shifts along an axis that every rank holds whole.
func (sh *shifter[T]) local(length int) {
	s := sh.c.s
	for k := -1; k <= 1; k++ {
		if k != 0 && !sh.wrap {
			continue
		}
		d := -sh.by + k*length
		lo, hi := max(d, 0), min(length+d, length)
		if lo < hi {
			b := s.all()
			b.lo[sh.axis], b.n[sh.axis] = lo-d, hi-lo
			sh.copy(b, d*s.stride[sh.axis])
		}
	}
	sh.beyond(0, length)
}

// copy sets the active elements of a box from those at a distance in memory.
func (sh *shifter[T]) copy(b box, distance int) {
	sh.c.spans(&b, false, func(r *row) {
		copy(sh.dst.mem[r.off:r.off+r.n], sh.src.mem[r.off+distance:])
	})
}

// beyond sets the active elements whose source lies beyond an end of the axis. This rank holds n
// coordinates of the axis, starting at lo.
func (sh *shifter[T]) beyond(lo, n int) {
	if sh.wrap || sh.border.kind == borderKeep {
		return
	}
	length := sh.c.s.axes[sh.axis].Len
	set := func(from, to int) {
		b := sh.c.s.all()
		if from, to = max(from, lo), min(to, lo+n); from < to {
			b.lo[sh.axis], b.n[sh.axis] = from-lo, to-from
			sh.c.spans(&b, false, func(r *row) { fillWith(sh.dst.mem[r.off:r.off+r.n], sh.border.value) })
		}
	}
	set(0, sh.by)
	set(length+sh.by, length)
}

// between shifts along the divided axis.
func (sh *shifter[T]) between() error {
	s, m := sh.c.s, sh.c.s.m
	var pieces []piece
	var wants []want
	slab := s.count / max(s.local.n[s.div], 1)
	of := func(q, r int) []strip { return s.strips(r, s.start[q], s.start[q+1]-s.start[q], -sh.by, sh.wrap) }
	for i := range m.size - 1 {
		q := (m.rank + 1 + i) % m.size
		if list := of(q, m.rank); len(list) > 0 {
			pieces = append(pieces, piece{to: q, data: bytesOf(pack(sh.src, list))})
		}
		n := 0
		for _, st := range of(m.rank, q) {
			n += st.n
		}
		if n > 0 {
			wants = append(wants, want{from: q, buf: bytesOf(make([]T, n*slab))})
		}
	}
	if err := m.start(sh.c.ctx, pieces, wants); err != nil {
		return err
	}
	for _, st := range of(m.rank, m.rank) {
		sh.copy(s.slab(st.at, st.n), (st.from-st.at)*s.stride[s.div])
	}
	sh.beyond(s.local.lo[s.div], s.local.n[s.div])
	if err := m.finish(sh.c.ctx, wants); err != nil {
		return err
	}
	for i := range wants {
		sh.unpack(elementsOf[T](wants[i].buf), of(m.rank, wants[i].from))
	}
	return nil
}

// pack copies strips of a variable into one slice. If the strips are contiguous in memory, it
// returns this memory.
func pack[T any](v *Var[T], list []strip) []T {
	s := v.s
	if len(list) == 1 && s.div == 0 && s.gapless() {
		from := (list[0].from - s.local.lo[0]) * s.stride[0]
		return v.mem[s.origin+from : s.origin+from+list[0].n*s.stride[0]]
	}
	var to []T
	for _, st := range list {
		b := s.slab(st.from, st.n)
		s.rows(&b, false, func(r *row) { to = append(to, v.mem[r.off:r.off+r.n]...) })
	}
	return to
}

// gapless reports whether all axes but the first have no halo, so that slabs are contiguous in
// memory.
func (s *Shape) gapless() bool {
	for _, a := range s.axes[1:] {
		if a.Halo != 0 {
			return false
		}
	}
	return true
}

// unpack sets the active elements of strips.
func (sh *shifter[T]) unpack(from []T, list []strip) {
	s := sh.c.s
	for _, st := range list {
		b, row0 := s.slab(st.at, st.n), 0
		if sh.c.mask == nil {
			s.rows(&b, false, func(r *row) { row0 += copy(sh.dst.mem[r.off:r.off+r.n], from[row0:]) })
			from = from[row0:]
			continue
		}
		s.rows(&b, false, func(r *row) {
			for i := range r.n {
				if sh.c.mask[r.at+i] {
					sh.dst.mem[r.off+i] = from[row0+i]
				}
			}
			row0 += r.n
		})
		from = from[row0:]
	}
}
