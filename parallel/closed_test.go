package parallel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/sim"
)

// callsOf calls operations on a machine that has ended, and returns their errors.
func callsOf(m *Machine, s *Shape, v *Var[int]) map[string]error {
	ctx := context.Background()
	_, reduce := Reduce(With(ctx, s), v, Sum[int]())
	_, start := StartHalo(With(ctx, s), v, Value(0))
	_, shape := NewShape(ctx, m, Axis{Len: 3})
	_, shrink := m.Shrink(ctx)
	_, load := Load(ctx, m, newShelf(), Named("v", v))
	return map[string]error{
		"Reduce": reduce, "StartHalo": start, "NewShape": shape, "Shrink": shrink, "Load": load, "Barrier": m.Barrier(ctx),
		"Save": Save(ctx, m, newShelf(), 1, Named("v", v)),
		// Does not communicate before it fails.
		"Stencil, itself": Stencil(With(ctx, s), v, v, Value(0), nil),
	}
}

func TestOperationsOfAClosedMachineFail(t *testing.T) {
	for name, end := range map[string]func(m *Machine) error{
		"Close":  (*Machine).Close,
		"Shrink": func(m *Machine) error { _, err := m.Shrink(context.Background()); return err },
	} {
		m := newMachine(nil, nil, nil, 0)
		s := must(NewShape(context.Background(), m, Axis{Len: 5, Halo: 1}))
		v, w := must(New[int](s)), must(New[int](s))
		h := must(StartHalo(With(context.Background(), s), w, Value(0)))
		if err := end(m); err != nil {
			t.Fatal(err)
		}
		for call, err := range callsOf(m, s, v) {
			if !errors.Is(err, ErrClosed) || errors.Is(err, ErrBusy) {
				t.Errorf("%s after %s: %v; expected %v", call, name, err, ErrClosed)
			}
		}
		for range 2 {
			if err := h.Wait(); !errors.Is(err, ErrClosed) {
				t.Errorf("Wait after %s: %v; expected %v", name, err, ErrClosed)
			}
		}
		if err := m.Close(); err != nil {
			t.Errorf("a second Close after %s: %v", name, err)
		}
	}
}

// Both machines use the same port. Operations of the program on the old machine must not reach
// the new one.
func TestTheOldMachineDoesNotDisturbTheNewOne(t *testing.T) {
	f := sim.New(sim.Config{Seed: 3, NICs: 3})
	for i := range 3 {
		f.Process(i, fmt.Sprintf("m/%d", i), func(p *sim.Process) error {
			return tried(func(*Machine) error {
				ctx := context.Background()
				m := must(On(ctx, p.Weft(), must(p.Join(ctx, "m", 3))))
				s := must(NewShape(ctx, m, Axis{Len: 9, Halo: 1}))
				v, w := must(New[int](s)), must(New[int](s))
				h := must(StartHalo(With(ctx, s), w, Value(0)))
				n := must(m.Shrink(ctx)) // of a machine that has not failed
				for call, err := range callsOf(m, s, v) {
					if !errors.Is(err, ErrClosed) {
						return fmt.Errorf("%s: %w; expected %w", call, err, ErrClosed)
					}
				}
				if err := h.Wait(); !errors.Is(err, ErrClosed) {
					return fmt.Errorf("wait: %w; expected %w", err, ErrClosed)
				}
				return firstError(m.Close(), sumsOf(n, 20), n.Close())
			}, nil)
		})
	}
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}

func TestAWaitThatFindsTheMachineBusyCanBeRepeated(t *testing.T) {
	m := newMachine(nil, nil, nil, 0)
	s := must(NewShape(context.Background(), m, Axis{Len: 5, Halo: 1}))
	c, v := With(context.Background(), s), must(New[int](s))
	h := must(StartHalo(c, v, Value(0)))
	must(Reduce(c, must(New[int](s)), Op[int]{Join: func(a, b int) int {
		if err := h.Wait(); !errors.Is(err, ErrBusy) {
			t.Errorf("Wait within an operation: %v; expected %v", err, ErrBusy)
		}
		return a + b
	}}))
	for range 2 {
		if err := h.Wait(); err != nil {
			t.Errorf("Wait after the operation: %v", err)
		}
	}
	if err := must(StartHalo(c, v, Value(0))).Wait(); err != nil {
		t.Errorf("another exchange: %v", err)
	}
}

