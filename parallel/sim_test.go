package parallel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/parallel"
	"github.com/weftnet/weft/sim"
)

// simulated runs a function on n ranks in a simulation, with two ranks on each host.
func simulated(
	t *testing.T, seed uint64, faults sim.Faults, n int, main func(p *sim.Process, m *parallel.Machine) error,
) {
	t.Helper()
	f := sim.New(sim.Config{Seed: seed, NICs: (n + 1) / 2, Faults: faults})
	for i := range n {
		f.Process(i/2, fmt.Sprintf("m/%d", i), func(p *sim.Process) error {
			ctx := context.Background()
			g, err := p.Join(ctx, "m", n)
			if err != nil {
				return err
			}
			m, err := parallel.On(ctx, p.Weft(), g)
			if err != nil {
				return err
			}
			return main(p, m)
		})
	}
	if err := f.Run(10 * time.Minute); err != nil {
		t.Fatal(err)
	}
}

// heat computes steps of a one-dimensional Jacobi iteration, and returns the sum of squares.
func heat(ctx context.Context, m *parallel.Machine, n, steps int) (float64, error) {
	s, err := parallel.NewShape(ctx, m, parallel.Axis{Len: n, Halo: 1})
	if err != nil {
		return 0, err
	}
	u, err := parallel.New[float64](s)
	if err != nil {
		return 0, err
	}
	next, err := parallel.New[float64](s)
	if err != nil {
		return 0, err
	}
	parallel.Fill(u, func(pos []int) float64 { return float64(pos[0]*pos[0]%17) / 3 })
	c := parallel.With(ctx, s)
	for range steps {
		err := parallel.Stencil(c, next, u, parallel.Value(1.0), func(at *parallel.Window[float64], out []float64) {
			l, r := at.Row(-1), at.Row(+1)
			for i := range out {
				out[i] = (l[i] + r[i]) / 2
			}
		})
		if err != nil {
			return 0, err
		}
		u, next = next, u
	}
	parallel.Map(c, next, u, func(x float64) float64 { return x * x })
	return parallel.Reduce(c, next, parallel.Sum[float64]())
}

