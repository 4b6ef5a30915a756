package weft_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft"
)

// serially returns the expected result of a reduction. It applies the operator to two elements
// after the other, as one process would.
func serially[T weft.Element](o weft.Operator, members [][]T) []T {
	result := slices.Clone(members[0])
	for _, v := range members[1:] {
		for i, x := range v {
			result[i] = combined(o, result[i], x)
		}
	}
	return result
}

func combined[T weft.Element](o weft.Operator, a, b T) T {
	switch o {
	case weft.Sum:
		return a + b
	case weft.Min:
		return min(a, b)
	case weft.Max:
		return max(a, b)
	}
	var bits uint64 // for integers, which lose no bits here
	switch x, y := uint64(int64(a)), uint64(int64(b)); o {
	case weft.And:
		bits = x & y
	case weft.Or:
		bits = x | y
	case weft.Xor:
		bits = x ^ y
	}
	return T(bits)
}

// celsius is a type that a program defines.
type celsius float32

// reducesLike reduces vectors of T with every operator that T supports, and compares the results
// with those of serially.
func reducesLike[T weft.Element](t *testing.T, ctx context.Context, groups []*weft.Group, seed uint64, draw func(*rand.Rand) T, floats bool) {
	t.Helper()
	n := len(groups)
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	operators := []weft.Operator{weft.Sum, weft.Min, weft.Max, weft.And, weft.Or, weft.Xor}
	if floats {
		operators = operators[:3]
	}
	// One operator also reduces in parts, which takes long.
	long := operators[rng.IntN(len(operators))]
	for _, o := range operators {
		// The last has more than one piece.
		lengths := []int{0, 1, 2*rng.IntN(20) + 3, 400 + rng.IntN(400)}
		if o == long {
			lengths = append(lengths, n*16384+rng.IntN(3))
		}
		for _, length := range lengths {
			members := make([][]T, n)
			for i := range members {
				members[i] = make([]T, length)
				for k := range members[i] {
					members[i][k] = draw(rng)
				}
			}
			want, root := serially(o, members), rng.IntN(n)
			at, all := make([][]T, n), make([][]T, n)
			together(t, n, func(i int) error {
				at[i], all[i] = slices.Clone(members[i]), slices.Clone(members[i])
				return errors.Join(weft.Reduce(ctx, groups[i], root, o, at[i]), weft.AllReduce(ctx, groups[i], o, all[i]))
			})
			for i := range n {
				kept := members[i]
				if i == root {
					kept = want
				}
				if !slices.Equal(all[i], want) || !slices.Equal(at[i], kept) {
					t.Errorf("%v of %d elements like %T at %d members, seed %d: member %d got other results than one process", o, length, want, n, seed, i)
				}
			}
		}
	}
}

func TestReductionsOfEveryTypeComeToWhatOneProcessComputes(t *testing.T) {
	const seed = 1
	most := 8
	if testing.Short() {
		most = 3
	}
	for n := 1; n <= most; n++ {
		ctx, groups, _ := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), min(n, 3), n)
		reducesLike(t, ctx, groups, seed, func(r *rand.Rand) int32 { return int32(r.Uint32()) }, false)
		reducesLike(t, ctx, groups, seed, func(r *rand.Rand) int64 { return int64(r.Uint64()) }, false)
		reducesLike(t, ctx, groups, seed, func(r *rand.Rand) uint32 { return r.Uint32() }, false)
		reducesLike(t, ctx, groups, seed, func(r *rand.Rand) uint64 { return r.Uint64() }, false)
		// the sums are exact
		reducesLike(t, ctx, groups, seed, func(r *rand.Rand) float32 { return float32(r.IntN(1000)) / 8 }, true)
		reducesLike(t, ctx, groups, seed, func(r *rand.Rand) float64 { return float64(r.IntN(1e6)-5e5) / 8 }, true)
		reducesLike(t, ctx, groups, seed, func(r *rand.Rand) celsius { return celsius(r.IntN(100)) }, true)
	}
}

func TestANaNMakesTheResultNaN(t *testing.T) {
	ctx, groups, _ := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 1, 2)
	for _, o := range []weft.Operator{weft.Sum, weft.Min, weft.Max} {
		together(t, 2, func(i int) error {
			narrow, wide := []float32{1}, []float64{1}
			if i == 1 {
				narrow[0], wide[0] = float32(math.NaN()), math.NaN()
			}
			err := errors.Join(weft.AllReduce(ctx, groups[i], o, narrow), weft.AllReduce(ctx, groups[i], o, wide))
			if narrow[0] == narrow[0] || wide[0] == wide[0] {
				t.Errorf("%v of 1 and NaN is %v and %v", o, narrow[0], wide[0])
			}
			return err
		})
	}
}

// Types of the same width have the same size in memory, so only the NICs' operators tell them
// apart.
func TestMembersThatReduceOtherTypesDisagree(t *testing.T) {
	for what, odd := range map[string]func(ctx context.Context, g *weft.Group) error{
		"uint32": func(ctx context.Context, g *weft.Group) error {
			return weft.AllReduce(ctx, g, weft.Sum, []uint32{1, 1})
		},
		"float32": func(ctx context.Context, g *weft.Group) error {
			return weft.AllReduce(ctx, g, weft.Sum, []float32{1, 1})
		},
		"int64": func(ctx context.Context, g *weft.Group) error { return weft.AllReduce(ctx, g, weft.Sum, []int64{1}) },
	} {
		ctx, groups, _ := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 2, 3)
		together(t, 3, func(i int) error {
			err := error(nil)
			if i == 1 {
				err = odd(ctx, groups[i])
			} else {
				err = weft.AllReduce(ctx, groups[i], weft.Sum, []int32{1, 1})
			}
			if !errors.Is(err, weft.ErrGroupMismatch) {
				return fmt.Errorf("int32 beside %s: %w; expected %w", what, err, weft.ErrGroupMismatch)
			}
			return nil
		})
	}
}

func TestErrorsOfReductionsNameTheForm(t *testing.T) {
	ctx, groups, procs := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 1, 1)
	if err := procs[0].Close(); err != nil {
		t.Fatal(err)
	}
	keep := func(into, from []int64) {}
	long := make([]int64, 1<<20)
	for want, errs := range map[string][]error{
		"all-reduce": {weft.AllReduce(ctx, groups[0], weft.Sum, []int64{1}), weft.AllReduce(ctx, groups[0], weft.Xor, []float64{1}), weft.AllReduceFunc(ctx, groups[0], keep, long)},
		"reduce":     {weft.Reduce(ctx, groups[0], 0, weft.Sum, []int64{1}), weft.Reduce(ctx, groups[0], 0, weft.Xor, []float32{1}), weft.ReduceFunc(ctx, groups[0], 0, keep, long)},
	} {
		for i, err := range errs {
			var ge *weft.GroupError
			if !errors.As(err, &ge) || ge.Op != want || !strings.HasPrefix(err.Error(), "weft: "+want+" in group w: ") {
				t.Errorf("form %d of %s: %v", i, want, err)
			}
		}
	}
}
