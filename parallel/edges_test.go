package parallel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

func TestElementTypesWithPointersAreRefused(t *testing.T) {
	s := must(NewShape(context.Background(), newMachine(nil, nil, nil, 0), Axis{Len: 5}))
	refused := func(err error) {
		t.Helper()
		if !errors.Is(err, ErrBadArgument) {
			t.Errorf("%v; expected %v", err, ErrBadArgument)
		}
	}
	_, err := New[[2]*int](s)
	refused(err)
	_, err = New[struct {
		A int
		B []int
	}](s)
	refused(err)
	_, err = New[[3][2]string](s)
	refused(err)
	_, err = New[map[int]int](s)
	refused(err)
	_, err = New[func()](s)
	refused(err)
	_, err = New[any](s)
	refused(err)
	_, err = New[uintptr](s)
	refused(err)
	_, err = New[int](nil)
	refused(err)
	if _, err := New[struct {
		A int8
		B [2]complex64
	}](s); err != nil {
		t.Error(err)
	}
}

// A variable of 2⁴⁸ elements would need more memory than there are addresses.
func TestAVariableThatCannotFitIsAnError(t *testing.T) {
	m := newMachine(nil, nil, nil, 0)
	s := must(NewShape(context.Background(), m, Axis{Len: 1 << 24, Halo: 1 << 24}, Axis{Len: 1 << 24}))
	if s.Len() != MaxPositions || s.Index(1<<24-1, 1<<24-1) != MaxPositions-1 {
		t.Errorf("%d positions, the last one with index %d", s.Len(), s.Index(1<<24-1, 1<<24-1))
	}
	if _, err := New[int64](s); !errors.Is(err, ErrBadArgument) {
		t.Errorf("%v; expected %v", err, ErrBadArgument)
	}
	if _, err := New[[1 << 20]byte](s); !errors.Is(err, ErrBadArgument) {
		t.Errorf("%v; expected %v", err, ErrBadArgument)
	}
}

func TestPositionsOutsideOfAShape(t *testing.T) {
	onRanks(t, 3, func(m *Machine) error {
		s := must(NewShape(context.Background(), m, Axis{Len: 4, Halo: 1}, Axis{Len: 5, Halo: 2}))
		v := must(on(s, func(pos []int) int { return pos[0]*10 + pos[1] }))
		for _, pos := range [][]int{
			{-1, 0}, {4, 0}, {0, -1}, {0, 5}, {1}, {1, 2, 3}, nil, {math.MaxInt, 0}, {math.MinInt, 1},
		} {
			_, here := v.At(pos...)
			if s.Owner(pos...) != -1 || s.Index(pos...) != -1 || here {
				return fmt.Errorf("position %v: rank %d, index %d, %v", pos, s.Owner(pos...), s.Index(pos...), here)
			}
		}
		for i := -1; i < 5; i++ {
			mine := s.Owner(i, 0) == m.rank
			if row := v.Row(i); mine != (row != nil) || mine && (len(row) != 5 || cap(row) != 5 || row[3] != i*10+3) {
				return fmt.Errorf("row %d at rank %d of %d: %v", i, m.rank, s.Owner(i, 0), row)
			}
			if x, here := v.At(i, 4); here != mine || here && x != i*10+4 {
				return fmt.Errorf("element %d, 4 at rank %d: %d, %v", i, m.rank, x, here)
			}
		}
		if v.Row() != nil || v.Row(1, 2) != nil {
			return errors.New("a row of a wrong number of coordinates")
		}
		return nil
	})
}

func TestDstIsSrcIsAnError(t *testing.T) {
	for name, do := range map[string]func(c *Ctx, v, at *Var[int]) error{
		"Stencil": func(c *Ctx, v, at *Var[int]) error {
			return Stencil(c, v, v, Value(0), func(*Window[int], []int) {})
		},
		"Around":     func(c *Ctx, v, at *Var[int]) error { return Around(c, v, v, func(*Window[int], []int) {}) },
		"ReduceAxis": func(c *Ctx, v, at *Var[int]) error { return ReduceAxis(c, v, v, 0, Sum[int]()) },
		"Spread":     func(c *Ctx, v, at *Var[int]) error { return Spread(c, v, v, 0, 1) },
		"Sort":       func(c *Ctx, v, at *Var[int]) error { return Sort(c, v, v, 0) },
		"Rank":       func(c *Ctx, v, at *Var[int]) error { return Rank(c, v, v, 0) },
		"Get":        func(c *Ctx, v, at *Var[int]) error { return Get(c, v, at, v) },
		"Send":       func(c *Ctx, v, at *Var[int]) error { return Send(c, v, at, v, Sum[int]()) },
	} {
		s := must(NewShape(context.Background(), newMachine(nil, nil, nil, 0), Axis{Len: 5, Halo: 1}))
		err := do(With(context.Background(), s), must(New[int](s)), must(New[int](s)))
		if !errors.Is(err, ErrBadArgument) {
			t.Errorf("%s: %v; expected %v", name, err, ErrBadArgument)
		}
	}
}

