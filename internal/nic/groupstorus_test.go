package nic

import (
	"bytes"
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/tree"
	"github.com/weftnet/weft/internal/vni"
)

// newTorus makes a fabric whose NICs have positions, NIC i at x = i mod width, except for those in
// without.
func newTorus(t testing.TB, width, height int, faults fault.Config, without ...uint64) *fabric {
	return newWideFabric(t, 1472, width*height, faults, func(c *Config) {
		if slices.Contains(without, c.ID) {
			return
		}
		i := int(c.ID - 1)
		c.Position = Position{X: uint16(i % width), Y: uint16(i / width), Width: uint16(width), Height: uint16(height)}
	})
}

// wantTree checks the place that one of the members at each NIC has in the tree of the first root.
func wantTree(t *testing.T, f *fabric, parents []int) {
	t.Helper()
	for i, e := range f.engines {
		parent, ok := e.groups.Above(teamKey, 0)
		for rank := i; ok && parent != parents[rank]; rank += len(f.engines) {
			ok = rank+len(f.engines) < len(parents)
		}
		if !ok {
			t.Errorf("a member at NIC %d has the parent %d", i, parent)
		}
	}
}

func TestMembersOnATorusBroadcastAndReduce(t *testing.T) {
	f := newTorus(t, 4, 3, fault.Config{Seed: 6, Loss: 0.05, Reorder: 0.1})
	const n = 19
	g := newTeam(f, n)
	var positions []Position
	for _, p := range g.members {
		positions = append(positions, p.e.cfg.Position)
	}
	if wantTree(t, f, tree.Parents(positions, 0, n)); slices.Equal(tree.Parents(positions, 0, n), tree.Parents(nil, 0, n)) {
		t.Fatal("the tree of the torus is binomial; the test shows nothing")
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
	f := newTorus(t, 2, 3, fault.Config{}, 4)
	g := newTeam(f, 6)
	wantTree(t, f, tree.Parents(nil, 0, 6))
	g.each(func(i int, p *tester) int { return p.broadcast(g.numbers[i], 1, make([]byte, 9000)) }, g.ok)
}
