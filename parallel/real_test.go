package parallel_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
	"github.com/weftnet/weft/parallel"
)

// machines opens the machine of n ranks, each with its own NIC, on a switch in memory.
func machines(t *testing.T, n int) []*parallel.Machine {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	sw, list := weft.NewSwitch(), make([]*parallel.Machine, n)
	procs := make([]*weft.Process, n)
	for i := range n {
		t.Setenv("WEFT_NAME", "job-1")
		t.Setenv("WEFT_RANK", strconv.Itoa(i))
		t.Setenv("WEFT_SIZE", strconv.Itoa(n))
		p, err := weft.Open(ctx, weft.Config{Link: sw.Link()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		procs[i] = p
	}
	err := load.Together(ctx, n, func(ctx context.Context, i int) (err error) {
		g, err := procs[i].World(ctx)
		if err == nil {
			list[i], err = parallel.On(ctx, procs[i], g)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestHeatOnRealNICsHasTheBitsOfOneRank(t *testing.T) {
	want, err := heat(t.Context(), machineOfOne(t), 1000, 50)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{2, 3} {
		list := machines(t, n)
		err := load.Together(t.Context(), n, func(ctx context.Context, i int) error {
			got, err := heat(ctx, list[i], 1000, 50)
			if err != nil || got != want {
				return fmt.Errorf("%v, %w; expected %v", got, err, want)
			}
			return list[i].Close()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestLongElementsTravelInParts(t *testing.T) {
	const length = 1 << 20 // 8 MiB; half of it moves to the other rank
	list := machines(t, 2)
	err := load.Together(t.Context(), 2, func(ctx context.Context, i int) error {
		s, err := parallel.NewShape(ctx, list[i], parallel.Axis{Len: length})
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
		return list[i].Close()
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRealRanksThatDivergeFailWithBothNames(t *testing.T) {
	list, errs := machines(t, 3), make([]error, 3)
	err := load.Together(t.Context(), 3, func(_ context.Context, i int) error {
		errs[i] = sumOrMax(list[i], i == 1)
		return list[i].Close()
	})
	for i, e := range errs {
		var mismatch *parallel.MismatchError
		if !errors.As(e, &mismatch) || mismatch.Rank != 1 && mismatch.Other != 1 {
			t.Errorf("rank %d: %v; expected a mismatch with rank 1", i, e)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// A long edge stays at its sender until the receiver waits for it. An operation in between, in
// which the ranks exchange nothing, does not wait for it.
func TestAnOperationBetweenTheStartAndTheEndOfALongHalo(t *testing.T) {
	list := machines(t, 2)
	err := load.Together(t.Context(), 2, func(ctx context.Context, i int) error {
		s, err := parallel.NewShape(ctx, list[i], parallel.Axis{Len: 4, Halo: 1}, parallel.Axis{Len: 100_000})
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
		c := parallel.With(ctx, s)
		h, err := parallel.StartHalo(c, v, parallel.Value(0))
		if err != nil {
			return err
		}
		if err := parallel.Spread(c, d, v, 1, 0); err != nil {
			return err
		}
		if err := h.Wait(); err != nil {
			return err
		}
		return list[i].Close()
	})
	if err != nil {
		t.Fatal(err)
	}
}
