package nic

import (
	"bytes"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// checkTree looks at the places that all members find for themselves: together they must be one tree.
func checkTree(t *testing.T, place func(rank int) branch, root, n int) (deepest int) {
	t.Helper()
	up := make([]int, n)
	for rank := range n {
		b := place(rank)
		up[rank] = b.parent
		if (b.parent < 0) != (rank == root) || len(b.children) > mostChildren {
			t.Fatalf("rank %d of %d, root %d: parent %d, %d children", rank, n, root, b.parent, len(b.children))
		}
		if b.parent >= 0 && !slices.Contains(place(b.parent).children, rank) {
			t.Fatalf("rank %d of %d, root %d: its parent %d has the children %v", rank, n, root, b.parent, place(b.parent).children)
		}
		for _, c := range b.children {
			if place(c).parent != rank {
				t.Fatalf("rank %d of %d, root %d: its child %d has the parent %d", rank, n, root, c, place(c).parent)
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
			if d := checkTree(t, func(i int) branch { return binomial(i, root, n) }, root, n); d > bits.Len(uint(n-1)) {
				t.Errorf("%d members, root %d: %d deep", n, root, d)
			}
		}
	}
}

func TestATorusTreeGoesAlongTheRowAndThenTheColumns(t *testing.T) { // QNIX-52
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		size := Position{Width: uint16(1 + rng.IntN(9)), Height: uint16(1 + rng.IntN(9))}
		seats := make([]seat, 1+rng.IntN(50))
		here := map[Position]int{}
		most := 0
		for i := range seats {
			p := size
			p.X, p.Y = uint16(rng.IntN(int(size.Width))), uint16(rng.IntN(int(size.Height)))
			seats[i].at = p
			here[p]++
			most = max(most, here[p])
		}
		root := rng.IntN(len(seats))
		bound := bits.Len(uint(size.Width/2)) + bits.Len(uint(size.Height/2)) + bits.Len(uint(most-1))
		place := func(rank int) branch { return torusBranch(seats, rank, root) }
		if d := checkTree(t, place, root, len(seats)); d > bound {
			t.Errorf("%d members on %d by %d: %d deep; expected at most %d", len(seats), size.Width, size.Height, d, bound)
		}
		row := seats[root].at.Y
		for rank := range seats {
			b := place(rank)
			if b.parent < 0 {
				continue
			}
			from, to := seats[b.parent].at, seats[rank].at
			if from.X != to.X && from.Y != to.Y && here[Position{from.X, row, size.Width, size.Height}]*here[Position{to.X, row, size.Width, size.Height}] > 0 {
				t.Fatalf("from %v to %v though both columns have members in the row %d", from, to, row)
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

// newTorus is a fabric whose NICs have positions, NIC i at x = i mod width.
func newTorus(t testing.TB, width, height int, faults fault.Config) *fabric {
	f := newFabric(t, width*height, faults)
	for i, e := range f.engines {
		e.cfg.Position = Position{uint16(i % width), uint16(i / width), uint16(width), uint16(height)}
	}
	return f
}

func TestMembersOnATorusBroadcastAndReduce(t *testing.T) {
	f := newTorus(t, 4, 3, fault.Config{Seed: 6, Loss: 0.05, Reorder: 0.1})
	const n = 19
	g := newTeam(f, n)
	for i, p := range g.members {
		if m := p.e.groups.members[g.numbers[i]]; !m.g.torus {
			t.Fatalf("member %d does not know of the torus", i)
		}
	}
	for root, size := range []int{0, 700, 20_000, 100_000} {
		want := pattern(size, byte(root))
		bufs := make([][]byte, n)
		g.each(func(i int, p *tester) int {
			bufs[i] = make([]byte, size)
			if i == root {
				copy(bufs[i], want)
			}
			return p.broadcast(g.numbers[i], root, bufs[i])
		}, func(i int, c vni.Completion) {
			if g.ok(i, c); !bytes.Equal(bufs[i], want) {
				t.Errorf("%d bytes from %d: member %d has others", size, root, i)
			}
		})
		for _, to := range []uint32{vni.AllRanks, uint32(root)} {
			g.each(func(i int, p *tester) int {
				bufs[i] = vector(int64(i))
				return p.reduce(g.numbers[i], to, vni.SumInt64, bufs[i])
			}, func(i int, c vni.Completion) {
				if g.ok(i, c); (to == vni.AllRanks || int(to) == i) && !bytes.Equal(bufs[i], vector(n*(n-1)/2)) {
					t.Errorf("sum at member %d: %x", i, bufs[i])
				}
			})
		}
	}
	f.noLeaks()
}

func TestWithoutAPositionForEverybodyTheTreeIsBinomial(t *testing.T) {
	f := newTorus(t, 2, 2, fault.Config{})
	f.engines[3].cfg.Position = Position{}
	g := newTeam(f, 4)
	for i, p := range g.members {
		if p.e.groups.members[g.numbers[i]].g.torus {
			t.Errorf("member %d believes in a torus", i)
		}
	}
	g.each(func(i int, p *tester) int { return p.broadcast(g.numbers[i], 1, make([]byte, 9000)) }, g.ok)
}