func TestIndicesOutOfRangeAreErrors(t *testing.T) {
	for _, index := range []int{-1, 10, math.MinInt, math.MaxInt} {
		for name, do := range map[string]func(c *Ctx, at *Var[int]) error{
			"Get": func(c *Ctx, at *Var[int]) error { return Get(c, must(New[int](c.s)), at, must(New[int](c.s))) },
			"Send": func(c *Ctx, at *Var[int]) error {
				return Send(c, must(New[int](c.s)), at, must(New[int](c.s)), Sum[int]())
			},
		} {
			errs := each(t, 2, func(m *Machine) error {
				s := must(NewShape(context.Background(), m, Axis{Len: 10}))
				at := must(on(s, func(pos []int) int {
					if pos[0] == 7 {
						return index
					}
					return pos[0]
				}))
				return firstError(do(With(context.Background(), s), at), m.Barrier(context.Background()))
			})
			for r, err := range errs {
				text := fmt.Sprintf("index %d at the position with index 7", index)
				if !errors.Is(err, ErrBadArgument) || !strings.Contains(err.Error(), text) {
					t.Errorf("%s, rank %d: %v; expected %q", name, r, err, text)
				}
			}
		}
	}
}

func TestDistancesBeyondTheHaloAreErrors(t *testing.T) {
	for _, d := range [][]int{{2, 0}, {-2, 0}, {0, 1}, {0, -1}, {1}, {0, 0, 0}, {math.MinInt, 0}} {
		s := must(NewShape(context.Background(), newMachine(nil, nil, nil, 0), Axis{Len: 5, Halo: 1}, Axis{Len: 3}))
		err := Stencil(With(context.Background(), s), must(New[int](s)), must(New[int](s)), Value(0),
			func(at *Window[int], out []int) { copy(out, at.Row(d...)) })
		if !errors.Is(err, ErrBadArgument) {
			t.Errorf("a distance of %v: %v; expected %v", d, err, ErrBadArgument)
		}
	}
}

func TestBadCoordinatesOfCallsThatDoNotCommunicateFailTheNextOperation(t *testing.T) {
	m := newMachine(nil, nil, nil, 0)
	s := must(NewShape(context.Background(), m, Axis{Len: 5}))
	Pcoord(With(context.Background(), s), must(New[int](s)), 1)
	err := m.Barrier(context.Background())
	if !errors.Is(err, ErrBadArgument) || !strings.Contains(err.Error(), "Pcoord") {
		t.Errorf("%v; expected the error of Pcoord", err)
	}
}

// strange holds floats with special comparison or addition, and NaNs with different bits.
var strange = []float64{
	0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), math.Float64frombits(0x7ff8_0000_dead_beef),
	math.Float64frombits(0xfff8_0000_0000_0001), math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64,
	math.MaxFloat64, -math.MaxFloat64, 1e-300,
}

// strangeResults returns the bits of all results of operations on strange floats, in the order of
// indices. few is the number of different floats.
func strangeResults(t *testing.T, ranks, length, few int) []uint64 {
	t.Helper()
	all := make([]uint64, 0, 20*length)
	var mu sync.Mutex
	onRanks(t, ranks, func(m *Machine) error {
		ctx := context.Background()
		s := must(NewShape(ctx, m, Axis{Len: length, Halo: min(1, length)}))
		rng := rand.New(rand.NewPCG(uint64(length), uint64(few)))
		list := make([]float64, length)
		for i := range list {
			list[i] = strange[rng.IntN(few)]
		}
		v, d := must(on(s, func(pos []int) float64 { return list[pos[0]] })), must(New[float64](s))
		mask := must(on(s, func(pos []int) bool { return pos[0]%5 != 1 }))
		starts := must(on(s, func(pos []int) bool { return pos[0]%7 == 3 }))
		var own []uint64
		keep := func(c *Ctx, err error) {
			must(0, err)
			to := make([]float64, length)
			must(0, Gather(c, d, 0, to))
			for _, x := range to {
				own = append(own, math.Float64bits(x))
			}
		}
		err := With(ctx, s).Where(mask, func(c *Ctx) error {
			for _, c := range []*Ctx{c, c.Everywhere()} {
				for _, op := range []Op[float64]{Sum[float64](), Min[float64](), Max[float64]()} {
					own = append(own, math.Float64bits(must(Reduce(c, v, op))))
					keep(c, ReduceAxis(c, d, v, 0, op))
					for k := range 8 {
						o := ScanOpt{Exclusive: k&1 != 0, Reverse: k&2 != 0}
						if k&4 != 0 {
							o.Segments = starts
						}
						keep(c, Scan(c, d, v, 0, op, o))
					}
				}
				keep(c, Sort(c, d, v, 0))
				place := must(New[int](s))
				must(0, Rank(c, place, v, 0))
				Map(c, d, place, func(x int) float64 { return float64(x) })
				keep(c, nil)
			}
			return nil
		}, nil)
		if m.rank == 0 {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
		}
		return err
	})
	return all
}

