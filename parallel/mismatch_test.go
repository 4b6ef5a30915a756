package parallel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// odd is a case in which one rank calls another operation than the others.
type odd struct {
	name   string
	others func(c *Ctx, v *Var[float64]) error
	one    func(c *Ctx, v *Var[float64]) error
	want   []string // parts of the error at every rank
}

// others holds a second shape for each machine.
var others sync.Map

func other(m *Machine) *Shape {
	s, _ := others.Load(m)
	return s.(*Shape)
}

func sumOf(c *Ctx, v *Var[float64]) error {
	_, err := Reduce(c, v, Sum[float64]())
	return err
}

var odds = []odd{
	{"operations", sumOf,
		func(c *Ctx, v *Var[float64]) error {
			return Scan(c, must(New[float64](c.s)), v, 0, Sum[float64](), ScanOpt{})
		},
		[]string{"Reduce of float64 on shape 1 by sum", "Scan of float64 on shape 1 by sum along axis 0"}},
	{"operators", sumOf,
		func(c *Ctx, v *Var[float64]) error { _, err := Reduce(c, v, Max[float64]()); return err },
		[]string{"by sum", "by max"}},
	{"element types", sumOf,
		func(c *Ctx, v *Var[float64]) error {
			_, err := Reduce(c, must(New[float32](c.s)), Sum[float32]())
			return err
		}, []string{"of float64", "of float32"}},
	{"shapes", sumOf,
		func(c *Ctx, v *Var[float64]) error {
			s := other(c.s.m)
			_, err := Reduce(With(c.ctx, s), must(New[float64](s)), Sum[float64]())
			return err
		}, []string{"on shape 1", "on shape 2"}},
	{"axes of a new shape",
		func(c *Ctx, v *Var[float64]) error { _, err := NewShape(c.ctx, c.s.m, Axis{Len: 9}); return err },
		func(c *Ctx, v *Var[float64]) error {
			_, err := NewShape(c.ctx, c.s.m, Axis{Len: 8, Halo: 1})
			return err
		},
		[]string{"NewShape of 9", "NewShape of 8 halo 1"}},
	{"distances",
		func(c *Ctx, v *Var[float64]) error { return Shift(c, must(New[float64](c.s)), v, 0, 1, Value(0.0)) },
		func(c *Ctx, v *Var[float64]) error { return Shift(c, must(New[float64](c.s)), v, 0, 2, Value(0.0)) },
		[]string{"by 1 positions", "by 2 positions"}},
	{"roots",
		func(c *Ctx, v *Var[float64]) error { return Gather(c, v, 0, make([]float64, 100)) },
		func(c *Ctx, v *Var[float64]) error { return Gather(c, v, 1, make([]float64, 100)) },
		[]string{"with root 0", "with root 1"}},
	{"a halo and a reduction", sumOf,
		func(c *Ctx, v *Var[float64]) error {
			h, err := StartHalo(c, v, Value(0.0))
			if err == nil {
				err = h.Wait()
			}
			return err
		}, []string{"Reduce of float64", "StartHalo of float64"}},
	{"an early Close", sumOf,
		func(c *Ctx, v *Var[float64]) error { return c.s.m.Close() },
		[]string{"Reduce of float64", "Close"}},
}

func TestRanksThatCallDifferentOperationsAllGetBothNames(t *testing.T) {
	for _, o := range odds {
		for _, n := range []int{2, 3, 7} {
			for which := range n {
				errs := each(t, n, func(m *Machine) error {
					ctx := context.Background()
					s := must(NewShape(ctx, m, Axis{Len: 100, Halo: 1}))
					others.Store(m, must(NewShape(ctx, m, Axis{Len: 100})))
					v := must(New[float64](s))
					c, do := With(ctx, s), o.others
					if m.rank == which {
						do = o.one
					}
					var err error
					for range 3 * mostAhead { // an operation need not wait for all ranks
						if err = do(c, v); err != nil {
							break
						}
						do = o.others
					}
					return err
				})
				for r, err := range errs {
					var mismatch *MismatchError
					if !errors.As(err, &mismatch) || !errors.Is(err, ErrMismatch) {
						t.Fatalf("different %s, rank %d of %d: %v; expected a mismatch", o.name, r, n, err)
					}
					if mismatch.Rank != which && mismatch.Other != which {
						t.Errorf("different %s, rank %d of %d: %v; expected rank %d in it", o.name, r, n, err, which)
					}
					for _, want := range o.want {
						if !strings.Contains(err.Error(), want) {
							t.Errorf("different %s, rank %d of %d: %v; expected %q in it", o.name, r, n, err, want)
						}
					}
				}
			}
		}
	}
}

