package parallel

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"sort"
	"strings"
)

const (
	// MaxAxes is the largest number of axes of a shape.
	MaxAxes = 8

	// MaxPositions is the largest number of positions of a shape, 2⁴⁸.
	MaxPositions = 1 << 48

	// mostBlocks is the largest number of blocks of a shape. The bits of every reduction depend on
	// it.
	mostBlocks = 1024
)

// Axis is one axis of a [Shape].
type Axis struct {
	// Len is the number of coordinates, 0 to Len−1. It is at least 1.
	Len int

	// Whole keeps the axis undivided. The machine divides the first axis that is not Whole among
	// its ranks. Each rank holds all coordinates of the other axes.
	Whole bool

	// Halo is the number of coordinates beyond each end that every rank keeps as a copy, for
	// [Stencil]. It is 0 to Len.
	Halo int

	// Torus joins the two ends of the axis.
	Torus bool
}

// String returns the axis, such as "1000 halo 1 torus".
func (a Axis) String() string {
	s := fmt.Sprint(a.Len)
	if a.Whole {
		s += " whole"
	}
	if a.Halo != 0 {
		s += fmt.Sprintf(" halo %d", a.Halo)
	}
	if a.Torus {
		s += " torus"
	}
	return s
}

// Box is a part of a shape: on axis i, the coordinates from Lo[i] to Lo[i]+Len[i]−1.
type Box struct {
	Lo, Len []int
}

// Shape is a set of positions on a machine. A shape has 1 to 8 axes. A position has one coordinate
// on each axis. The position with the coordinates i and j of a shape with Len 10 and 20 has the
// index i·20+j.
//
// One axis is divided: the first one that is not Whole. It is cut into up to 1024 blocks, which
// depend on its length alone. Each rank holds a contiguous sequence of blocks. The numbers of
// blocks of two ranks differ by at most one. If the axis has fewer coordinates than the machine
// has ranks, some ranks hold no position. Reductions and scans combine blocks in an order that
// does not depend on the ranks.
type Shape struct {
	m      *Machine
	axes   []Axis
	number uint32
	div    int   // the divided axis
	blocks int   // number of blocks
	first  []int // first block of each rank, and the number of blocks
	start  []int // first coordinate of each rank on the divided axis, and the length of the axis

	local  box          // the coordinates of this rank
	count  int          // number of positions of this rank
	stride [MaxAxes]int // step of an axis in the memory of a variable
	plain  [MaxAxes]int // step of an axis in the local box without halos
	global [MaxAxes]int // step of an axis in the index of a position
	origin int          // offset of the first position in the memory of a variable
	room   int          // elements of a variable with its halos
	total  int          // number of positions on all ranks
}

// A box is a Box of a fixed size. Its coordinates are those of the local box, unless stated
// otherwise.
type box struct {
	lo, n [MaxAxes]int
}

// NewShape returns a shape with the given axes. Every rank must give the same axes. If the axes
// differ, NewShape fails with [ErrMismatch] at every rank. It fails with [ErrBadArgument] if all
// axes are Whole, or if the shape has more than [MaxAxes] axes or [MaxPositions] positions.
func NewShape(ctx context.Context, m *Machine, axes ...Axis) (*Shape, error) {
	if err := m.begin(ctx, describeAxes(axes)); err != nil {
		return nil, err
	}
	m.shapes++
	s := &Shape{m: m, axes: slices.Clone(axes), number: m.shapes}
	err := s.check()
	if err == nil {
		s.layOut()
		err = m.gatherOnce(ctx)
	}
	if err = m.end(ctx, err); err != nil {
		return nil, err
	}
	return s, nil
}

// describeAxes returns the description of NewShape: a hash of the axes, and the beginning of
// their text.
func describeAxes(axes []Axis) description {
	texts := make([]string, len(axes))
	for i, a := range axes {
		texts[i] = a.String()
	}
	s := strings.Join(texts, " × ")
	h := fnv.New64a()
	h.Write([]byte(s))
	d := describe(opShape, noAxis, 0, 0)
	binary.LittleEndian.PutUint64(d[16:], h.Sum64())
	copy(d[24:], s)
	return d
}