func TestStrangeFloatsHaveTheSameBitsOnAnyNumberOfRanks(t *testing.T) {
	for _, length := range []int{1, 6, 41, 1500} {
		for _, few := range []int{2, 4, len(strange)} {
			want := strangeResults(t, 1, length, few)
			for _, n := range rankCounts[1:] {
				got := strangeResults(t, n, length, few)
				if len(got) != len(want) {
					t.Fatalf("%d results; expected %d", len(got), len(want))
				}
				for i := range want {
					if got[i] != want[i] {
						t.Fatalf("%d floats of %d kinds on %d ranks: result %d is %x; expected %x", length, few, n, i, got[i], want[i])
					}
				}
			}
		}
	}
}

func TestNaNWinsInMinAndMaxAndComesFirstInASort(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	list := []float64{3, -inf, nan, 1, inf, nan, -2, math.Copysign(0, -1), 0}
	for _, n := range rankCounts {
		onRanks(t, n, func(m *Machine) error {
			s := must(NewShape(context.Background(), m, Axis{Len: len(list)}))
			c, d := With(context.Background(), s), must(New[float64](s))
			v := must(on(s, func(pos []int) float64 { return list[pos[0]] }))
			for _, op := range []Op[float64]{Min[float64](), Max[float64]()} {
				if x := must(Reduce(c, v, op)); x == x {
					return fmt.Errorf("%s is %v; expected NaN", op.Name, x)
				}
				last := op.Join(op.Join(op.Identity, nan), 1)
				if first := op.Join(1, nan); last == last || first == first {
					return fmt.Errorf("%s joins 1 and NaN to %v and %v", op.Name, first, last)
				}
			}
			must(0, Sort(c, d, v, 0))
			sorted := []float64{nan, nan, -inf, -2, 0, 0, 1, 3, inf}
			place := must(New[int](s))
			must(0, Rank(c, place, v, 0))
			return firstError(
				expect(place, func(i int) int { return []int{7, 2, 0, 6, 8, 1, 3, 4, 5}[i] }),
				same(d, sorted))
		})
	}
}

// same compares the floats of a variable. NaN equals NaN.
func same(v *Var[float64], want []float64) error {
	for i, x := range v.Row() {
		if w := want[v.s.local.lo[0]+i]; x != w && (x == x || w == w) {
			return fmt.Errorf("element %d is %v; expected %v", v.s.local.lo[0]+i, x, w)
		}
	}
	return nil
}

// padded has bytes without meaning between its fields.
type padded struct {
	A int8
	B int64
	C bool
}

func TestElementsWithPaddingTravelWhole(t *testing.T) {
	at := func(i int) padded { return padded{int8(i), int64(i) << 40, i%3 == 0} }
	onRanks(t, 3, func(m *Machine) error {
		s := must(NewShape(context.Background(), m, Axis{Len: 20, Halo: 2}))
		c, v := With(context.Background(), s), must(on(s, func(pos []int) padded { return at(pos[0]) }))
		d, turned := must(New[padded](s)), must(on(s, func(pos []int) int { return 19 - pos[0] }))
		store := newShelf()
		must(0, Get(c, d, turned, v))
		must(0, Send(c, v, turned, d, Op[padded]{}))
		must(0, expect(v, at))
		must(0, Shift(c, d, v, 0, 1, Value(at(-1))))
		must(0, expect(d, func(i int) padded { return at(i - 1) }))
		must(0, Save(c.ctx, m, store, 1, Named("v", v)))
		must(Load(c.ctx, m, store, Named("v", d)))
		return expect(d, at)
	})
}

