// Package tree computes the trees along which data of a collective operation travels down from
// the root, or up to it. There are two shapes.
//
// Binomial: ranks are counted from the root, and the parent of a member has the member's number
// without its lowest bit. No path is longer than log2 of the number of members. Members with the
// longest paths below them are served first.
//
//	0 ─┬─ 4 ─┬─ 6 ─── 7
//	   │     └─ 5
//	   ├─ 2 ─── 3
//	   └─ 1
//
// Torus: if the NICs of all members have a position on one torus (QNIX-52), the data travels
// first along the root's row, to one member in each column, and then along the columns. Rows and
// columns are rings. From its start the data travels both ways round, and each way is halved:
// the member in the middle gets the data first and serves the far half, while the near half is
// served further on. So no two transfers use the same link at the same time, and no way takes
// more steps than log2 of its length. Members at one position form a binomial tree below the
// first of them.
//
//	ring of 10, data at 0:   0 ─┬─► 3 ─┬─► 5         0 ─┬─► 7 ───► 6
//	                            │      └─► 4            ├─► 8
//	                            ├─► 2                   └─► 9
//	                            └─► 1
//
// Every member that knows all positions computes the same tree by itself.
package tree

import (
	"math/bits"
	"slices"

	"github.com/weftnet/weft/internal/wire"
)

// Branch is a member's place in the tree of a root.
type Branch struct {
	Parent   int   // rank; -1 for the root
	Children []int // ranks, in descending order of the number of members below
}

// OnTorus reports whether all positions are on the same torus.
func OnTorus(at []wire.Position) bool {
	return len(at) > 0 && !slices.ContainsFunc(at, func(p wire.Position) bool {
		return p.Width == 0 || p.Width != at[0].Width || p.Height != at[0].Height
	})
}

// Binomial returns the place of rank i, of n, in the tree of root.
func Binomial(i, root, n int) Branch {
	v := (i - root + n) % n
	b := Branch{Parent: -1}
	low := v & -v
	if v == 0 {
		low = 1 << bits.Len(uint(n-1))
	} else {
		b.Parent = (v&(v-1) + root) % n
	}
	for d := low >> 1; d > 0; d /= 2 {
		if v+d < n {
			b.Children = append(b.Children, (v+d+root)%n)
		}
	}
	return b
}

// Torus returns the place of a rank in the torus tree of root. at holds the positions by rank.
func Torus(at []wire.Position, rank, root int) Branch {
	t := torus{at, root, at[root]}
	here := at[rank]
	same := t.members(here)
	b := Binomial(slices.Index(same, rank), 0, len(same))
	for i := range b.Children {
		b.Children[i] = same[b.Children[i]]
	}
	if b.Parent >= 0 {
		b.Parent = same[b.Parent]
		return b
	}
	var rows, columns []int
	head := t.head(here.X)
	if here == head {
		up, down := ring(int(here.Width), int(t.home.X), int(here.X), t.columns())
		if up >= 0 {
			b.Parent = t.members(t.head(uint16(up)))[0]
		}
		for _, x := range down {
			rows = append(rows, t.members(t.head(uint16(x)))[0])
		}
	}
	up, down := ring(int(here.Height), int(head.Y), int(here.Y), t.column(here.X))
	if up >= 0 {
		here.Y = uint16(up)
		b.Parent = t.members(here)[0]
	}
	for _, y := range down {
		here.Y = uint16(y)
		columns = append(columns, t.members(here)[0])
	}
	b.Children = slices.Concat(rows, columns, b.Children)
	return b
}

// torus holds the inputs of one torus tree.
type torus struct {
	at   []wire.Position // by rank
	root int
	home wire.Position // of the root
}

// members returns the ranks at a position. The data arrives at the first of them.
func (t *torus) members(at wire.Position) (ranks []int) {
	if at == t.home {
		ranks = append(ranks, t.root)
	}
	for i, p := range t.at {
		if p == at && i != t.root {
			ranks = append(ranks, i)
		}
	}
	return ranks
}

// columns returns the columns with a member, in any order and perhaps repeatedly, as column
// does.
func (t *torus) columns() (xs []int) {
	for _, p := range t.at {
		xs = append(xs, int(p.X))
	}
	return xs
}

// column returns the rows of the members in a column.
func (t *torus) column(x uint16) (ys []int) {
	for _, p := range t.at {
		if p.X == x {
			ys = append(ys, int(p.Y))
		}
	}
	return ys
}

// head returns the position in a column that is nearest to the root's row. Between two equally
// near ones it prefers the one ahead. The data enters the column there.
func (t *torus) head(x uint16) wire.Position {
	h := int(t.home.Height)
	best, least := t.home, 2*h
	for _, y := range t.column(x) {
		ahead := (y - int(t.home.Y) + h) % h
		if d := min(2*ahead, 2*(h-ahead)+1); d < least {
			best.X, best.Y, least = x, uint16(y), d
		}
	}
	return best
}

// ring returns the place of self in the tree over some points of a ring. The data starts at
// from, where up is -1. ring sorts the points.
func ring(size, from, self int, points []int) (up int, down []int) {
	away := func(p int) int { return (p - from + size) % size }
	slices.SortFunc(points, func(p, q int) int { return away(p) - away(q) })
	points = slices.DeleteFunc(slices.Compact(points), func(p int) bool { return p == from })
	k, _ := slices.BinarySearchFunc(points, size/2+1, func(p, d int) int { return away(p) - d })
	arms := [2][]int{points[:k], points[k:]}
	slices.Reverse(arms[1]) // in the other direction
	up = -1
	for _, arm := range arms {
		i := slices.Index(arm, self)
		if i < 0 && self != from {
			continue
		}
		parent, children := halve(len(arm), i)
		switch {
		case parent >= 0:
			up = arm[parent]
		case i >= 0:
			up = from
		}
		for _, c := range children {
			down = append(down, arm[c])
		}
	}
	return up, down
}

// halve returns the parent and the children of node i in a binary-halving tree over 0…n-1. The
// root is -1, before the first node. Each node serves the node in the middle of its remaining
// range, which then serves the part behind it.
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

// Parents returns the parents of all n ranks in the tree of root, -1 for the root itself. at
// holds the positions by rank. If they are not all on one torus, the tree is binomial.
func Parents(at []wire.Position, root, n int) []int {
	all := make([]int, n)
	for i := range n {
		if OnTorus(at) {
			all[i] = Torus(at, i, root).Parent
		} else {
			all[i] = Binomial(i, root, n).Parent
		}
	}
	return all
}