// machineOfOne returns the machine of a program without a launcher.
func machineOfOne(t *testing.T) *parallel.Machine {
	t.Helper()
	m, err := parallel.Init(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func TestHeatInASimulationHasTheBitsOfOneRank(t *testing.T) {
	want, err := heat(t.Context(), machineOfOne(t), 500, 20)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(4) {
		for _, n := range []int{2, 3, 5, 8} {
			faults := sim.Faults{Loss: 0.03, Duplicate: 0.02, Reorder: 0.05}
			simulated(t, seed, faults, n, func(p *sim.Process, m *parallel.Machine) error {
				got, err := heat(context.Background(), m, 500, 20)
				if err != nil || got != want {
					return fmt.Errorf("%v, %w; expected %v", got, err, want)
				}
				return m.Close()
			})
		}
	}
}

// sumOrMax reduces a variable by one of two operators.
func sumOrMax(m *parallel.Machine, most bool) error {
	ctx := context.Background()
	s, err := parallel.NewShape(ctx, m, parallel.Axis{Len: 100})
	if err != nil {
		return err
	}
	v, err := parallel.New[int](s)
	if err != nil {
		return err
	}
	op := parallel.Sum[int]()
	if most {
		op = parallel.Max[int]()
	}
	_, err = parallel.Reduce(parallel.With(ctx, s), v, op)
	return err
}

func TestRanksThatDivergeInASimulationFailWithBothNames(t *testing.T) {
	for seed := range uint64(6) {
		simulated(t, seed, sim.Faults{Loss: 0.02}, 5, func(p *sim.Process, m *parallel.Machine) error {
			err := sumOrMax(m, m.Rank() == int(seed)%5) // a slow rank fails before its Reduce
			var mismatch *parallel.MismatchError
			if !errors.As(err, &mismatch) || mismatch.Rank != int(seed)%5 && mismatch.Other != int(seed)%5 {
				return fmt.Errorf("rank %d: %w; expected a mismatch with rank %d", m.Rank(), err, seed%5)
			}
			return m.Close()
		})
	}
}

func TestAMachineOutlivesItsRanks(t *testing.T) {
	want, err := heat(t.Context(), machineOfOne(t), 300, 30)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(8) {
		simulated(t, seed, sim.Faults{Loss: 0.02}, 5, func(p *sim.Process, m *parallel.Machine) error {
			ctx := context.Background()
			first := m.Rank()
			for alive := 5; ; alive-- {
				var got float64
				var err error
				// Ends silently, at some moment of the others' work.
				if first == 5-alive && alive > 1 {
					p.Runtime().Sleep(ctx, time.Duration(p.Rand().IntN(2000))*time.Microsecond)
					return nil
				}
				for err == nil && alive > 1 { // until a rank ends
					got, err = heat(ctx, m, 300, 30)
					if err == nil && got != want {
						return fmt.Errorf("%v on %d ranks; expected %v", got, alive, want)
					}
				}
				if alive == 1 {
					if got, err = heat(ctx, m, 300, 30); err != nil || got != want {
						return fmt.Errorf("%v, %w on the last rank; expected %v", got, err, want)
					}
					return m.Close()
				}
				if !errors.Is(err, parallel.ErrRankGone) {
					return fmt.Errorf("with %d ranks: %w; expected ErrRankGone", alive, err)
				}
				if strings.Contains(err.Error(), "barrier") {
					return fmt.Errorf("%w; expected no operation that the program has not called", err)
				}
				if m, err = m.Shrink(ctx); err != nil || m.Size() != alive-1 {
					return fmt.Errorf("shrink from %d: %v, %w", alive, m, err)
				}
			}
		})
	}
}

func TestASecondMachineIsAnError(t *testing.T) {
	machineOfOne(t)
	if _, err := parallel.Init(t.Context()); !errors.Is(err, parallel.ErrInitialized) {
		t.Errorf("a second Init: %v", err)
	}
	simulated(t, 1, sim.Faults{}, 2, func(p *sim.Process, m *parallel.Machine) error {
		if _, err := parallel.On(context.Background(), p.Weft(), m.Group()); !errors.Is(err, parallel.ErrInitialized) {
			return fmt.Errorf("a second On: %w", err)
		}
		return m.Close()
	})
}

// A long shift has more parts than a process can have sends in flight. Both ranks send before
// they receive.
func TestALongShiftInBothDirections(t *testing.T) {
	const length = 6 << 20 // 24 MiB in each direction
	simulated(t, 1, sim.Faults{}, 2, func(p *sim.Process, m *parallel.Machine) error {
		ctx := context.Background()
		s, err := parallel.NewShape(ctx, m, parallel.Axis{Len: length})
		if err != nil {
			return err
		}
		v, err := parallel.New[int](s)
		if err != nil {
			return err
		}
		d, err := parallel.New[int](s)
		if err != nil {
			return err
		}
		parallel.Fill(v, func(pos []int) int { return pos[0] })
		if err := parallel.Shift(parallel.With(ctx, s), d, v, 0, length/2, parallel.Torus[int]()); err != nil {
			return err
		}
		for k, x := range d.Row() {
			if want := (s.Local().Lo[0] + k + length/2) % length; x != want {
				return fmt.Errorf("element %d is %d; expected %d", k, x, want)
			}
		}
		return m.Close()
	})
}

// Rank 1 gives up while it waits for rank 2, which is late. All ranks, including the late one,
// get rank 1's error, and can shrink.
func TestADeadlineOfOneRankEndsTheOperationOfAll(t *testing.T) {
	for seed := range uint64(4) {
		simulated(t, seed, sim.Faults{Loss: 0.02}, 4, func(p *sim.Process, m *parallel.Machine) error {
			ctx := context.Background()
			if err := m.Barrier(ctx); err != nil {
				return err
			}
			limited, cancel := ctx, func() {}
			switch m.Rank() {
			case 1:
				limited, cancel = p.Runtime().WithTimeout(ctx, 5*time.Millisecond)
			case 2:
				p.Runtime().Sleep(ctx, 50*time.Millisecond)
			}
			err := m.Barrier(limited)
			cancel()
			var of *parallel.RankError
			if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &of) || of.Rank != 1 {
				return fmt.Errorf("rank %d: %w; expected the deadline of rank 1", m.Rank(), err)
			}
			m, err = m.Shrink(ctx)
			if err != nil {
				return err
			}
			return errors.Join(m.Barrier(ctx), m.Close())
		})
	}
}

// A host is cut off from the others. Each side detects that the ranks of the other side are gone.
func TestACutHostIsSeenOnBothSides(t *testing.T) {
	for seed := range uint64(4) {
		f := sim.New(sim.Config{Seed: seed, NICs: 3})
		f.After(3*time.Millisecond, func() { f.Partition(int(seed % 3)) })
		for i := range 6 {
			f.Process(i/2, fmt.Sprintf("m/%d", i), func(p *sim.Process) error {
				ctx := context.Background()
				g, err := p.Join(ctx, "m", 6)
				if err != nil {
					return err
				}
				m, err := parallel.On(ctx, p.Weft(), g)
				if err != nil {
					return err
				}
				for err == nil {
					_, err = heat(ctx, m, 300, 10)
				}
				if !errors.Is(err, parallel.ErrRankGone) {
					return fmt.Errorf("rank %d: %w; expected ErrRankGone", m.Rank(), err)
				}
				return m.Close()
			})
		}
		if err := f.Run(10 * time.Minute); err != nil {
			t.Fatal(err)
		}
	}
}

// One more rank ends while the others shrink. The others must all continue with one machine, and
// each needs at most one more Shrink.
func TestADeathDuringAShrinkLeavesTheOthersOnOneMachine(t *testing.T) {
	seeds := uint64(30)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		finished := 0
		f := sim.New(sim.Config{Seed: seed, NICs: 3})
		for i := range 6 {
			f.Process(i/2, fmt.Sprintf("m/%d", i), func(p *sim.Process) error {
				ctx := context.Background()
				g, err := p.Join(ctx, "m", 6)
				if err != nil {
					return err
				}
				m, err := parallel.On(ctx, p.Weft(), g)
				if err != nil {
					return err
				}
				ended := false
				if first, second := int(seed)%6, int(seed/6+seed+1)%6; i == first || i == second {
					p.Start("death", func(p *sim.Process) error {
						at := time.Millisecond
						// The others wait 200 ms for a reason, and then shrink.
						if i == second {
							at += 200*time.Millisecond + time.Duration(p.Rand().IntN(200_000))*time.Nanosecond
						}
						p.Runtime().Sleep(ctx, at)
						ended = true
						return p.Weft().Close()
					})
				}
				for n := 0; ; {
					if _, err = heat(ctx, m, 300, 10); err == nil && m.Size() == 4 {
						n++
					}
					switch {
					case ended:
						return nil
					case n == 30:
						finished++
						return m.Close()
					case err == nil && m.Size() < 4:
						return fmt.Errorf("rank %d has a machine of %d ranks; expected 4", m.Rank(), m.Size())
					case err == nil:
						continue
					case !errors.Is(err, parallel.ErrRankGone):
						return fmt.Errorf("rank %d: %w; expected ErrRankGone", m.Rank(), err)
					}
					n = 0
					if m, err = m.Shrink(ctx); ended {
						return nil
					} else if err != nil {
						return err
					}
				}
			})
		}
		if err := f.Run(10 * time.Minute); err != nil {
			t.Fatal(err)
		}
		if finished != 4 {
			t.Fatalf("seed %d: %d ranks finished; expected 4", seed, finished)
		}
	}
}