func TestAProgramMayInitializeAgainAfterClose(t *testing.T) {
	for range 2 {
		m, err := Init(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if m.Rank() != 0 || m.Size() != 1 {
			t.Errorf("%v; expected rank 0 of 1", m)
		}
		n, err := m.Shrink(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Init(context.Background()); !errors.Is(err, ErrInitialized) {
			t.Errorf("a second Init: %v; expected %v", err, ErrInitialized)
		}
		if err := errors.Join(m.Close(), n.Close(), n.Close()); err != nil {
			t.Error(err)
		}
	}
	t.Setenv("WEFT_NAME", "job-1")
	t.Setenv("WEFT_RANK", "2")
	t.Setenv("WEFT_SIZE", "2")
	if _, err := Init(context.Background()); err == nil || errors.Is(err, ErrInitialized) {
		t.Errorf("Init as rank 2 of 2: %v", err)
	}
	for _, name := range []string{"WEFT_NAME", "WEFT_RANK", "WEFT_SIZE"} {
		os.Unsetenv(name) // Setenv restores it
	}
	m, err := Init(context.Background())
	if err != nil {
		t.Fatalf("Init after an Init that failed: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// A Close within an operation fails and does nothing, and the machine stays usable.
func TestACloseWithinAnOperationIsAnError(t *testing.T) {
	m := newMachine(nil, nil, nil, 0)
	s := must(NewShape(context.Background(), m, Axis{Len: 5}))
	_, err := Reduce(With(context.Background(), s), must(New[int](s)), Op[int]{Join: func(a, b int) int {
		if err := m.Close(); !errors.Is(err, ErrBusy) {
			t.Errorf("Close within an operation: %v; expected %v", err, ErrBusy)
		}
		return a + b
	}})
	if err := firstError(err, m.Barrier(context.Background()), m.Close()); err != nil {
		t.Error(err)
	}
}

// A rank with two halos in flight waits for them in another order than its neighbors, with other
// operations in between.
func TestTwoHalosInFlight(t *testing.T) {
	onRanks(t, 4, func(m *Machine) error {
		s := must(NewShape(context.Background(), m, Axis{Len: 11, Halo: 2}))
		c := With(context.Background(), s)
		v := []*Var[int]{
			must(on(s, func(pos []int) int { return pos[0] })),
			must(on(s, func(pos []int) int { return -pos[0] })),
		}
		h := []*Halo{must(StartHalo(c, v[0], Value(0))), must(StartHalo(c, v[1], Value(0)))}
		sum := must(Reduce(c, v[0], Sum[int]()))
		first := m.rank & 1
		must(0, h[first].Wait())
		must(0, m.Barrier(c.ctx))
		must(0, h[1-first].Wait())
		d := must(New[int](s))
		for k := range v {
			sign := 1 - 2*k
			must(0, Around(c, d, v[k], func(at *Window[int], out []int) {
				for i, x := range at.Row(-2) {
					out[i] = x + at.Row(2)[i]
				}
			}))
			must(0, expect(d, func(i int) int {
				x := 0
				if i >= 2 {
					x += i - 2
				}
				if i < 9 {
					x += i + 2
				}
				return sign * x
			}))
		}
		if sum != 55 {
			return fmt.Errorf("the sum is %d; expected 55", sum)
		}
		return nil
	})
}

// Where returns the error of its function.
func TestAnErrorInWhereEndsIt(t *testing.T) {
	m := newMachine(nil, nil, nil, 0)
	s := must(NewShape(context.Background(), m, Axis{Len: 5}))
	c, mask, mine := With(context.Background(), s), must(New[bool](s)), errors.New("mine")
	nested := func(c *Ctx) error {
		return c.Where(mask, func(*Ctx) error { return mine }, func(*Ctx) error { panic("unexpected") })
	}
	if err := c.Where(mask, nested, func(*Ctx) error { panic("unexpected") }); err != mine {
		t.Errorf("%v; expected %v", err, mine)
	}
	if err := c.Where(mask, func(*Ctx) error { return nil }, func(*Ctx) error { return mine }); err != mine {
		t.Errorf("%v; expected %v", err, mine)
	}
}

// Data that no operation can expect any more would stay in memory forever.
func TestDataThatNoOperationExpectsIsAnError(t *testing.T) {
	m, w, b := waiting()
	if err := m.take(b); err != nil || !w.done {
		t.Fatal(err)
	}
	if err := m.take(b); err == nil || !strings.Contains(err.Error(), "no operation here expects") || len(m.early) != 0 {
		t.Errorf("the same data again: %v, %d messages kept", err, len(m.early))
	}
	m, _, b = waiting()
	m.seq += 2 * historyLen
	if err := m.take(b); err == nil && len(m.wants) != 0 {
		return // the data belongs to an exchange in flight, such as a halo
	}
	m.wants = nil
	if err := m.take(b); err == nil || len(m.early) != 0 {
		t.Errorf("data of an old operation: %v, %d messages kept", err, len(m.early))
	}
}