func (s *Shape) check() error {
	if len(s.axes) == 0 || len(s.axes) > MaxAxes {
		return badArgument("a shape of %d axes; expected 1 to %d", len(s.axes), MaxAxes)
	}
	s.div, s.total = -1, 1
	for i, a := range s.axes {
		switch {
		case a.Len < 1:
			return badArgument("axis %d has length %d; expected at least 1", i, a.Len)
		case a.Len > MaxPositions/s.total:
			return badArgument("more than %d positions", int64(MaxPositions))
		case a.Halo < 0 || a.Halo > a.Len:
			return badArgument("axis %d has a halo of %d; expected 0 to its length %d", i, a.Halo, a.Len)
		}
		s.total *= a.Len
		if !a.Whole && s.div < 0 {
			s.div = i
		}
	}
	if s.div < 0 {
		return badArgument("all axes are Whole; expected one that the ranks can divide")
	}
	return nil
}

// layOut computes the blocks of each rank, and the layout of a variable in memory.
func (s *Shape) layOut() {
	length, ranks := s.axes[s.div].Len, s.m.size
	s.blocks = min(length, mostBlocks)
	for r := range ranks + 1 {
		s.first = append(s.first, s.blocks*r/ranks)
		s.start = append(s.start, s.coord(s.first[r]))
	}
	for i, a := range s.axes {
		s.local.n[i] = a.Len
	}
	s.local.lo[s.div] = s.start[s.m.rank]
	s.local.n[s.div] = s.start[s.m.rank+1] - s.start[s.m.rank]
	s.count, s.room = 1, 1
	whole := 1
	for i := len(s.axes) - 1; i >= 0; i-- {
		s.stride[i], s.plain[i], s.global[i] = s.room, s.count, whole
		s.origin += s.axes[i].Halo * s.room
		s.room *= s.local.n[i] + 2*s.axes[i].Halo
		s.count *= s.local.n[i]
		whole *= s.axes[i].Len
	}
	if s.count == 0 {
		s.room, s.origin = 0, 0
	}
}

// coord returns the first coordinate of a block on the divided axis.
func (s *Shape) coord(block int) int {
	length := s.axes[s.div].Len
	return length/s.blocks*block + length%s.blocks*block/s.blocks
}

// Machine returns the machine of the shape.
func (s *Shape) Machine() *Machine { return s.m }

// Axes returns the axes.
func (s *Shape) Axes() []Axis { return slices.Clone(s.axes) }

// Len returns the number of positions on all ranks.
func (s *Shape) Len() int { return s.total }

// Local returns the positions of this rank. If the rank holds none, one length is 0.
func (s *Shape) Local() Box {
	n := len(s.axes)
	return Box{slices.Clone(s.local.lo[:n]), slices.Clone(s.local.n[:n])}
}

// Owner returns the rank that holds a position, or −1 if the shape has no such position.
func (s *Shape) Owner(pos ...int) int {
	if len(pos) != len(s.axes) {
		return -1
	}
	for i, x := range pos {
		if x < 0 || x >= s.axes[i].Len {
			return -1
		}
	}
	return s.ownerOf(pos[s.div])
}

// ownerOf returns the rank that holds a coordinate of the divided axis.
func (s *Shape) ownerOf(x int) int {
	return sort.Search(s.m.size, func(r int) bool { return s.start[r+1] > x })
}

// Index returns the index of a position, or −1 if the shape has no such position.
func (s *Shape) Index(pos ...int) int {
	if s.Owner(pos...) < 0 {
		return -1
	}
	index := 0
	for i, x := range pos {
		index += x * s.global[i]
	}
	return index
}

// Reshape returns a shape with the same axes on another machine, such as the one that
// [Machine.Shrink] returned. Every rank of the other machine must call it.
func (s *Shape) Reshape(ctx context.Context, m *Machine) (*Shape, error) {
	return NewShape(ctx, m, s.axes...)
}

