package weft_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weftnet/weft"
)

// lengthsOf draws the length of the part from each member to each other member: 0 bytes, a few,
// or many pages.
func lengthsOf(rng *rand.Rand, n int) [][]int {
	all := make([][]int, n)
	for i := range all {
		for range n {
			all[i] = append(all[i], []int{0, 1, rng.IntN(100), rng.IntN(20_000)}[rng.IntN(4)])
		}
	}
	return all
}

// places allocates slices of the given lengths.
func places(lengths []int) (all [][]byte) {
	for _, n := range lengths {
		all = append(all, make([]byte, n))
	}
	return all
}

func TestPartsOfAnyLengthReachTheirMembers(t *testing.T) {
	links(t, func(t *testing.T, net *network) {
		const n, seed = 4, 5
		rng := rand.New(rand.NewPCG(seed, 0))
		ctx, groups, _ := crowd(t, net, 3, n)
		for round := range 4 {
			length, root := lengthsOf(rng, n), rng.IntN(n)
			own := make([]int, n) // lengths for gather and scatter
			for i := range own {
				own[i] = length[i][i]
			}
			part := func(from, to, bytes int) []byte { return pattern(uint64(seed+round*100+from*10+to), bytes) }
			together(t, n, func(i int) error {
				g, mine := groups[i], part(i, i, own[i])
				gathered, every, scattered := places(own), places(own), make([]byte, own[i])
				if i != root {
					gathered = nil
				}
				var from, to [][]byte
				for j := range n {
					from, to = append(from, part(i, j, length[i][j])), append(to, make([]byte, length[j][i]))
				}
				err := errors.Join(g.GatherParts(ctx, root, mine, gathered), g.AllGatherParts(ctx, mine, every),
					g.ScatterParts(ctx, root, gathered, scattered), g.AllToAllParts(ctx, from, to))
				if err != nil {
					return fmt.Errorf("round %d: %w", round, err)
				}
				for j := range n {
					if want := part(j, j, own[j]); !bytes.Equal(every[j], want) || i == root && !bytes.Equal(gathered[j], want) {
						return fmt.Errorf("round %d: the part of rank %d came in another shape", round, j)
					}
					if !bytes.Equal(to[j], part(j, i, length[j][i])) {
						return fmt.Errorf("round %d: all-to-all brought other bytes from rank %d", round, j)
					}
				}
				if !bytes.Equal(scattered, mine) {
					return fmt.Errorf("round %d: scatter brought other bytes", round)
				}
				return nil
			})
		}
	})
}

// The member whose length differs detects the difference: its error gives both lengths, and the
// errors of the others name that member.
func TestAPartOfAnotherLengthFailsAtItsMemberAndTheOthersNameIt(t *testing.T) {
	part := func(n int) []byte { return make([]byte, n) }
	all := func() [][]byte { return places([]int{3, 4, 5}) }
	// At rank 2, the length for rank 1 differs.
	odd := func() [][]byte { return places([]int{3, 9, 5}) }
	for _, c := range []struct {
		what  string
		wrong int // rank
		do    func(ctx context.Context, g *weft.Group, i int) error
	}{
		{"a gather", 2, func(ctx context.Context, g *weft.Group, i int) error {
			return g.GatherParts(ctx, 0, part([]int{3, 4, 6}[i]), all())
		}},
		{"a gather whose root is wrong about itself", 1, func(ctx context.Context, g *weft.Group, i int) error {
			return g.GatherParts(ctx, 1, part([]int{3, 5, 5}[i]), all())
		}},
		{"a gather into too few parts", 1, func(ctx context.Context, g *weft.Group, i int) error {
			return g.GatherParts(ctx, 1, part([]int{3, 4, 5}[i]), all()[:2])
		}},
		{"an all-gather", 2, func(ctx context.Context, g *weft.Group, i int) error {
			every := all()
			if i == 2 {
				every = odd()
			}
			return g.AllGatherParts(ctx, part([]int{3, 4, 5}[i]), every)
		}},
		{"a scatter", 2, func(ctx context.Context, g *weft.Group, i int) error {
			return g.ScatterParts(ctx, 1, all(), part([]int{3, 4, 0}[i]))
		}},
		// Rank 2 expects 9 bytes from rank 1.
		{"an all-to-all", 1, func(ctx context.Context, g *weft.Group, i int) error {
			from, to := places([]int{3, 3, 3}), places([]int{3, 3, 3})
			if i == 2 {
				to[1] = part(9)
			}
			return g.AllToAllParts(ctx, from, to)
		}},
	} {
		ctx, groups, procs := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 2, 3)
		together(t, 3, func(i int) error {
			err := c.do(ctx, groups[i], i)
			var ge *weft.GroupError
			switch {
			case !errors.As(err, &ge):
				return fmt.Errorf("%s: %w; expected a GroupError", c.what, err)
			case i == c.wrong && !errors.Is(err, weft.ErrBadArgument):
				return fmt.Errorf("%s: %w; expected %w", c.what, err, weft.ErrBadArgument)
			case i != c.wrong && (!errors.Is(err, weft.ErrGroupBroken) || ge.Dead != procs[c.wrong].Name()):
				return fmt.Errorf("%s beside that: %w; expected %w, and the name of the member", c.what, err, weft.ErrGroupBroken)
			}
			return nil
		})
	}
}

