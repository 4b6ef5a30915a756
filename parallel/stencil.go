package parallel

import "fmt"

// Window is a run of positions in a [Stencil], with the elements around it.
type Window[T any] struct {
	// Pos holds the coordinates of the first position of the run.
	Pos []int

	v      *Var[T]
	off, n int
}

// Len returns the number of positions of the run.
func (w *Window[T]) Len() int { return w.n }

// Row returns the elements at a distance from the run. On each axis, element i of the slice lies
// the given number of coordinates from position i of the run. Without arguments, Row returns the
// run itself. The program must not change the elements. If a distance is greater than the halo of
// its axis, the Stencil fails with [ErrBadArgument].
func (w *Window[T]) Row(distance ...int) []T {
	off, s := w.off, w.v.s
	if len(distance) != 0 && len(distance) != len(s.axes) {
		w.wrongRow(distance)
	}
	for i, d := range distance {
		if h := s.axes[i].Halo; d > h || d < -h {
			w.wrongRow(distance)
		}
		off += d * s.stride[i&(MaxAxes-1)]
	}
	return w.v.mem[off : off+w.n : off+w.n]
}

// wrongRow makes the Stencil fail because of the arguments of Row.
func (w *Window[T]) wrongRow(distance []int) {
	axes := w.v.s.axes
	if len(distance) != len(axes) {
		panic(stencilFault{badArgument("%d distances; expected one for each of %d axes", len(distance), len(axes))})
	}
	for i, d := range distance {
		if h := axes[i].Halo; d > h || d < -h {
			panic(stencilFault{badArgument("a distance of %d on axis %d; expected at most its halo of %d", d, i, h)})
		}
	}
}

// Beside returns the window of another variable at the same run. The variable must have the same
// axes, and its halo must be fresh: after the last change of the variable, an exchange by
// [StartHalo] has completed. If not, the Stencil fails with [ErrStaleHalo].
func Beside[T, U any](at *Window[T], v *Var[U]) Window[U] {
	switch {
	case v.s != at.v.s:
		panic(stencilFault{badArgument("a variable has %v; expected %v", v.s, at.v.s)})
	case v.fresh != v.version:
		panic(stencilFault{fmt.Errorf("%w: the variable beside has changed since its last exchange", ErrStaleHalo)})
	}
	return Window[U]{Pos: at.Pos, v: v, off: at.off, n: at.n}
}

// stencilFault is the value with which a Window panics. Stencil and Around return its error.
type stencilFault struct{ err error }

// Stencil calls f for each run of active positions of this rank, with the elements of src at the
// run and around it. The function f computes the elements of dst at the run, and writes them to
// out. Stencil exchanges the halos of src. While the halos are in flight, it calls f for the
// positions that need no halo. So the runs do not come in the order of indices. The variables
// must differ, and f must not keep its arguments.
//
// The shape needs a halo as wide as the distances that f gives to [Window.Row]. The border gives
// the elements beyond the ends of the axes. Errors of the exchange name the operation StartHalo.
func Stencil[T, U any](
	c *Ctx, dst *Var[U], src *Var[T], border Border[T], f func(at *Window[T], out []U),
) error {
	if err := stencilArguments(c, dst, src); err != nil {
		return c.s.m.failAs("Stencil", err)
	}
	h, err := StartHalo(c, src, border)
	if err != nil {
		return err
	}
	inner, edges := c.s.inside()
	err = windows(c, dst, src, f, inner)
	if done := h.Wait(); done != nil {
		return done
	}
	if err == nil {
		err = windows(c, dst, src, f, edges...)
	}
	if err != nil {
		return c.s.m.failAs("Stencil", err)
	}
	return nil
}

// Around is [Stencil] without the exchange of halos: it does not communicate. It fails with
// [ErrStaleHalo] if src has changed since its last exchange by [StartHalo] or [Stencil]. The runs
// come in the order of indices.
func Around[T, U any](c *Ctx, dst *Var[U], src *Var[T], f func(at *Window[T], out []U)) error {
	err := stencilArguments(c, dst, src)
	if err == nil && src.fresh != src.version {
		err = fmt.Errorf("%w: src has changed since its last exchange", ErrStaleHalo)
	}
	if err == nil {
		err = windows(c, dst, src, f, c.s.all())
	}
	if err != nil {
		return c.s.m.failAs("Around", err)
	}
	return nil
}

func stencilArguments[T, U any](c *Ctx, dst *Var[U], src *Var[T]) error {
	if any(dst) == any(src) {
		return badArgument("dst is src; expected two variables")
	}
	return c.check(&dst.varInfo, &src.varInfo)
}

// inside divides the local box into the positions whose surroundings this rank holds, and the
// other positions.
func (s *Shape) inside() (inner box, edges []box) {
	h, n := s.axes[s.div].Halo, s.local.n[s.div]
	at := s.local.lo[s.div]
	if n <= 2*h {
		return box{}, []box{s.all()}
	}
	inner = s.slab(at+h, n-2*h)
	if h > 0 {
		edges = []box{s.slab(at, h), s.slab(at+n-h, h)}
	}
	return inner, edges
}

// windows calls f for the runs of active positions in boxes. It returns the error with which a
// window panicked.
func windows[T, U any](
	c *Ctx, dst *Var[U], src *Var[T], f func(at *Window[T], out []U), boxes ...box,
) (err error) {
	defer func() {
		if p := recover(); p != nil {
			fault, ok := p.(stencilFault)
			if !ok {
				panic(p)
			}
			err = fault.err
		}
	}()
	s := c.s
	dst.version++
	w := Window[T]{v: src, Pos: make([]int, len(s.axes))}
	call := func(r *row) {
		for i := range w.Pos {
			w.Pos[i] = r.pos[i] + s.local.lo[i]
		}
		w.off, w.n = r.off, r.n
		f(&w, dst.mem[r.off:r.off+r.n:r.off+r.n])
	}
	for i := range boxes {
		c.spans(&boxes[i], false, call)
	}
	return nil
}
