package parallel

// Rows calls f for each run of active positions of this rank, in the order of indices. A run is
// contiguous in memory, along the last axis, so f can loop over it like over any slice. The
// argument pos holds the coordinates of the first element of the run. The function f may change
// the elements. It must not keep pos or run.
//
// Rows does not communicate. If v has another shape than c, it does nothing, and the next operation
// of the machine fails with [ErrBadArgument]. So do Rows2, Rows3, Map, Map2 and Pcoord.
func Rows[T any](c *Ctx, v *Var[T], f func(pos []int, run []T)) {
	if !c.fits("Rows", &v.varInfo) {
		return
	}
	v.version++
	c.eachRun(func(pos []int, from, to int) { f(pos, v.mem[from:to:to]) })
}

// Rows2 is [Rows] for two variables of the same shape.
func Rows2[T, U any](c *Ctx, v *Var[T], w *Var[U], f func(pos []int, v []T, w []U)) {
	if !c.fits("Rows2", &v.varInfo, &w.varInfo) {
		return
	}
	v.version++
	w.version++
	c.eachRun(func(pos []int, from, to int) { f(pos, v.mem[from:to:to], w.mem[from:to:to]) })
}

// Rows3 is [Rows] for three variables of the same shape.
func Rows3[T, U, V any](c *Ctx, v *Var[T], w *Var[U], x *Var[V], f func(pos []int, v []T, w []U, x []V)) {
	if !c.fits("Rows3", &v.varInfo, &w.varInfo, &x.varInfo) {
		return
	}
	v.version++
	w.version++
	x.version++
	c.eachRun(func(pos []int, from, to int) { f(pos, v.mem[from:to:to], w.mem[from:to:to], x.mem[from:to:to]) })
}

// eachRun calls f for each run of active positions.
func (c *Ctx) eachRun(f func(pos []int, from, to int)) {
	s := c.s
	all, pos := s.all(), make([]int, len(s.axes))
	c.spans(&all, false, func(r *row) {
		for i := range pos {
			pos[i] = r.pos[i] + s.local.lo[i]
		}
		f(pos, r.off, r.off+r.n)
	})
}

// Map sets each active element of dst to f of the element of src at the same position. A loop in
// [Rows2] is faster, because it does not call a function for each element. The variables may be the
// same.
func Map[T, U any](c *Ctx, dst *Var[U], src *Var[T], f func(x T) U) {
	if !c.fits("Map", &dst.varInfo, &src.varInfo) {
		return
	}
	dst.version++
	all := c.s.all()
	c.spans(&all, false, func(r *row) {
		d, x := dst.mem[r.off:r.off+r.n], src.mem[r.off:r.off+r.n]
		for i := range d {
			d[i] = f(x[i])
		}
	})
}

// Map2 is [Map] with two sources.
func Map2[T, U, V any](c *Ctx, dst *Var[V], a *Var[T], b *Var[U], f func(a T, b U) V) {
	if !c.fits("Map2", &dst.varInfo, &a.varInfo, &b.varInfo) {
		return
	}
	dst.version++
	all := c.s.all()
	c.spans(&all, false, func(r *row) {
		d, x, y := dst.mem[r.off:r.off+r.n], a.mem[r.off:r.off+r.n], b.mem[r.off:r.off+r.n]
		for i := range d {
			d[i] = f(x[i], y[i])
		}
	})
}

// Pcoord sets each active element of dst to its own coordinate on an axis.
func Pcoord(c *Ctx, dst *Var[int], axis int) {
	if !c.fits("Pcoord", &dst.varInfo) {
		return
	}
	if err := c.s.checkAxis(axis); err != nil {
		c.s.m.broken = &RankError{c.s.m.rank, "Pcoord", err}
		return
	}
	dst.version++
	s, last := c.s, len(c.s.axes)-1
	all := s.all()
	c.spans(&all, false, func(r *row) {
		d, x, step := dst.mem[r.off:r.off+r.n], r.pos[axis]+s.local.lo[axis], 0
		if axis == last {
			step = 1
		}
		for i := range d {
			d[i] = x
			x += step
		}
	})
}
