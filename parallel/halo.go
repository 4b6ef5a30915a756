package parallel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/weftnet/weft/internal/mutate"
)

// Halo is an exchange of halos in flight; see [StartHalo].
type Halo struct {
	wait func(ctx context.Context) error
	done bool
	err  error
	ctx  context.Context
}

// Wait waits until the halo of this rank is complete. A second Wait returns the same result, except
// after [ErrBusy].
func (h *Halo) Wait() error {
	if h.done {
		return h.err
	}
	err := h.wait(h.ctx)
	if errors.Is(err, ErrBusy) {
		return err
	}
	h.err, h.done = err, true
	return err
}

// StartHalo begins to copy the elements at the edges of each rank into the halos of its neighbors,
// and returns without waiting for them. The border gives the halo beyond the ends of an axis; with
// [Keep], that halo stays as it is. Until [Halo.Wait] has returned, the program must not change v,
// and must not call [Var.Row] or [Rows] for it. If it does, Wait fails with [ErrStaleHalo]. All
// elements take part, active or not.
//
// The halo includes the corners. Beyond the ends of several axes, the axis that comes later in the
// shape decides, but the divided axis decides over all others.
func StartHalo[T any](c *Ctx, v *Var[T], border Border[T]) (*Halo, error) {
	m := c.s.m
	what := border.into(describe(opHalo, noAxis, 0, 0).of(&v.varInfo), &v.varInfo)
	if err := m.begin(c.ctx, what); err != nil {
		return nil, err
	}
	x, err := &haloExchange[T]{}, c.check(&v.varInfo)
	if err == nil {
		x, err = startHalo(c, v, border)
	}
	if err == nil {
		err = m.lag(c.ctx)
	}
	if err != nil {
		return nil, m.end(c.ctx, err)
	}
	m.busy.Store(false)
	return &Halo{wait: x.finish, ctx: c.ctx}, nil
}

// haloExchange is the exchange of the halos of one variable. The variable keeps it, so that a loop
// allocates nothing.
type haloExchange[T any] struct {
	v        *Var[T]
	border   Border[T]
	flight   bool
	version  uint64
	sides    [2]haloSide // below and above this rank's part
	planned  bool
	seq      uint64 // number of the operation
	ownStrip [2][]strip

	// filled is the border that the halo beyond the ends already has. Only exchanges write there.
	filled Border[T]
	isFull bool
}

// haloSide is the halo at one end of the divided axis. Each side is a separate exchange, so most
// of its pieces are one strip, which is sent without a copy.
type haloSide struct {
	pieces []piece
	packed []func() []byte // makes the data of each piece
	wants  []want
	direct []bool    // the data of a want arrives at its destination
	strips [][]strip // of each want
}

func startHalo[T any](c *Ctx, v *Var[T], border Border[T]) (*haloExchange[T], error) {
	if v.halo == nil {
		v.halo = &haloExchange[T]{v: v}
	}
	x := v.halo
	wrap := c.s.axes[c.s.div].Torus || border.kind == borderTorus
	if x.flight {
		return x, badArgument("another exchange of the halo of this variable is in flight")
	}
	if x.border.kind != border.kind || !x.planned {
		x.plan(wrap)
		x.isFull = false
	}
	x.isFull = x.isFull && border.kind == borderValue && sameBytes(&x.filled.value, &border.value)
	x.border, x.planned, x.version, x.flight, x.seq = border, true, v.version, true, c.s.m.seq
	if c.s.m.defect != mutate.ParallelCornersLate {
		x.fillWhole()
	}
	for i := range x.sides {
		side := &x.sides[i]
		for k := range side.pieces {
			side.pieces[k].data = side.packed[k]()
		}
		for k := range side.wants {
			w := &side.wants[k]
			*w = want{from: w.from, buf: w.buf}
		}
		if err := c.s.m.start(c.ctx, side.pieces, side.wants); err != nil {
			return x, err
		}
	}
	if c.s.m.defect == mutate.ParallelCornersLate {
		x.fillWhole()
	}
	x.fillOwn(wrap)
	x.filled, x.isFull = border, border.kind == borderValue && x.constant()
	return x, nil
}

