package tree

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/wire"
)

// mostChildren is the largest number of children of a member: on a torus those on both ways of a
// row, those on both ways of a column, and those at one position. With 4,096 members, each of
// these is at most 12.
const mostChildren = 64

// checkTree combines the places that all members compute for themselves. Together they must be
// one tree.
func checkTree(t *testing.T, place func(rank int) Branch, root, n int) (deepest int) {
	t.Helper()
	up := make([]int, n)
	for rank := range n {
		b := place(rank)
		up[rank] = b.Parent
		if (b.Parent < 0) != (rank == root) || len(b.Children) > mostChildren {
			t.Fatalf("rank %d of %d, root %d: parent %d, %d children", rank, n, root, b.Parent, len(b.Children))
		}
		if b.Parent >= 0 && !slices.Contains(place(b.Parent).Children, rank) {
			t.Fatalf("rank %d of %d, root %d: its parent %d has the children %v", rank, n, root, b.Parent, place(b.Parent).Children)
		}
		for _, c := range b.Children {
			if place(c).Parent != rank {
				t.Fatalf("rank %d of %d, root %d: its child %d has the parent %d", rank, n, root, c, place(c).Parent)
			}
		}
	}
	for rank := range n {
		depth := 0
		for r := rank; r != root; r = up[r] {
			if depth++; depth > n {
				t.Fatalf("rank %d of %d never comes to the root %d", rank, n, root)
			}
		}
		deepest = max(deepest, depth)
	}
	return deepest
}

func TestABinomialTreeIsAsDeepAsTheLogarithm(t *testing.T) {
	for n := 1; n < 70; n++ {
		for root := range n {
			if d := checkTree(t, func(i int) Branch { return Binomial(i, root, n) }, root, n); d > bits.Len(uint(n-1)) {
				t.Errorf("%d members, root %d: %d deep", n, root, d)
			}
		}
	}
}

func TestATorusTreeGoesAlongTheRowAndThenTheColumns(t *testing.T) { // QNIX-52
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		size := wire.Position{Width: uint16(1 + rng.IntN(9)), Height: uint16(1 + rng.IntN(9))}
		seats := make([]wire.Position, 1+rng.IntN(50))
		here := map[wire.Position]int{}
		most := 0
		for i := range seats {
			p := size
			p.X, p.Y = uint16(rng.IntN(int(size.Width))), uint16(rng.IntN(int(size.Height)))
			seats[i] = p
			here[p]++
			most = max(most, here[p])
		}
		root := rng.IntN(len(seats))
		bound := bits.Len(uint(size.Width/2)) + bits.Len(uint(size.Height/2)) + bits.Len(uint(most-1))
		place := func(rank int) Branch { return Torus(seats, rank, root) }
		if d := checkTree(t, place, root, len(seats)); d > bound {
			t.Errorf("%d members on %d by %d: %d deep; expected at most %d", len(seats), size.Width, size.Height, d, bound)
		}
		inRow := func(x uint16) int {
			return here[wire.Position{X: x, Y: seats[root].Y, Width: size.Width, Height: size.Height}]
		}
		for rank := range seats {
			b := place(rank)
			if b.Parent < 0 {
				continue
			}
			from, to := seats[b.Parent], seats[rank]
			if from.X != to.X && from.Y != to.Y && inRow(from.X)*inRow(to.X) > 0 {
				t.Fatalf("from %v to %v though both columns have members in the root's row", from, to)
			}
		}
	}
}

func TestARingIsServedBothWaysRoundByHalves(t *testing.T) {
	points := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	for _, c := range []struct {
		self, up int
		down     []int
	}{{0, -1, []int{3, 2, 1, 7, 8, 9}}, {3, 0, []int{5, 4}}, {5, 3, nil}, {7, 0, []int{6}}, {9, 0, nil}} {
		if up, down := ring(10, 0, c.self, points); up != c.up || !slices.Equal(down, c.down) {
			t.Errorf("point %d: up %d, down %v; expected %d and %v", c.self, up, down, c.up, c.down)
		}
	}
}
