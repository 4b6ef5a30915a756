package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/picture"
	"github.com/weftnet/weft/parallel"
)

// The picture shows the residual after each step, and the solution.
func TestPictureOfCG(t *testing.T) {
	m, err := parallel.Init(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	residuals, x, err := solve(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	d := picture.New(800, 410, "Conjugate gradient: Poisson's equation on a square", "examples/cg",
		"On the left, the residual falls from 100 to less than a hundred-millionth. On the right, the solution: a "+
			"bowl with its lowest point near the middle.")
	p := &picture.Plot{Left: 60, Top: 104, Right: 440, Bottom: 340,
		X: picture.Axis{From: 0, To: 140, Label: "step"},
		Y: picture.Axis{From: 1e-9, To: 1e3, Log: true, Label: "residual"}}
	for v := 0; v <= 140; v += 20 {
		p.X.Ticks = append(p.X.Ticks, picture.Tick{Value: float64(v), Name: fmt.Sprint(v)})
	}
	for _, v := range []float64{1e-9, 1e-6, 1e-3, 1, 1e3} {
		p.Y.Ticks = append(p.Y.Ticks, picture.Tick{Value: v, Name: fmt.Sprint(v)})
	}
	d.Plot(p)
	end := p.At(140, tolerance)
	d.Path("thin dash red", []picture.Point{p.At(0, tolerance), end})
	d.Text("red", p.Left+8, end.Y-6, "tolerance")
	var path []picture.Point
	for i, r := range residuals {
		path = append(path, p.At(float64(i), r))
	}
	d.Path("way blue", path)

	lowest := slices.Min(x)
	levels := make([]int, len(x))
	for i, v := range x {
		levels[i] = max(0, min(int(picture.Levels*v/lowest), picture.Levels-1))
	}
	const cell, left, top = 4, 510, 84
	d.Text("small", left, top-10, fmt.Sprintf("solution on %d × %d points", side, side))
	d.Grid(left, top, cell, side, levels)
	d.Text("small", left, top+side*cell+32, "0")
	d.Key(left+16, top+side*cell+19, 18)
	d.Text("small", left+16+picture.Levels*18+8, top+side*cell+32, fmt.Sprintf("%.0f", lowest))
	picture.Check(t, d, "cg.svg")
}