// constant reports whether an exchange with a border of one value writes only this value at the
// ends of the axes. If an axis is a torus, it does not.
func (x *haloExchange[T]) constant() bool {
	for _, a := range x.v.s.axes {
		if a.Torus {
			return false
		}
	}
	return true
}

// sameBytes reports whether two elements are the same in memory.
func sameBytes[T any](a, b *T) bool {
	return bytes.Equal(bytesOf(unsafe.Slice(a, 1)), bytesOf(unsafe.Slice(b, 1)))
}

// interval returns the coordinates of the divided axis that rank r keeps in the halo of a side.
func (s *Shape) interval(r, side int) (at, n int) {
	h := s.axes[s.div].Halo
	switch {
	case s.start[r] == s.start[r+1]:
		return 0, 0 // a rank without positions keeps no halo
	case side == 0:
		return s.start[r] - h, h
	}
	return s.start[r+1], h
}

// plan computes which strips this rank sends and expects.
func (x *haloExchange[T]) plan(wrap bool) {
	v, s, m := x.v, x.v.s, x.v.s.m
	of := func(side, q, r int) []strip {
		at, n := s.interval(q, side)
		return s.strips(r, at, n, 0, wrap)
	}
	for i := range x.sides {
		side := &x.sides[i]
		*side = haloSide{}
		x.ownStrip[i] = of(i, m.rank, m.rank)
		for k := range m.size - 1 {
			q := (m.rank + 1 + k) % m.size
			if list := of(i, q, m.rank); len(list) > 0 {
				side.pieces = append(side.pieces, piece{to: q})
				side.packed = append(side.packed, packer(v, list))
			}
			if list := of(i, m.rank, q); len(list) > 0 {
				buf, direct := place(v, list)
				side.wants = append(side.wants, want{from: q, buf: bytesOf(buf)})
				side.direct = append(side.direct, direct)
				side.strips = append(side.strips, list)
			}
		}
	}
}

// padded returns the box of n coordinates of the divided axis from the global coordinate at on,
// with the halos of the other axes.
func (s *Shape) padded(at, n int) box {
	b := s.slab(at, n)
	for i, a := range s.axes {
		if i != s.div {
			b.lo[i], b.n[i] = -a.Halo, s.local.n[i]+2*a.Halo
		}
	}
	return b
}

// packer returns a function that returns the bytes of strips, with the halos of the other axes.
func packer[T any](v *Var[T], list []strip) func() []byte {
	s := v.s
	if len(list) == 1 && s.div == 0 {
		b := bytesOf(v.thick(list[0].from, list[0].n))
		return func() []byte { return b }
	}
	n := 0
	for _, st := range list {
		n += st.n * s.room / (s.local.n[s.div] + 2*s.axes[s.div].Halo)
	}
	to := make([]T, n)
	return func() []byte {
		at := 0
		for _, st := range list {
			b := s.padded(st.from, st.n)
			s.rows(&b, false, func(r *row) { at += copy(to[at:], v.mem[r.off:r.off+r.n]) })
		}
		return bytesOf(to)
	}
}

// thick returns the memory of coordinates of the divided axis, which is axis 0.
func (v *Var[T]) thick(at, n int) []T {
	s := v.s
	from := (at - s.local.lo[0] + s.axes[0].Halo) * s.stride[0]
	return v.mem[from : from+n*s.stride[0]]
}

// place returns the memory in which the data of strips arrives: the halo itself if the data is
// one strip there.
func place[T any](v *Var[T], list []strip) (to []T, direct bool) {
	s := v.s
	if len(list) == 1 && s.div == 0 {
		return v.thick(list[0].at, list[0].n), true
	}
	n := 0
	for _, st := range list {
		n += st.n * s.room / (s.local.n[s.div] + 2*s.axes[s.div].Halo)
	}
	return make([]T, n), false
}

