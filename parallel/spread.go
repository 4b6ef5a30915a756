package parallel

// Spread sets each active element of dst to the element of src that lies on the same line along
// an axis and has the coordinate at. The variables must differ. The position of that element need
// not be active.
func Spread[T any](c *Ctx, dst, src *Var[T], axis, at int) error {
	what := describe(opSpread, axis, 0, int64(at)).of(&src.varInfo)
	return c.collective(what, func() error {
		err := firstError(c.check(&dst.varInfo, &src.varInfo), c.s.checkAxis(axis), differ(dst, src))
		if err != nil {
			return err
		}
		s, m := c.s, c.s.m
		if at < 0 || at >= s.axes[axis].Len {
			return badArgument("coordinate %d of axis %d; expected 0 to %d", at, axis, s.axes[axis].Len-1)
		}
		dst.version++
		l := newLines(s, axis)
		values := make([]T, l.count)
		owner := m.rank
		if axis == s.div {
			owner = s.ownerOf(at)
		}
		if owner == m.rank {
			b := s.all()
			b.lo[axis], b.n[axis] = at-s.local.lo[axis], 1
			s.rows(&b, false, func(r *row) { copy(values[l.of(r):], src.mem[r.off:r.off+r.n]) })
		}
		if axis == s.div {
			if err := broadcast(c, owner, bytesOf(values)); err != nil {
				return err
			}
		}
		spreadLines(l, c, dst, values)
		return nil
	})
}

// broadcast copies the bytes of the root to all ranks.
func broadcast(c *Ctx, root int, b []byte) error {
	m := c.s.m
	if m.rank != root {
		return m.exchange(c.ctx, nil, []want{{from: root, buf: b}})
	}
	pieces := make([]piece, 0, m.size)
	for i := range m.size - 1 {
		pieces = append(pieces, piece{to: (root + 1 + i) % m.size, data: b})
	}
	return m.exchange(c.ctx, pieces, nil)
}
