package parallel

import (
	"context"
	"errors"
	"testing"
)

// exchanged returns a variable whose halo is fresh, and a Ctx of its shape.
func exchanged(m *Machine) (*Ctx, *Var[int]) {
	c := With(context.Background(), must(NewShape(context.Background(), m, Axis{Len: 9, Halo: 1})))
	v := must(on(c.s, func(pos []int) int { return pos[0] }))
	if err := must(StartHalo(c, v, Value(0))).Wait(); err != nil {
		panic(unexpected{err})
	}
	return c, v
}

// writers lists all calls that write to a variable.
var writers = map[string]func(c *Ctx, v, other *Var[int]) error{
	"Fill":  func(c *Ctx, v, _ *Var[int]) error { Fill(v, func([]int) int { return 1 }); return nil },
	"Row":   func(c *Ctx, v, _ *Var[int]) error { v.Row()[0] = 1; return nil },
	"Rows":  func(c *Ctx, v, _ *Var[int]) error { Rows(c, v, func([]int, []int) {}); return nil },
	"Rows2": func(c *Ctx, v, o *Var[int]) error { Rows2(c, v, o, func(_, _, _ []int) {}); return nil },
	"Rows2, second": func(c *Ctx, v, o *Var[int]) error {
		Rows2(c, o, v, func(_, _, _ []int) {})
		return nil
	},
	"Rows3": func(c *Ctx, v, o *Var[int]) error { Rows3(c, v, o, o, func(_, _, _, _ []int) {}); return nil },
	"Rows3, second": func(c *Ctx, v, o *Var[int]) error {
		Rows3(c, o, v, o, func(_, _, _, _ []int) {})
		return nil
	},
	"Rows3, third": func(c *Ctx, v, o *Var[int]) error {
		Rows3(c, o, o, v, func(_, _, _, _ []int) {})
		return nil
	},
	"Map": func(c *Ctx, v, o *Var[int]) error { Map(c, v, o, func(x int) int { return x }); return nil },
	"Map2": func(c *Ctx, v, o *Var[int]) error {
		Map2(c, v, o, o, func(x, y int) int { return x })
		return nil
	},
	"Pcoord":     func(c *Ctx, v, _ *Var[int]) error { Pcoord(c, v, 0); return nil },
	"ReduceAxis": func(c *Ctx, v, o *Var[int]) error { return ReduceAxis(c, v, o, 0, Sum[int]()) },
	"Scan":       func(c *Ctx, v, o *Var[int]) error { return Scan(c, v, o, 0, Sum[int](), ScanOpt{}) },
	"Spread":     func(c *Ctx, v, o *Var[int]) error { return Spread(c, v, o, 0, 3) },
	"Shift":      func(c *Ctx, v, o *Var[int]) error { return Shift(c, v, o, 0, 1, Value(0)) },
	"Get":        func(c *Ctx, v, o *Var[int]) error { return Get(c, v, o, must(New[int](c.s))) },
	"Send":       func(c *Ctx, v, o *Var[int]) error { return Send(c, v, o, o, Op[int]{}) },
	"Rank":       func(c *Ctx, v, o *Var[int]) error { return Rank(c, v, o, 0) },
	"Sort":       func(c *Ctx, v, o *Var[int]) error { return Sort(c, v, o, 0) },
	"Scatter":    func(c *Ctx, v, _ *Var[int]) error { return Scatter(c, v, 0, make([]int, 9)) },
	"Load": func(c *Ctx, v, o *Var[int]) error {
		store := newShelf()
		_, err := Load(c.ctx, c.s.m, store, Named("v", v))
		if errors.Is(err, ErrNoCheckpoint) {
			err = Save(c.ctx, c.s.m, store, 1, Named("v", o))
		}
		if err == nil {
			_, err = Load(c.ctx, c.s.m, store, Named("v", v))
		}
		return err
	},
	"Stencil": func(c *Ctx, v, o *Var[int]) error {
		return Stencil(c, v, o, Value(0), func(*Window[int], []int) {})
	},
	"Around": func(c *Ctx, v, o *Var[int]) error {
		if err := must(StartHalo(c, o, Value(0))).Wait(); err != nil {
			return err
		}
		return Around(c, v, o, func(*Window[int], []int) {})
	},
}

func TestEveryWriteMakesAHaloStale(t *testing.T) {
	for name, write := range writers {
		c, v := exchanged(newMachine(nil, nil, nil, 0))
		other := must(on(c.s, func(pos []int) int { return pos[0] }))
		if err := write(c, v, other); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		err := Around(c, must(New[int](c.s)), v, func(*Window[int], []int) {})
		if !errors.Is(err, ErrStaleHalo) {
			t.Errorf("Around after %s: %v; expected %v", name, err, ErrStaleHalo)
		}
	}
}

func TestReadingLeavesAHaloFresh(t *testing.T) {
	c, v := exchanged(newMachine(nil, nil, nil, 0))
	d, at := must(New[int](c.s)), must(on(c.s, func(pos []int) int { return pos[0] }))
	_, reduced := Reduce(c, v, Sum[int]())
	v.At(3)
	Map(c, d, v, func(x int) int { return x })
	err := firstError(reduced, ReduceAxis(c, d, v, 0, Sum[int]()), Scan(c, d, v, 0, Sum[int](), ScanOpt{}),
		Spread(c, d, v, 0, 1), Shift(c, d, v, 0, 1, Value(0)), Get(c, d, at, v), Send(c, d, at, v, Op[int]{}),
		Rank(c, d, v, 0), Sort(c, d, v, 0), Gather(c, v, 0, make([]int, 9)),
		Save(c.ctx, c.s.m, newShelf(), 1, Named("v", v)),
		Around(c, d, v, func(*Window[int], []int) {}))
	if err != nil {
		t.Error(err)
	}
}

// The variable beside has its own halo.
func TestBesideNeedsAFreshHaloOfTheSameShape(t *testing.T) {
	for name, do := range map[string]func(c *Ctx, beside *Var[int]) (*Var[int], error){
		"fresh":         func(c *Ctx, beside *Var[int]) (*Var[int], error) { return beside, nil },
		"stale":         func(c *Ctx, beside *Var[int]) (*Var[int], error) { beside.Row(); return beside, ErrStaleHalo },
		"never":         func(c *Ctx, _ *Var[int]) (*Var[int], error) { return must(New[int](c.s)), ErrStaleHalo },
		"another shape": func(c *Ctx, _ *Var[int]) (*Var[int], error) { _, v := exchanged(c.s.m); return v, ErrBadArgument },
	} {
		c, v := exchanged(newMachine(nil, nil, nil, 0))
		w := must(on(c.s, func(pos []int) int { return 10 * pos[0] }))
		if err := must(StartHalo(c, w, Value(7))).Wait(); err != nil {
			t.Fatal(err)
		}
		beside, want := do(c, w)
		d := must(New[int](c.s))
		err := Stencil(c, d, v, Value(0), func(at *Window[int], out []int) {
			b := Beside(at, beside)
			for i, x := range b.Row(1) {
				out[i] = x + at.Row()[i]
			}
		})
		if !errors.Is(err, want) {
			t.Errorf("%s: %v; expected %v", name, err, want)
		}
		if want == nil {
			if err := expect(d, func(i int) int { return []int{10, 21, 32, 43, 54, 65, 76, 87, 15}[i] }); err != nil {
				t.Error(err)
			}
		}
	}
}
