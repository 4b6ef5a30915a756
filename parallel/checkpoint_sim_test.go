package parallel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/parallel"
	"github.com/weftnet/weft/sim"
)

// saver computes heat in steps. It starts from the last checkpoint, and saves a checkpoint after
// every 5 steps.
type saver struct {
	store parallel.Store
	n     int
	steps int

	loaded uint64 // step of the checkpoint
	u      *parallel.Var[float64]
	next   *parallel.Var[float64]
}

// run computes on a machine until the end or an error, and returns the sum of squares.
func (a *saver) run(ctx context.Context, m *parallel.Machine) (float64, error) {
	s, err := parallel.NewShape(ctx, m, parallel.Axis{Len: a.n, Halo: 1})
	if err != nil {
		return 0, err
	}
	if a.u, err = parallel.New[float64](s); err != nil {
		return 0, err
	}
	if a.next, err = parallel.New[float64](s); err != nil {
		return 0, err
	}
	step, err := parallel.Load(ctx, m, a.store, parallel.Named("u", a.u))
	if errors.Is(err, parallel.ErrNoCheckpoint) {
		parallel.Fill(a.u, func(pos []int) float64 { return float64(pos[0]*pos[0]%17) / 3 })
	} else if err != nil {
		return 0, err
	}
	a.loaded = step
	c := parallel.With(ctx, s)
	for ; step < uint64(a.steps); step++ {
		if step%5 == 0 {
			if err := parallel.Save(ctx, m, a.store, step, parallel.Named("u", a.u)); err != nil {
				return 0, err
			}
		}
		err := parallel.Stencil(c, a.next, a.u, parallel.Value(1.0), func(at *parallel.Window[float64], out []float64) {
			l, r := at.Row(-1), at.Row(+1)
			for i := range out {
				out[i] = (l[i] + r[i]) / 2
			}
		})
		if err != nil {
			return 0, err
		}
		a.u, a.next = a.next, a.u
	}
	parallel.Map(c, a.next, a.u, func(x float64) float64 { return x * x })
	return parallel.Reduce(c, a.next, parallel.Sum[float64]())
}

// Ranks die one after another, each at some moment of the work. The others shrink and continue
// from the last checkpoint. The result has the same bits as that of a run without a death.
func TestAfterShrinkTheResultHasTheBitsOfAnUndisturbedRun(t *testing.T) {
	want, err := heat(t.Context(), machineOfOne(t), 200, 40)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for seed := range uint64(10) {
		dir := parallel.Dir(t.TempDir())
		shrunk := 0
		f := sim.New(sim.Config{Seed: seed, NICs: 3, Faults: sim.Faults{Loss: 0.02, Duplicate: 0.01}})
		for i := range 5 {
			f.Process(i/2, fmt.Sprintf("m/%d", i), func(p *sim.Process) error {
				ctx := context.Background()
				g, err := p.Join(ctx, "m", 5)
				if err != nil {
					return err
				}
				m, err := parallel.On(ctx, p.Weft(), g)
				if err != nil {
					return err
				}
				doomed := i == int(seed)%5 || i == int(seed+2)%5
				ended := false
				if doomed {
					p.Start("death", func(p *sim.Process) error {
						err := p.Runtime().Sleep(ctx, time.Duration(1+p.Rand().IntN(6000))*time.Microsecond)
						ended = true
						return errors.Join(err, p.Weft().Close())
					})
				}
				for {
					got, err := (&saver{store: dir, n: 200, steps: 40}).run(ctx, m)
					switch {
					case ended:
						return nil
					case err == nil && got != want:
						return fmt.Errorf("%v; expected %v", got, want)
					case err == nil:
						err = m.Close()
						if ended || errors.Is(err, parallel.ErrRankGone) {
							return nil // a rank died after all had finished
						}
						return err
					case !errors.Is(err, parallel.ErrRankGone):
						return fmt.Errorf("%w; expected ErrRankGone", err)
					}
					shrunk++
					if m, err = m.Shrink(ctx); ended {
						return nil
					} else if err != nil {
						return fmt.Errorf("shrink: %w", err)
					}
				}
			})
		}
		if err := f.Run(10 * time.Minute); err != nil {
			t.Fatal(err)
		}
		total += shrunk
	}
	if total == 0 {
		t.Error("no rank died during the work")
	}
}

// A new job of another size continues from the checkpoint of a job that has died, as with a
// restart.
func TestAfterARestartTheResultHasTheBitsOfAnUndisturbedRun(t *testing.T) {
	want, err := heat(t.Context(), machineOfOne(t), 200, 40)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(5) {
		dir := parallel.Dir(t.TempDir())
		simulated(t, seed, sim.Faults{}, 4, func(p *sim.Process, m *parallel.Machine) error {
			// Then the job dies.
			_, err := (&saver{store: dir, n: 200, steps: 23}).run(context.Background(), m)
			return err
		})
		simulated(t, seed, sim.Faults{}, 3, func(p *sim.Process, m *parallel.Machine) error {
			got, err := (&saver{store: dir, n: 200, steps: 40}).run(context.Background(), m)
			if err != nil || got != want {
				return fmt.Errorf("%v, %w; expected %v", got, err, want)
			}
			return m.Close()
		})
	}
}
