package nic

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
)

// Data of a collective operation goes down a tree from the root, or up to it. Its shape is one of two.
//
// Binomial: ranks are counted from the root, and a member's parent has its number without the lowest bit. No way is longer
// than log2 of the members, and the members with the longest ways below them are served first.
//
//	0 ─┬─ 4 ─┬─ 6 ─── 7
//	   │     └─ 5
//	   ├─ 2 ─── 3
//	   └─ 1
//
// Torus: if the NICs of all members have a position on one torus (QNIX-52), the data goes along the root's row first, to
// one member in each column, and then along the columns. Both are rings: from where the data is it goes both ways round,
// and each way is halved. Whoever is in the middle of a way gets it first and serves the far half, while the near half is
// served on: so no two of them use the same link at the same time, and no way has more than log2 of its length in steps.
// Members at one position are a binomial tree below the first of them.
//
//	ring of 10, data at 0:   0 ─┬─► 3 ─┬─► 5         0 ─┬─► 7 ───► 6
//	                            │      └─► 4            ├─► 8
//	                            ├─► 2                   └─► 9
//	                            └─► 1
//
// Every member finds the same tree by itself, since the positions are part of the seats that operation 0 compares.

// Position is where a NIC is on a torus of Width by Height. A Width of 0 means that it has no position.
type Position struct{ X, Y, Width, Height uint16 }

// Valid reports whether p is a position on its torus, or none at all.
func (p Position) Valid() bool {
	if p.Width == 0 {
		return p == Position{}
	}
	return p.X < p.Width && p.Y < p.Height
}

func (p Position) String() string {
	if p.Width == 0 {
		return "none"
	}
	return fmt.Sprintf("%d,%d", p.X, p.Y)
}

// branch is a member's place in the tree of a root.
type branch struct {
	parent   int   // rank; -1 at the root
	children []int // ranks, those with the most below them first
}

// Parents are the parents of all ranks in the tree of a root, as the members of a group of this NIC find them: -1 at the
// root. positions has those of the members' NICs by rank; without it the tree is binomial.
func Parents(positions []Position, root, n int) []int {
	seats := make([]seat, len(positions))
	for i := range seats {
		seats[i].at = positions[i]
	}
	all := make([]int, n)
	for i := range n {
		if onTorus(seats) {
			all[i] = torusBranch(seats, i, root).parent
		} else {
			all[i] = binomial(i, root, n).parent
		}
	}
	return all
}

// Above is the parent of this NIC's member of a group in the tree of a root, by which its data goes; ok is false if this
// NIC has no member there. For simulations, which count how deep trees are.
func (e *Engine) Above(group vni.Name, root int) (parent int, ok bool) {
	if g := e.groups.byKey[group]; g != nil && g.complete && len(g.local) > 0 && root < len(g.seats) {
		return e.branch(g.local[0], root).parent, true
	}
	return 0, false
}

// branch finds the place of m in the tree of a root. Those used last are kept, since finding one takes a while and memory.
func (e *Engine) branch(m *member, root int) *branch {
	if b := m.branches[root]; b != nil {
		return b
	}
	if m.branches == nil || len(m.branches) >= limits.TreesKept {
		m.branches = make(map[int]*branch)
	}
	g := m.g
	var b branch
	if g.torus && !(e.cfg.Defect == mutate.TorusForgotten && e.cfg.ID%3 == 0) {
		b = torusBranch(g.seats, m.rank, root)
	} else {
		b = binomial(m.rank, root, len(g.seats))
	}
	m.branches[root] = &b
	return &b
}

// onTorus reports whether all seats have a position on the same torus.
func onTorus(seats []seat) bool {
	return len(seats) > 0 && !slices.ContainsFunc(seats, func(s seat) bool {
		first := seats[0].at
		return s.at.Width == 0 || s.at.Width != first.Width || s.at.Height != first.Height
	})
}

// binomial is the place of the i-th of n in the tree of the root-th.
func binomial(i, root, n int) branch {
	v := (i - root + n) % n
	b := branch{parent: -1}
	low := v & -v
	if v == 0 {
		low = 1 << bits.Len(uint(n-1))
	} else {
		b.parent = (v&(v-1) + root) % n
	}
	for d := low >> 1; d > 0; d /= 2 {
		if v+d < n {
			b.children = append(b.children, (v+d+root)%n)
		}
	}
	return b
}

