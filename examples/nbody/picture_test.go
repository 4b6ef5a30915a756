package main

import (
	"fmt"
	"testing"

	"github.com/weftnet/weft/internal/picture"
	"github.com/weftnet/weft/parallel"
)

// The picture shows the path of each body.
func TestPictureOfNbody(t *testing.T) {
	m, err := parallel.Init(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const last, every = 60, 2 // steps
	d := picture.New(520, 560, "N-body: 60 bodies attract each other", "examples/nbody",
		"The paths of 60 bodies that start on a circle and move along it.")
	p := &picture.Plot{Left: 60, Top: 96, Right: 490, Bottom: 490,
		X: picture.Axis{From: -2.18, To: 2.18, Label: "x", Ticks: ticks()},
		Y: picture.Axis{From: -2, To: 2, Label: "y", Ticks: ticks()}}
	d.Plot(p)
	paths := make([][]picture.Point, count)
	for step := 0; step <= last; step += every {
		bodies, err := run(t.Context(), m, step)
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range bodies {
			paths[i] = append(paths[i], p.At(b.X, b.Y))
		}
	}
	var ends []picture.Point
	for _, path := range paths {
		d.Path("thin blue", path)
		ends = append(ends, path[len(path)-1])
	}
	d.Dots("red", ends)
	d.Text("red end", p.Right, p.Top-10, fmt.Sprintf("after %d steps", last))
	picture.Check(t, d, "nbody.svg")
}

func ticks() (l []picture.Tick) {
	for v := -2; v <= 2; v++ {
		l = append(l, picture.Tick{Value: float64(v), Name: fmt.Sprint(v)})
	}
	return l
}