// fillWhole fills the halos of the axes that no rank divides.
func (x *haloExchange[T]) fillWhole() {
	if x.isFull {
		return
	}
	s := x.v.s
	b := s.all()
	for i, a := range s.axes {
		if i == s.div || a.Halo == 0 || s.count == 0 {
			continue
		}
		low, high := b, b
		low.lo[i], low.n[i] = -a.Halo, a.Halo
		high.lo[i], high.n[i] = a.Len, a.Halo
		switch {
		case a.Torus || x.border.kind == borderTorus:
			x.fillFrom(&low, a.Len*s.stride[i])
			x.fillFrom(&high, -a.Len*s.stride[i])
		case x.border.kind == borderValue:
			x.fillValue(&low)
			x.fillValue(&high)
		}
		b.lo[i], b.n[i] = -a.Halo, a.Len+2*a.Halo
	}
}

// fillFrom copies the elements at a distance in memory into a box.
func (x *haloExchange[T]) fillFrom(b *box, distance int) {
	x.v.s.rows(b, false, func(r *row) { copy(x.v.mem[r.off:r.off+r.n], x.v.mem[r.off+distance:]) })
}

func (x *haloExchange[T]) fillValue(b *box) {
	x.v.s.rows(b, false, func(r *row) { fillWith(x.v.mem[r.off:r.off+r.n], x.border.value) })
}

// fillOwn fills the parts of the halo of the divided axis that come from no other rank.
func (x *haloExchange[T]) fillOwn(wrap bool) {
	s := x.v.s
	if s.count == 0 || x.isFull {
		return
	}
	for i := range x.sides {
		for _, st := range x.ownStrip[i] {
			b := s.padded(st.at, st.n)
			x.fillFrom(&b, (st.from-st.at)*s.stride[s.div])
		}
		at, n := s.interval(s.m.rank, i)
		length := s.axes[s.div].Len
		if wrap || x.border.kind != borderValue {
			continue
		}
		if below := min(at+n, 0) - at; below > 0 {
			b := s.padded(at, below)
			x.fillValue(&b)
		}
		if from := max(at, length); at+n > from {
			b := s.padded(from, at+n-from)
			x.fillValue(&b)
		}
	}
}

// finish waits for the data and copies it to its destination.
func (x *haloExchange[T]) finish(ctx context.Context) error {
	m := x.v.s.m
	if !m.busy.CompareAndSwap(false, true) {
		return &RankError{m.rank, "Halo.Wait", ErrBusy}
	}
	x.flight = false
	what := describe(opHalo, noAxis, 0, 0)
	if err := m.unusable(&what); err != nil {
		m.busy.Store(false)
		return err
	}
	var err error
	for i := range x.sides {
		if err == nil && m.defect != mutate.ParallelHaloUnwaited {
			err = m.finish(ctx, x.sides[i].wants)
		}
	}
	if err == nil {
		err = m.flush(ctx, x.seq)
	}
	if err == nil {
		x.unpack()
		if x.v.version != x.version {
			err = fmt.Errorf("%w: the variable changed while the exchange was in flight", ErrStaleHalo)
		}
		x.v.fresh = x.version
	}
	if err != nil {
		err = m.fail(err)
	}
	m.busy.Store(false)
	return err
}

// unpack copies the data that did not arrive at its destination.
func (x *haloExchange[T]) unpack() {
	s := x.v.s
	for i := range x.sides {
		side := &x.sides[i]
		for k, list := range side.strips {
			if side.direct[k] {
				continue
			}
			from := elementsOf[T](side.wants[k].buf)
			for _, st := range list {
				b := s.padded(st.at, st.n)
				s.rows(&b, false, func(r *row) { from = from[copy(x.v.mem[r.off:r.off+r.n], from):] })
			}
		}
	}
}
