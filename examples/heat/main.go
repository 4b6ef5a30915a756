// Command heat computes how heat spreads in a square plate, by Jacobi's method, on any number of
// ranks. One edge of the plate is hot, and the others are cold. All ranks save a checkpoint after
// every 100 steps. If a rank dies, the others go on from the last checkpoint:
//
//	go build -o heat ./examples/heat
//	weft run -n 4 -- ./heat
//	weft run -n 4 --on-death shrink -- ./heat -checkpoint /tmp/plate -png plate.png
//
// The residual has the same bits on any number of ranks, and after the death of a rank.
//
// It prints, with and without a launcher:
//
//	step 500: the residual is 221.934225 (bits 406bbde52c6beb2e)
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"log"
	"math"
	"os"

	"github.com/weftnet/weft/parallel"
)

var (
	side       = flag.Int("side", 200, "points along each edge of the plate")
	steps      = flag.Int("steps", 500, "number of steps")
	checkpoint = flag.String("checkpoint", "", "directory for checkpoints that all ranks share; empty: none")
	pictureTo  = flag.String("png", "", "file for a picture of the plate; empty: none")
)

const saveEvery = 100 // steps

func main() {
	flag.Parse()
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	m, err := parallel.Init(ctx)
	if err != nil {
		return err
	}
	for {
		plate, err := spread(ctx, m)
		if err == nil {
			err = draw(ctx, plate)
		}
		if !errors.Is(err, parallel.ErrRankGone) {
			return errors.Join(err, m.Close())
		}
		log.Print(err)
		if m, err = m.Shrink(ctx); err != nil {
			return err
		}
	}
}

// spread computes all steps from the last checkpoint on, and returns the plate.
func spread(ctx context.Context, m *parallel.Machine) (*parallel.Var[float64], error) {
	s, err := parallel.NewShape(ctx, m, parallel.Axis{Len: *side, Halo: 1}, parallel.Axis{Len: *side, Halo: 1})
	if err != nil {
		return nil, err
	}
	old, err := parallel.New[float64](s)
	if err != nil {
		return nil, err
	}
	plate, err := parallel.New[float64](s)
	if err != nil {
		return nil, err
	}
	first, err := load(ctx, m, plate)
	if err != nil {
		return nil, err
	}
	if first >= uint64(max(*steps, 0)) {
		return nil, fmt.Errorf("the plate is at step %d already; expected -steps to be more", first)
	}
	c := parallel.With(ctx, s)
	for step := first; step < uint64(*steps); step++ {
		if step%saveEvery == 0 && *checkpoint != "" {
			err := parallel.Save(ctx, m, parallel.Dir(*checkpoint), step, parallel.Named("plate", plate))
			if err != nil {
				return nil, err
			}
		}
		plate, old = old, plate
		if err := parallel.Stencil(c, plate, old, parallel.Value(0.0), mean); err != nil {
			return nil, err
		}
	}
	parallel.Map2(c, old, old, plate, func(a, b float64) float64 { return math.Abs(b - a) })
	residual, err := parallel.Reduce(c, old, parallel.Sum[float64]())
	if err != nil {
		return nil, err
	}
	if m.Rank() == 0 {
		fmt.Printf("step %d: the residual is %.6f (bits %x)\n", *steps, residual, math.Float64bits(residual))
	}
	return plate, nil
}

// mean sets each point to the mean of its four neighbors. The edge at row 0 stays hot.
func mean(at *parallel.Window[float64], out []float64) {
	if at.Pos[0] == 0 {
		for i := range out {
			out[i] = 100
		}
		return
	}
	up, down := at.Row(-1, 0)[:len(out)], at.Row(1, 0)[:len(out)]
	left, right := at.Row(0, -1)[:len(out)], at.Row(0, 1)[:len(out)]
	for i := range out {
		out[i] = (up[i] + down[i] + left[i] + right[i]) / 4
	}
}

// load sets the plate from the last checkpoint, and returns its step. Without a checkpoint, the
// plate is cold.
func load(ctx context.Context, m *parallel.Machine, plate *parallel.Var[float64]) (uint64, error) {
	if *checkpoint == "" {
		return 0, nil
	}
	step, err := parallel.Load(ctx, m, parallel.Dir(*checkpoint), parallel.Named("plate", plate))
	if errors.Is(err, parallel.ErrNoCheckpoint) {
		return 0, nil
	}
	return step, err
}

// draw writes a picture of the plate at rank 0.
func draw(ctx context.Context, plate *parallel.Var[float64]) error {
	if *pictureTo == "" {
		return nil
	}
	var all []float64
	s := plate.Shape()
	rank := s.Machine().Rank()
	if rank == 0 {
		all = make([]float64, s.Len())
	}
	if err := parallel.Gather(parallel.With(ctx, s), plate, 0, all); err != nil || rank != 0 {
		return err
	}
	img := image.NewRGBA(image.Rect(0, 0, *side, *side))
	for i, heat := range all {
		x := math.Sqrt(heat / 100)
		img.Set(i%*side, i / *side, color.RGBA{uint8(255 * x), uint8(255 * x * x), uint8(80 * (1 - x)), 255})
	}
	f, err := os.Create(*pictureTo)
	if err != nil {
		return err
	}
	return errors.Join(png.Encode(f, img), f.Close())
}