// torusBranch is the place of the member with a rank in the torus tree of a root.
func torusBranch(seats []seat, rank, root int) branch {
	t := torus{seats, root, seats[root].at}
	here := seats[rank].at
	same := t.members(here)
	b := binomial(slices.Index(same, rank), 0, len(same))
	for i := range b.children {
		b.children[i] = same[b.children[i]]
	}
	if b.parent >= 0 {
		b.parent = same[b.parent]
		return b
	}
	var rows, columns []int
	head := t.head(here.X)
	if here == head {
		up, down := ring(int(here.Width), int(t.home.X), int(here.X), t.columns())
		if up >= 0 {
			b.parent = t.members(t.head(uint16(up)))[0]
		}
		for _, x := range down {
			rows = append(rows, t.members(t.head(uint16(x)))[0])
		}
	}
	up, down := ring(int(here.Height), int(head.Y), int(here.Y), t.column(here.X))
	if up >= 0 {
		here.Y = uint16(up)
		b.parent = t.members(here)[0]
	}
	for _, y := range down {
		here.Y = uint16(y)
		columns = append(columns, t.members(here)[0])
	}
	b.children = slices.Concat(rows, columns, b.children)
	return b
}

// torus is what one torus tree is made from.
type torus struct {
	seats []seat
	root  int
	home  Position // of the root
}

// members are the ranks at a position, the first being the one that the data comes to.
func (t *torus) members(at Position) (ranks []int) {
	if at == t.home {
		ranks = append(ranks, t.root)
	}
	for i := range t.seats {
		if t.seats[i].at == at && i != t.root {
			ranks = append(ranks, i)
		}
	}
	return ranks
}

// columns are those with a member, in any order and perhaps more than once, like column.
func (t *torus) columns() (xs []int) {
	for i := range t.seats {
		xs = append(xs, int(t.seats[i].at.X))
	}
	return xs
}

// column has the rows of a column's members.
func (t *torus) column(x uint16) (ys []int) {
	for i := range t.seats {
		if at := t.seats[i].at; at.X == x {
			ys = append(ys, int(at.Y))
		}
	}
	return ys
}

// head is the position in a column that is nearest to the root's row: the data enters the column there.
func (t *torus) head(x uint16) Position {
	h := int(t.home.Height)
	best, least := t.home, 2*h
	for _, y := range t.column(x) {
		ahead := (y - int(t.home.Y) + h) % h
		if d := 2*min(ahead, h-ahead) + b2i(ahead > h/2); d < least {
			best, least = Position{x, uint16(y), t.home.Width, t.home.Height}, d
		}
	}
	return best
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ring is the place of self, one of some points on a ring of a size, in the tree of the point where the data is. Up is -1
// there.
func ring(size, from, self int, points []int) (up int, down []int) {
	var arms [2][]int // distances from there, one way and the other
	for _, p := range points {
		if d := (p - from + size) % size; d > size/2 {
			arms[1] = append(arms[1], size-d)
		} else if d > 0 {
			arms[0] = append(arms[0], d)
		}
	}
	up = -1
	own := (self - from + size) % size
	for k, arm := range arms {
		slices.Sort(arm)
		arm = slices.Compact(arm)
		point := func(i int) int {
			d := 0
			if i >= 0 {
				d = arm[i]
			}
			if k == 1 {
				d = size - d
			}
			return (from + d) % size
		}
		i := -1
		switch {
		case own == 0:
		case k == 0 && own <= size/2:
			i = slices.Index(arm, own)
		case k == 1 && own > size/2:
			i = slices.Index(arm, size-own)
		default:
			continue
		}
		parent, children := halve(len(arm), i)
		if i >= 0 {
			up = point(parent)
		}
		for _, c := range children {
			down = append(down, point(c))
		}
	}
	return up, down
}

// halve is the place of the i-th of n on a way, in the tree of who stands before the first, -1: each serves the one in the
// middle of what is left to it, who serves what is behind.
func halve(n, i int) (parent int, children []int) {
	owner, low, high := -1, 0, n
	parent = -1
	for owner != i {
		switch middle := (low + high) / 2; {
		case i < middle:
			high = middle
		default:
			parent, owner, low = owner, middle, middle+1
		}
	}
	for low < high {
		middle := (low + high) / 2
		children = append(children, middle)
		high = middle
	}
	return parent, children
}
