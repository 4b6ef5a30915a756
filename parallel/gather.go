package parallel

// Gather copies all elements of v, in the order of indices, into the slice all at the rank root. At
// the root, the length of all is the number of positions of the shape. The other ranks ignore all.
func Gather[T any](c *Ctx, v *Var[T], root int, all []T) error {
	return moveAll(c, v, root, all, opGather)
}

// Scatter sets every element of v, active or not, from the slice all at the rank root. At the root,
// all holds one element for each position of the shape, in the order of indices. The other ranks
// ignore all.
func Scatter[T any](c *Ctx, v *Var[T], root int, all []T) error {
	return moveAll(c, v, root, all, opScatter)
}

func moveAll[T any](c *Ctx, v *Var[T], root int, all []T, code byte) error {
	return c.collective(describe(code, noAxis, 0, int64(root)).of(&v.varInfo), func() error {
		s, m := c.s, c.s.m
		if err := c.check(&v.varInfo); err != nil {
			return err
		}
		switch {
		case root < 0 || root >= m.size:
			return badArgument("root %d; expected 0 to %d", root, m.size-1)
		case root == m.rank && len(all) != s.total:
			return badArgument("a slice of %d elements; expected %d", len(all), s.total)
		case code == opGather:
			return gatherAll(c, v, root, all)
		}
		return scatterAll(c, v, root, all)
	})
}

// own returns the elements of this rank in the order of indices. If they lie in memory in this
// order, own returns that memory.
func own[T any](v *Var[T]) []T {
	if v.s.count == 0 {
		return nil
	}
	return pack(v, []strip{{from: v.s.local.lo[v.s.div], n: v.s.local.n[v.s.div]}})
}

func gatherAll[T any](c *Ctx, v *Var[T], root int, all []T) error {
	m := c.s.m
	mine := own(v)
	if m.rank != root {
		var pieces []piece
		if len(mine) > 0 {
			pieces = []piece{{to: root, data: bytesOf(mine)}}
		}
		return m.exchange(c.ctx, pieces, nil)
	}
	parts, wants := make([][]T, m.size), make([]want, 0, m.size)
	for r := range m.size {
		n := c.s.held(r)
		if n == 0 || r == m.rank {
			continue
		}
		if parts[r] = make([]T, n); c.s.div == 0 {
			parts[r] = all[c.s.start[r]*c.s.global[0]:][:n]
		}
		wants = append(wants, want{from: r, buf: bytesOf(parts[r])})
	}
	if err := m.exchange(c.ctx, nil, wants); err != nil {
		return err
	}
	parts[root] = mine
	for r, part := range parts {
		if c.s.div == 0 && r != root {
			continue
		}
		b := c.s.part(r)
		b.indices(c.s, func(index, n int) { part = part[copy(all[index:index+n], part):] })
	}
	return nil
}

func scatterAll[T any](c *Ctx, v *Var[T], root int, all []T) error {
	s, m := c.s, c.s.m
	v.version++
	var pieces []piece
	mine := make([]T, s.count)
	if m.rank == root {
		for i := range m.size {
			r := (root + i) % m.size
			b := s.part(r)
			part := mine
			if r != root {
				part = make([]T, b.count(s))
				if len(part) == 0 {
					continue
				}
				pieces = append(pieces, piece{to: r, data: bytesOf(part)})
			}
			b.indices(s, func(index, n int) { part = part[copy(part, all[index:index+n]):] })
		}
	}
	var wants []want
	if m.rank != root && s.count > 0 {
		wants = []want{{from: root, buf: bytesOf(mine)}}
	}
	if err := m.exchange(c.ctx, pieces, wants); err != nil {
		return err
	}
	b := s.all()
	s.rows(&b, false, func(r *row) { mine = mine[copy(v.mem[r.off:r.off+r.n], mine):] })
	return nil
}

// part returns the box of a rank in the coordinates of the shape.
func (s *Shape) part(rank int) box {
	b := s.all()
	b.lo[s.div], b.n[s.div] = s.start[rank], s.start[rank+1]-s.start[rank]
	return b
}

// count returns the number of positions of a box.
func (b *box) count(s *Shape) int {
	n := 1
	for i := range s.axes {
		n *= b.n[i]
	}
	return n
}

// held returns the number of positions of a rank.
func (s *Shape) held(rank int) int {
	b := s.part(rank)
	return b.count(s)
}

// indices calls f for each row of a box in the coordinates of the shape, with the index of its
// first position.
func (b *box) indices(s *Shape, f func(index, n int)) {
	s.rows(b, false, func(r *row) {
		index := 0
		for i := range s.axes {
			index += r.pos[i] * s.global[i]
		}
		f(index, r.n)
	})
}
