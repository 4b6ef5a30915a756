package parallel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/sim"
)

// A sweep runs one job in a simulation with random faults. The seed decides everything. The job
// may have a defect. If the job misbehaves, run returns an error.
type sweep struct {
	seed   uint64
	defect mutate.ParallelDefect
	rng    *rand.Rand
	ranks  int
	main   func(p *sim.Process, m *Machine) error
}

func newSweep(seed uint64, defect mutate.ParallelDefect) *sweep {
	rng := rand.New(rand.NewPCG(seed, 41))
	w := &sweep{seed: seed, defect: defect, rng: rng, ranks: 2 + rng.IntN(5)}
	switch seed % 4 {
	case 0:
		w.main = w.properties()
	case 1:
		w.main = w.diverging()
	case 2:
		w.main = w.dying()
	case 3:
		w.main = w.saving()
	}
	return w
}

func (w *sweep) run() error {
	faults := sim.Faults{}
	if w.rng.IntN(3) > 0 {
		faults = sim.Faults{Loss: 0.05 * w.rng.Float64(), Duplicate: 0.03, Reorder: 0.1 * w.rng.Float64()}
	}
	f := sim.New(sim.Config{Seed: w.seed, NICs: (w.ranks + 1) / 2, Faults: faults})
	for i := range w.ranks {
		f.Process(i/2, fmt.Sprintf("m/%d", i), func(p *sim.Process) error {
			g, err := p.Join(context.Background(), "m", w.ranks)
			if err != nil {
				return err
			}
			m, err := On(context.Background(), p.Weft(), g)
			if err != nil {
				return err
			}
			m.defect = w.defect
			m.w.(*weftWire).unseen = w.defect == mutate.ParallelDeathUnseen
			return tried(func(m *Machine) error { return w.main(p, m) }, m)
		})
	}
	return f.Run(time.Minute)
}

// pause makes a rank idle for a moment.
func pause(p *sim.Process) {
	if p.Rand().IntN(3) == 0 {
		p.Runtime().Sleep(context.Background(), time.Duration(p.Rand().IntN(300))*time.Microsecond)
	}
}

// properties compares the results of operations with those of serial loops, and a sum with that
// of one rank.
func (w *sweep) properties() func(p *sim.Process, m *Machine) error {
	world := drawWorld(w.rng)
	world.root = w.rng.IntN(w.ranks)
	order := w.rng.Perm(len(properties))[:4]
	alone := newMachine(nil, nil, nil, 0)
	float := func(m *Machine) (float64, error) {
		s, err := NewShape(context.Background(), m, Axis{Len: 3 + world.total})
		if err != nil {
			return 0, err
		}
		v := must(on(s, func(pos []int) float64 { return unevenFloat(pos[0]) }))
		return Reduce(With(context.Background(), s), v, Sum[float64]())
	}
	want := must(float(alone))
	return func(p *sim.Process, m *Machine) error {
		s, err := NewShape(context.Background(), m, world.axes...)
		if err != nil {
			return err
		}
		mask := ints(s, world.mask)
		for _, i := range order {
			pause(p)
			run := func(c *Ctx) error { return properties[i].run(world, c, m) }
			if err := With(context.Background(), s).Where(mask, run, nil); err != nil {
				return fmt.Errorf("%s: %w", properties[i].name, err)
			}
		}
		got, err := float(m)
		if err == nil && math.Float64bits(got) != math.Float64bits(want) {
			err = fmt.Errorf("the sum is %v on %v; expected the bits of one rank, %v", got, m, want)
		}
		return firstError(err, m.Close())
	}
}

// diverging makes one rank call another operation at some moment. The error at every rank must
// name this rank.
func (w *sweep) diverging() func(p *sim.Process, m *Machine) error {
	which, when, how := w.rng.IntN(w.ranks), w.rng.IntN(20), w.rng.IntN(4)
	return func(p *sim.Process, m *Machine) error {
		s, err := NewShape(context.Background(), m, Axis{Len: 100, Halo: 1})
		if err != nil {
			return w.mustName(err, which)
		}
		v, d := must(New[int](s)), must(New[int](s))
		c := With(context.Background(), s)
		for i := range when + 3*mostAhead {
			pause(p)
			odd := i == when && m.rank == which
			switch {
			case how == 0 && odd:
				_, err = Reduce(c, v, Max[int]())
			case how == 0:
				_, err = Reduce(c, v, Sum[int]())
			case how == 1 && odd: // it waits for another rank, and that rank waits for it
				err = Spread(c, d, v, 0, s.start[(which+1)%w.ranks])
			case how == 1:
				err = Spread(c, d, v, 0, s.start[which])
			case how == 2 && odd:
				err = m.Barrier(c.ctx)
			case how == 2:
				err = Shift(c, d, v, 0, 1, Value(0))
			case odd:
				err = Scan(c, d, v, 0, Sum[int](), ScanOpt{})
			default:
				err = Stencil(c, d, v, Value(0), func(*Window[int], []int) {})
			}
			if err != nil {
				return w.mustName(err, which)
			}
		}
		return fmt.Errorf("rank %d does something else in operation %d, and %v does not notice", which, when, m)
	}
}