// String returns the number of the shape and its axes.
func (s *Shape) String() string {
	texts := make([]string, len(s.axes))
	for i, a := range s.axes {
		texts[i] = a.String()
	}
	return fmt.Sprintf("shape %d: %s", s.number, strings.Join(texts, " × "))
}

// checkAxis returns an error if the shape has no such axis.
func (s *Shape) checkAxis(axis int) error {
	if axis < 0 || axis >= len(s.axes) {
		return badArgument("axis %d; expected 0 to %d", axis, len(s.axes)-1)
	}
	return nil
}

// all returns the local box in its own coordinates.
func (s *Shape) all() box { return box{n: s.local.n} }

// block returns the box of a block of this rank.
func (s *Shape) block(b int) box {
	x := s.all()
	from, to := s.coord(b), s.coord(b+1)
	x.lo[s.div], x.n[s.div] = from-s.local.lo[s.div], to-from
	return x
}

// slab returns the part of the local box with n coordinates of the divided axis, from the global
// coordinate from on.
func (s *Shape) slab(from, n int) box {
	x := s.all()
	x.lo[s.div], x.n[s.div] = from-s.local.lo[s.div], n
	return x
}

// A row is a run of positions along the last axis.
type row struct {
	off int          // offset of the first position in the memory of a variable
	at  int          // the number of the first position in the local box
	n   int          // number of positions
	pos [MaxAxes]int // coordinates of the first position in the local box
}

// rows calls f for each row of a box, in the order of indices, or backward if back is true. If
// the box includes halos, the field at has no meaning.
func (s *Shape) rows(b *box, back bool, f func(r *row)) {
	last := len(s.axes) - 1
	lines := 1
	for i := range last {
		lines *= b.n[i]
	}
	if lines == 0 || b.n[last] == 0 {
		return
	}
	r := row{n: b.n[last], pos: b.lo}
	if back {
		for i := range last {
			r.pos[i] += b.n[i] - 1
		}
	}
	r.off, r.at = s.origin, 0
	for i := range last + 1 {
		r.off += r.pos[i] * s.stride[i]
		r.at += r.pos[i] * s.plain[i]
	}
	for {
		f(&r)
		if lines--; lines == 0 {
			return
		}
		if back {
			s.before(b, &r)
		} else {
			s.after(b, &r)
		}
	}
}

// after moves r to the next row of a box.
func (s *Shape) after(b *box, r *row) {
	for i := len(s.axes) - 2; i >= 0; i-- {
		r.pos[i]++
		r.off += s.stride[i]
		r.at += s.plain[i]
		if r.pos[i] < b.lo[i]+b.n[i] {
			return
		}
		r.pos[i] = b.lo[i]
		r.off -= b.n[i] * s.stride[i]
		r.at -= b.n[i] * s.plain[i]
	}
}

// before moves r to the previous row of a box.
func (s *Shape) before(b *box, r *row) {
	for i := len(s.axes) - 2; i >= 0; i-- {
		r.pos[i]--
		r.off -= s.stride[i]
		r.at -= s.plain[i]
		if r.pos[i] >= b.lo[i] {
			return
		}
		r.pos[i] = b.lo[i] + b.n[i] - 1
		r.off += b.n[i] * s.stride[i]
		r.at += b.n[i] * s.plain[i]
	}
}

// index returns the index of the first position of a row.
func (s *Shape) index(r *row) int {
	index := 0
	for i := range s.axes {
		index += (r.pos[i] + s.local.lo[i]) * s.global[i]
	}
	return index
}

// place returns the coordinate on the divided axis of the position with an index. If this rank
// holds the position, place also returns its offset in the memory of a variable.
func (s *Shape) place(index int) (x, off int) {
	off = s.origin
	for i := range s.axes {
		c := index / s.global[i]
		index -= c * s.global[i]
		if i == s.div {
			x = c
		}
		off += (c - s.local.lo[i]) * s.stride[i]
	}
	return x, off
}