func TestAnErrorOfOneRankIsTheErrorOfAll(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		name  string
		cause error
		do    func(m *Machine, s *Shape, bad bool) error
	}{
		{"an index out of range", ErrBadArgument, func(m *Machine, s *Shape, bad bool) error {
			at := must(on(s, func(pos []int) int {
				if bad {
					return 100
				}
				return pos[0]
			}))
			return Get(With(context.Background(), s), must(New[int](s)), at, must(New[int](s)))
		}},
		{"an ended context", context.Canceled, func(m *Machine, s *Shape, bad bool) error {
			ctx := context.Background()
			if bad {
				ctx = ended
			}
			_, err := Reduce(With(ctx, s), must(New[int](s)), Sum[int]())
			return err
		}},
		{"a short slice", ErrBadArgument, func(m *Machine, s *Shape, bad bool) error {
			all := make([]int, 100)
			if bad {
				all = all[:99]
			}
			return firstError(Gather(With(context.Background(), s), must(New[int](s)), 1, all), m.Barrier(context.Background()))
		}},
		{"a variable of another shape", ErrBadArgument, func(m *Machine, s *Shape, bad bool) error {
			if bad {
				Rows(With(context.Background(), other(m)), must(New[int](s)), func([]int, []int) { panic("unexpected") })
			}
			return m.Barrier(context.Background())
		}},
		{"a mask of another shape", ErrBadArgument, func(m *Machine, s *Shape, bad bool) error {
			if bad {
				return With(context.Background(), other(m)).Where(must(New[bool](s)), nil, nil)
			}
			return m.Barrier(context.Background())
		}},
		{"a halo that is too narrow", ErrBadArgument, func(m *Machine, s *Shape, bad bool) error {
			return firstError(Stencil(With(context.Background(), s), must(New[int](s)), must(New[int](s)), Value(0),
				func(at *Window[int], out []int) {
					if bad {
						copy(out, at.Row(2))
					}
				}), m.Barrier(context.Background()))
		}},
		{"a stale halo", ErrStaleHalo, func(m *Machine, s *Shape, bad bool) error {
			v, ctx := must(New[int](s)), With(context.Background(), s)
			h, err := StartHalo(ctx, v, Value(0))
			if err == nil {
				err = h.Wait()
			}
			if bad {
				v.Row()[0]++
			}
			return firstError(err, Around(ctx, must(New[int](s)), v, func(at *Window[int], out []int) {}),
				m.Barrier(context.Background()))
		}},
		{"a write while the halo is in flight", ErrStaleHalo, func(m *Machine, s *Shape, bad bool) error {
			v := must(New[int](s))
			h, err := StartHalo(With(context.Background(), s), v, Value(0))
			if err == nil && bad {
				v.Row()[0]++
			}
			if err == nil {
				err = h.Wait()
			}
			return firstError(err, m.Barrier(context.Background()))
		}},
	} {
		errs := each(t, 3, func(m *Machine) error {
			ctx := context.Background()
			s := must(NewShape(ctx, m, Axis{Len: 100, Halo: 1}))
			others.Store(m, must(NewShape(ctx, m, Axis{Len: 10})))
			err := c.do(m, s, m.rank == 1)
			if again := m.Barrier(ctx); err != nil && !errors.Is(again, c.cause) {
				return fmt.Errorf("the operation after it: %w", again)
			}
			return err
		})
		for r, err := range errs {
			var of *RankError
			if !errors.Is(err, c.cause) || !errors.As(err, &of) || of.Rank != 1 {
				t.Errorf("%s, rank %d: %v; expected %v at rank 1", c.name, r, err, c.cause)
			}
		}
	}
}

func TestACollisionNamesBothPositions(t *testing.T) {
	for _, n := range rankCounts {
		for r, err := range each(t, n, func(m *Machine) error {
			s := must(NewShape(context.Background(), m, Axis{Len: 10}))
			at := must(on(s, func(pos []int) int { return pos[0] % 9 }))
			c := With(context.Background(), s)
			return firstError(Send(c, must(New[int](s)), at, must(New[int](s)), Op[int]{}), m.Barrier(c.ctx))
		}) {
			if !errors.Is(err, ErrCollision) || !strings.Contains(err.Error(), "indices 0 and 9 both send to index 0") {
				t.Errorf("rank %d of %d: %v", r, n, err)
			}
		}
	}
}

