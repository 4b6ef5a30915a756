package main

import (
	"fmt"
	"testing"

	"github.com/weftnet/weft/internal/picture"
	"github.com/weftnet/weft/parallel"
)

// The picture shows the board after 0, 10, 20, 30 and 40 generations.
func TestPictureOfLife(t *testing.T) {
	m, err := parallel.Init(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const cell, gap, left, top = 9, 20, 20, 92
	width := 2*left + 5*side*cell + 4*gap
	d := picture.New(width, top+side*cell+24, "Life: a glider and a blinker on a torus", "examples/life",
		"Five boards of 16 by 16 cells. A glider moves from the upper left corner to the lower right corner.")
	for i := range 5 {
		generation := i * generations / 4
		cells, err := play(t.Context(), m, generation)
		if err != nil {
			t.Fatal(err)
		}
		x, y := float64(left+i*(side*cell+gap)), float64(top)
		d.Text("small", x, y-10, fmt.Sprintf("generation %d", generation))
		for k := range side + 1 {
			at := float64(k * cell)
			d.Line("grid", picture.Point{X: x + at, Y: y}, picture.Point{X: x + at, Y: y + side*cell})
			d.Line("grid", picture.Point{X: x, Y: y + at}, picture.Point{X: x + side*cell, Y: y + at})
		}
		var alive []picture.Point
		for k, c := range cells {
			if c == 1 {
				column, row := float64(k%side), float64(k/side)
				alive = append(alive, picture.Point{X: x + cell*(column+0.5), Y: y + cell*(row+0.5)})
			}
		}
		d.Dots("big green", alive)
	}
	picture.Check(t, d, "life.svg")
}