// mustName returns an error unless err is a mismatch that names the rank.
func (w *sweep) mustName(err error, which int) error {
	var mismatch *MismatchError
	if !errors.As(err, &mismatch) || mismatch.Rank != which && mismatch.Other != which {
		return fmt.Errorf("%w; expected a mismatch with rank %d", err, which)
	}
	return nil
}

// dying makes ranks end one after another. The others must notice, shrink and continue.
func (w *sweep) dying() func(p *sim.Process, m *Machine) error {
	length := 20 + w.rng.IntN(300)
	return func(p *sim.Process, m *Machine) error {
		first := m.rank
		for alive := w.ranks; ; alive-- {
			if first == w.ranks-alive && alive > 1 {
				p.Runtime().Sleep(context.Background(), time.Duration(p.Rand().IntN(2000))*time.Microsecond)
				return nil
			}
			var err error
			for n := 0; err == nil && (alive > 1 || n == 0); n++ {
				if err = sumsOf(m, length); err != nil && !errors.Is(err, ErrRankGone) {
					return fmt.Errorf("with %d ranks: %w; expected ErrRankGone", alive, err)
				}
			}
			if alive == 1 {
				return firstError(err, m.Close())
			}
			if m, err = m.Shrink(context.Background()); err != nil || m.size != alive-1 {
				return fmt.Errorf("shrink from %d: %v, %w", alive, m, err)
			}
		}
	}
}

// sumsOf scans a variable and checks the result.
func sumsOf(m *Machine, length int) error {
	s, err := NewShape(context.Background(), m, Axis{Len: length})
	if err != nil {
		return err
	}
	v, d := must(on(s, func(pos []int) int { return pos[0] })), must(New[int](s))
	if err := Scan(With(context.Background(), s), d, v, 0, Sum[int](), ScanOpt{}); err != nil {
		return err
	}
	return expect(d, func(i int) int { return i * (i + 1) / 2 })
}

// saving saves several steps and then loads. The store fails, or the newest data is damaged in
// one rank's part.
func (w *sweep) saving() func(p *sim.Process, m *Machine) error {
	store, axes := newShelf(), []Axis{{Len: 5 + w.rng.IntN(60)}}
	damage, breaks := w.rng.IntN(2) == 0, w.rng.IntN(4*w.ranks)
	name, at := "a.data", w.rng.Float64()
	return func(p *sim.Process, m *Machine) error {
		for step := 1; step <= 3; step++ {
			if err := saveStep(m, store, axes, step); err != nil {
				return err
			}
		}
		want := 3
		if damage { // the data of step 3, which is in slot a
			if m.rank == 0 {
				store.objects[name][int(at*float64(len(store.objects[name])))] ^= 8
			}
			want = 2
			if err := m.Barrier(context.Background()); err != nil {
				return err
			}
		} else if err := w.torn(m, store, axes, breaks); err != nil {
			return err
		} else if m.fault != nil {
			var err error
			if m, err = m.Shrink(context.Background()); err != nil {
				return err
			}
		} else {
			want = 4
		}
		got, err := loadStep(m, store, axes)
		if err == nil && got != want {
			err = fmt.Errorf("%v loads step %d; expected %d", m, got, want)
		}
		return firstError(err, m.Close())
	}
}

// torn saves step 4 to a store that fails after some calls, and repairs the store.
func (w *sweep) torn(m *Machine, store *shelf, axes []Axis, breaks int) error {
	if err := m.Barrier(context.Background()); err != nil {
		return err
	}
	if m.rank == 0 {
		store.writes = breaks
	}
	if err := m.Barrier(context.Background()); err != nil {
		return err
	}
	err := saveStep(m, store, axes, 4)
	if err != nil && m.fault == nil {
		return fmt.Errorf("Save fails with %w, and the machine goes on", err)
	}
	if m.rank == 0 {
		store.writes = -1
	}
	return nil
}

func TestTheSweepFindsNothingInASoundMachine(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 24
	}
	for seed := range seeds {
		if err := newSweep(seed, mutate.ParallelNone).run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// mostSeeds is the number of seeds within which the sweep must find a defect.
const mostSeeds = 1000

func TestTheSweepFindsEachDefect(t *testing.T) {
	for _, d := range mutate.ParallelDefects() {
		t.Run(string(d), func(t *testing.T) {
			for seed := range uint64(mostSeeds) {
				if err := newSweep(seed, d).run(); err != nil {
					t.Logf("seed %d: %.300v", seed, err)
					return
				}
			}
			t.Errorf("%d seeds do not find it", mostSeeds)
		})
	}
}