func TestBadArgumentsAreErrors(t *testing.T) {
	ctx := context.Background()
	for _, axes := range [][]Axis{
		{}, {{Len: 0}}, {{Len: 3, Halo: 4}}, {{Len: 3, Halo: -1}}, {{Len: 3, Whole: true}}, make([]Axis, 9),
		{{Len: 1 << 40}, {Len: 1 << 40}},
	} {
		if _, err := NewShape(ctx, newMachine(nil, nil, nil, 0), axes...); !errors.Is(err, ErrBadArgument) {
			t.Errorf("%v: %v", axes, err)
		}
	}
	for name, do := range map[string]func(c *Ctx, v *Var[int]) error{
		"dst is src in Shift": func(c *Ctx, v *Var[int]) error { return Shift(c, v, v, 0, 1, Value(0)) },
		"dst is src in Scan":  func(c *Ctx, v *Var[int]) error { return Scan(c, v, v, 0, Sum[int](), ScanOpt{}) },
		"no such axis":        func(c *Ctx, v *Var[int]) error { return Sort(c, must(New[int](c.s)), v, 1) },
		"no operator":         func(c *Ctx, v *Var[int]) error { _, err := Reduce(c, v, Op[int]{}); return err },
		"no such coordinate":  func(c *Ctx, v *Var[int]) error { return Spread(c, must(New[int](c.s)), v, 0, 5) },
		"no such root":        func(c *Ctx, v *Var[int]) error { return Scatter(c, v, 1, nil) },
		"two halos of one variable": func(c *Ctx, v *Var[int]) error {
			_, err := StartHalo(c, v, Value(0))
			_, again := StartHalo(c, v, Value(0))
			return firstError(err, again)
		},
	} {
		s := must(NewShape(ctx, newMachine(nil, nil, nil, 0), Axis{Len: 5}))
		if err := do(With(ctx, s), must(New[int](s))); !errors.Is(err, ErrBadArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := must(NewShape(ctx, newMachine(nil, nil, nil, 0), Axis{Len: 5}))
	if _, err := New[*int](s); !errors.Is(err, ErrBadArgument) || !strings.Contains(err.Error(), "*int") {
		t.Errorf("elements with pointers: %v", err)
	}
	if _, err := New[struct{}](s); !errors.Is(err, ErrBadArgument) {
		t.Errorf("elements without bytes: %v", err)
	}
}

func TestTwoGoroutinesOnAMachineAreAnError(t *testing.T) {
	m := newMachine(nil, nil, nil, 0)
	s := must(NewShape(context.Background(), m, Axis{Len: 5}))
	v := must(New[int](s))
	_, err := Reduce(With(context.Background(), s), v, Op[int]{Join: func(a, b int) int {
		if err := m.Barrier(context.Background()); !errors.Is(err, ErrBusy) {
			t.Errorf("an operation within an operation: %v; expected ErrBusy", err)
		}
		return a + b
	}})
	if err != nil || m.Err() != nil {
		t.Errorf("the first operation: %v, %v", err, m.Err())
	}
}

func TestWhereRunsBothBranchesOnRanksWithoutActivePositions(t *testing.T) {
	onRanks(t, 5, func(m *Machine) error {
		ctx := context.Background()
		s := must(NewShape(ctx, m, Axis{Len: 12}))
		v := must(on(s, func(pos []int) int { return pos[0] }))
		low := must(on(s, func(pos []int) bool { return pos[0] < 3 }))
		one := must(on(s, func(pos []int) bool { return pos[0] == 1 }))
		sums := [4]int{}
		reduce := func(i int) func(c *Ctx) error {
			return func(c *Ctx) (err error) { sums[i], err = Reduce(c, v, Sum[int]()); return err }
		}
		err := With(ctx, s).Where(low, func(c *Ctx) error {
			return firstError(c.Where(one, reduce(0), reduce(1)), reduce(3)(c.Everywhere()))
		}, reduce(2))
		if want := [4]int{1, 2, 63, 66}; sums != want {
			return fmt.Errorf("sums %v; expected %v", sums, want)
		}
		return err
	})
}

func TestAReductionOverNoActivePositionIsTheIdentity(t *testing.T) {
	onRanks(t, 3, func(m *Machine) error {
		s := must(NewShape(context.Background(), m, Axis{Len: 12}))
		v := must(New[float64](s))
		return With(context.Background(), s).Where(must(New[bool](s)), func(c *Ctx) error {
			sum, err := Reduce(c, v, Sum[float64]())
			least, err2 := Reduce(c, v, Min[float64]())
			all, err3 := Reduce(c, must(New[bool](s)), All())
			if sum != 0 || least != largest[float64]() || !all {
				return fmt.Errorf("%v, %v, %v", sum, least, all)
			}
			return firstError(err, err2, err3)
		}, nil)
	})
}

func TestIdentitiesAreTheEndsOfTheirTypes(t *testing.T) {
	if smallest[int8]() != -128 || largest[int8]() != 127 || largest[uint16]() != 65535 || smallest[uint16]() != 0 ||
		largest[int64]() != 1<<63-1 || largest[float32]() <= 3e38 || And[uint8]().Identity != 255 {
		t.Error("an identity is wrong")
	}
}