// The bytes that the members exchange in these operations have the same lengths.
func TestDifferentOperationsThatLookAlikeFailAtAllMembers(t *testing.T) {
	const n = 3
	type do = func(ctx context.Context, g *weft.Group) error
	b, each := func(n int) []byte { return make([]byte, n) }, func() [][]byte { return places([]int{8, 8, 8}) }
	gather := func(ctx context.Context, g *weft.Group) error { return g.Gather(ctx, 0, b(8), b(8*n)) }
	gatherParts := func(ctx context.Context, g *weft.Group) error { return g.GatherParts(ctx, 0, b(8), each()) }
	reduce := func(ctx context.Context, g *weft.Group) error {
		return weft.ReduceFunc(ctx, g, 0, func(_, _ []uint64) {}, []uint64{1})
	}
	for what, pair := range map[string][2]do{
		"gather, scatter":                      {gather, func(ctx context.Context, g *weft.Group) error { return g.Scatter(ctx, 0, b(8*n), b(8)) }},
		"gather, all-gather":                   {gather, func(ctx context.Context, g *weft.Group) error { return g.AllGather(ctx, b(8), b(8*n)) }},
		"gather, gather of parts":              {gather, gatherParts},
		"gather of parts, scatter of parts":    {gatherParts, func(ctx context.Context, g *weft.Group) error { return g.ScatterParts(ctx, 0, each(), b(8)) }},
		"gather of parts, all-gather of parts": {gatherParts, func(ctx context.Context, g *weft.Group) error { return g.AllGatherParts(ctx, b(8), each()) }},
		"reduction by a function, gather":      {reduce, gather},
		"reduction, all-reduction": {reduce, func(ctx context.Context, g *weft.Group) error {
			return weft.AllReduceFunc(ctx, g, func(_, _ []uint64) {}, []uint64{1})
		}},
		"split, all-gather": {func(ctx context.Context, g *weft.Group) error { _, err := g.Split(ctx, 0); return err },
			func(ctx context.Context, g *weft.Group) error { return g.AllGather(ctx, b(24), b(24*n)) }},
		"all-to-all, all-gather": {func(ctx context.Context, g *weft.Group) error { return g.AllToAll(ctx, b(8*n), b(8*n)) },
			func(ctx context.Context, g *weft.Group) error { return g.AllGather(ctx, b(40), b(40*n)) }},
		"all-to-all, all-to-all of parts": {func(ctx context.Context, g *weft.Group) error { return g.AllToAll(ctx, b(8*n), b(8*n)) },
			func(ctx context.Context, g *weft.Group) error { return g.AllToAllParts(ctx, each(), each()) }},
	} {
		for odd := range n {
			ctx, groups, _ := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 2, n)
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			together(t, n, func(i int) error {
				f := pair[0]
				if i == odd {
					f = pair[1]
				}
				if err := f(ctx, groups[i]); !errors.Is(err, weft.ErrGroupMismatch) {
					cancel() // the others may still be waiting
					return fmt.Errorf("%s, which rank %d does: %v; expected %w", what, odd, err, weft.ErrGroupMismatch)
				}
				g, err := groups[i].Shrink(ctx)
				if err != nil {
					return fmt.Errorf("%s: shrink: %w", what, err)
				}
				return g.Barrier(ctx)
			})
		}
	}
}