// Without a check, a different border would go unnoticed, because only the ranks at the ends use
// it.
func TestRanksWithDifferentBordersAreAMismatch(t *testing.T) {
	for name, do := range map[string]func(c *Ctx, v *Var[int], b Border[int]) error{
		"Shift": func(c *Ctx, v *Var[int], b Border[int]) error { return Shift(c, must(New[int](c.s)), v, 0, 1, b) },
		"Stencil": func(c *Ctx, v *Var[int], b Border[int]) error {
			return Stencil(c, must(New[int](c.s)), v, b, func(*Window[int], []int) {})
		},
	} {
		for _, odd := range []Border[int]{Value(6), Value(5 << 40), Torus[int](), Keep[int]()} {
			for r, err := range each(t, 3, func(m *Machine) error {
				s := must(NewShape(context.Background(), m, Axis{Len: 9, Halo: 1}))
				b := Value(5)
				if m.rank == 1 {
					b = odd
				}
				return firstError(do(With(context.Background(), s), must(New[int](s)), b), m.Barrier(context.Background()))
			}) {
				if !errors.Is(err, ErrMismatch) {
					t.Errorf("%s with the border %v at rank 1: rank %d: %v; expected %v", name, odd, r, err, ErrMismatch)
				}
			}
		}
	}
}

func TestRanksWithDifferentFormsOfAScanAreAMismatch(t *testing.T) {
	for k := 1; k < 8; k++ {
		for r, err := range each(t, 2, func(m *Machine) error {
			s := must(NewShape(context.Background(), m, Axis{Len: 9}))
			o := ScanOpt{}
			if m.rank == 1 {
				o.Exclusive, o.Reverse = k&1 != 0, k&2 != 0
				if k&4 != 0 {
					o.Segments = must(New[bool](s))
				}
			}
			err := Scan(With(context.Background(), s), must(New[int](s)), must(New[int](s)), 0, Sum[int](), o)
			return firstError(err, m.Barrier(context.Background()))
		}) {
			if !errors.Is(err, ErrMismatch) {
				t.Errorf("form %d, rank %d: %v; expected %v", k, r, err, ErrMismatch)
			}
		}
	}
}

func TestRanksThatSendToDifferentShapesAreAMismatch(t *testing.T) {
	for r, err := range each(t, 3, func(m *Machine) error {
		ctx := context.Background()
		s := must(NewShape(ctx, m, Axis{Len: 9}))
		to := []*Shape{must(NewShape(ctx, m, Axis{Len: 9})), must(NewShape(ctx, m, Axis{Len: 9}))}
		at := must(on(s, func(pos []int) int { return pos[0] }))
		err := Send(With(ctx, s), must(New[int](to[m.rank&1])), at, must(New[int](s)), Op[int]{})
		return firstError(err, m.Barrier(ctx))
	}) {
		if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "and shape 3") {
			t.Errorf("rank %d: %v; expected a mismatch of shapes 2 and 3", r, err)
		}
	}
}

// Every operation has the same result as a serial loop, on lengths near the number of ranks and
// the number of blocks.
func TestFewPositions(t *testing.T) {
	lists := [][]Axis{{{Len: 1}}, {{Len: 1, Torus: true, Halo: 1}}, {{Len: 2, Halo: 2}}, {{Len: 7, Torus: true, Halo: 7}},
		{{Len: 1}, {Len: 1}}, {{Len: 3, Whole: true, Halo: 1}, {Len: 2, Halo: 1}},
		{{Len: 2, Torus: true}, {Len: 1, Halo: 1, Torus: true}},
		{{Len: 1, Whole: true}, {Len: 5, Halo: 2, Torus: true}, {Len: 2}},
		{{Len: 2}, {Len: 1}, {Len: 2, Halo: 1}, {Len: 1}, {Len: 1, Torus: true}, {Len: 2}, {Len: 1}, {Len: 2}}}
	if !testing.Short() {
		lists = append(lists, []Axis{{Len: 1023}}, []Axis{{Len: 1024, Halo: 3}}, []Axis{{Len: 1025, Torus: true, Halo: 3}})
	}
	for k, axes := range lists {
		for _, n := range []int{1, 2, 5, 8} {
			w := drawWorldOf(rand.New(rand.NewPCG(uint64(k), uint64(n))), axes)
			w.root = n - 1
			onRanks(t, n, func(m *Machine) error {
				s := must(NewShape(context.Background(), m, w.axes...))
				for _, p := range properties {
					run := func(c *Ctx) error { return p.run(w, c, m) }
					if err := With(context.Background(), s).Where(ints(s, w.mask), run, nil); err != nil {
						return fmt.Errorf("%s on %v: %w", p.name, s, err)
					}
				}
				return nil
			})
		}
	}
}
