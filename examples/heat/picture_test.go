package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/picture"
	"github.com/weftnet/weft/parallel"
	"github.com/weftnet/weft/sim"
)

// A snapshot is the plate after a step, as rank 0 has gathered it.
type snapshot struct {
	step   uint64
	points []float64
	owners []int // of each row
}

// gather returns a snapshot at rank 0, and nil at the other ranks.
func gather(ctx context.Context, plate *parallel.Var[float64], step uint64) (*snapshot, error) {
	s, shot := plate.Shape(), (*snapshot)(nil)
	var points []float64
	if s.Machine().Rank() == 0 {
		shot = &snapshot{step: step, points: make([]float64, s.Len())}
		points = shot.points
		shot.owners = owners(s)
	}
	return shot, parallel.Gather(parallel.With(ctx, s), plate, 0, points)
}

// owners returns the rank that holds each row.
func owners(s *parallel.Shape) (ranks []int) {
	for row := range *side {
		ranks = append(ranks, s.Owner(row, 0))
	}
	return ranks
}

func shape(ctx context.Context, m *parallel.Machine) (*parallel.Shape, error) {
	return parallel.NewShape(ctx, m, parallel.Axis{Len: *side, Halo: 1}, parallel.Axis{Len: *side, Halo: 1})
}

// reload loads the last checkpoint, and returns it.
func reload(ctx context.Context, m *parallel.Machine) (*snapshot, error) {
	s, err := shape(ctx, m)
	if err != nil {
		return nil, err
	}
	plate, err := parallel.New[float64](s)
	if err != nil {
		return nil, err
	}
	step, err := load(ctx, m, plate)
	if err != nil {
		return nil, err
	}
	return gather(ctx, plate, step)
}

// die ends a process when a checkpoint of the given step exists.
func die(ctx context.Context, p *sim.Process, step uint64) error {
	for {
		for _, slot := range []string{"a", "b"} {
			b, err := os.ReadFile(filepath.Join(*checkpoint, slot+".manifest"))
			if err == nil && binary.LittleEndian.Uint64(b[8:]) == step {
				return p.Weft().Close()
			}
		}
		if err := p.Runtime().Sleep(ctx, 20*time.Microsecond); err != nil {
			return err
		}
	}
}

const lastCheckpoint = 6 * saveEvery // the last one by four ranks

// death runs the example on four simulated ranks. Rank 2 dies after a checkpoint. death returns
// the checkpoint from which the others go on, and the plate at the end.
func death(t *testing.T) (before, after *snapshot) {
	t.Helper()
	f := sim.New(sim.Config{Seed: 1, NICs: 4})
	for i := range 4 {
		f.Process(i, fmt.Sprintf("heat/%d", i), func(p *sim.Process) error {
			ctx := context.Background()
			g, err := p.Join(ctx, "heat", 4)
			if err != nil {
				return err
			}
			m, err := parallel.On(ctx, p.Weft(), g)
			if err != nil {
				return err
			}
			s, err := shape(ctx, m)
			if err != nil {
				return err
			}
			if i == 2 {
				p.Start("death", func(p *sim.Process) error { return die(ctx, p, lastCheckpoint) })
			}
			_, err = spread(ctx, m)
			if i == 2 {
				return nil // it is dead
			}
			if !errors.Is(err, parallel.ErrRankGone) {
				return fmt.Errorf("rank %d: %w; expected ErrRankGone", i, err)
			}
			if m, err = m.Shrink(ctx); err != nil {
				return err
			}
			shot, err := reload(ctx, m)
			if err != nil {
				return err
			}
			plate, err := spread(ctx, m)
			if err != nil {
				return err
			}
			end, err := gather(ctx, plate, uint64(*steps))
			if err != nil {
				return err
			}
			if shot != nil {
				before, after = shot, end
				before.owners = owners(s) // of the four ranks that have saved it
			}
			return m.Close()
		})
	}
	if err := f.Run(10 * time.Minute); err != nil {
		t.Fatal(err)
	}
	return before, after
}

// The picture shows the last checkpoint of four ranks, and the plate that three ranks have
// computed from it. Both have the same bits as a plain loop gives.
func TestPictureOfHeatAfterTheDeathOfARank(t *testing.T) {
	*side, *steps, *checkpoint = 80, 1000, t.TempDir()
	before, after := death(t)
	if before == nil || after == nil || before.step != lastCheckpoint {
		t.Fatalf("the others went on from %+v; expected step %d", before, lastCheckpoint)
	}
	for _, shot := range []*snapshot{before, after} {
		for i, want := range serial(*side, int(shot.step)) {
			if x := shot.points[i]; math.Float64bits(x) != math.Float64bits(want) {
				t.Fatalf("after step %d, point %d,%d is %v; expected %v", shot.step, i / *side, i%*side, x, want)
			}
		}
	}
	const left, right, top, cell = 20, 430, 96, 4
	d := picture.New(830, 492, "Heat: a plate by Jacobi's method, and the death of a rank",
		"examples/heat on 80 × 80 points",
		"Two plates with a hot upper edge. On the left, four ranks hold the rows after step 600, and rank 2 dies. "+
			"On the right, three ranks hold the rows after step 1000, and the heat has spread further.")
	d.Text("small", left, top-12, fmt.Sprintf("step %d, the last checkpoint of 4 ranks", before.step))
	d.Text("small", right, top-12, fmt.Sprintf("step %d, computed from it by the other 3", after.step))
	plate(d, left, top, cell, before, 2)
	plate(d, right, top, cell, after, -1)
	d.Key(left, 434, 26, "0", "10", "20", "30", "40", "50", "60", "70", "80", "90")
	d.Text("small", left+picture.Levels*26+10, 451, "degrees, each color from")
	picture.Check(t, d, "heat.svg")
}

// plate draws a snapshot with the rows of each rank.
func plate(d *picture.Drawing, x, y, cell float64, shot *snapshot, dead int) {
	var levels []int
	for _, degrees := range shot.points {
		levels = append(levels, min(int(degrees)/10, picture.Levels-1))
	}
	d.Grid(x, y, cell, *side, levels)
	end := x + cell*float64(*side)
	first := 0
	for row := 1; row <= *side; row++ {
		if row < *side && shot.owners[row] == shot.owners[first] {
			continue
		}
		name, class := fmt.Sprintf("rank %d", shot.owners[first]), "small"
		if shot.owners[first] == dead {
			name, class = name+" †", "red"
		}
		d.Text(class, end+8, y+cell*float64(first+row)/2+4, name)
		if row < *side {
			at := y + cell*float64(row)
			d.Line("cut", picture.Point{X: x, Y: at}, picture.Point{X: end, Y: at})
		}
		first = row
	}
}
