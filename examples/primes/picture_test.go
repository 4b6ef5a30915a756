package main

import (
	"fmt"
	"math"
	"testing"

	"github.com/weftnet/weft/internal/picture"
	"github.com/weftnet/weft/parallel"
)

// The picture shows the number of primes up to each number: the places that the scan gives.
func TestPictureOfPrimes(t *testing.T) {
	m, err := parallel.Init(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	primes, err := list(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	d := picture.New(800, 400, "Prefix sums: the places of the primes", "examples/primes",
		"Two plots. On the left, a staircase: the places of the primes below 100. On the right, the places of all "+
			"primes below 100,000, and the function n/ln n below them.")
	near := &picture.Plot{Left: 60, Top: 104, Right: 370, Bottom: 340,
		X: picture.Axis{From: 0, To: 100, Label: "number", Ticks: numbers(0, 20, 40, 60, 80, 100)},
		Y: picture.Axis{From: 0, To: 26, Label: "primes up to the number", Ticks: numbers(0, 5, 10, 15, 20, 25)}}
	far := &picture.Plot{Left: 450, Top: 104, Right: 760, Bottom: 340,
		X: picture.Axis{From: 0, To: below, Label: "number", Ticks: numbers(0, 25_000, 50_000, 75_000, 100_000)},
		Y: picture.Axis{From: 0, To: 10_000, Label: "primes up to the number",
			Ticks: numbers(0, 2000, 4000, 6000, 8000, 10_000)}}
	var stairs, all, estimate []picture.Point
	stairs = append(stairs, near.At(0, 0))
	for i, p := range primes {
		if p < 100 {
			stairs = append(stairs, near.At(float64(p), float64(i)), near.At(float64(p), float64(i+1)))
		}
		if i%50 == 0 || i == len(primes)-1 {
			all = append(all, far.At(float64(p), float64(i+1)))
			estimate = append(estimate, far.At(float64(max(p, 3)), float64(p)/math.Log(float64(p))))
		}
	}
	stairs = append(stairs, picture.Point{X: near.Right, Y: stairs[len(stairs)-1].Y})
	d.Plot(near)
	d.Plot(far)
	d.Path("way blue", stairs)
	d.Path("thin dash grey", estimate)
	d.Path("way blue", all)
	d.Text("blue end", far.Right-90, far.Top+50, fmt.Sprintf("%d primes", len(primes)))
	d.Text("grey", far.Right-80, far.Top+110, "n / ln n")
	picture.Check(t, d, "primes.svg")
}

// numbers returns ticks with whole numbers.
func numbers(values ...float64) (ticks []picture.Tick) {
	for _, v := range values {
		name := fmt.Sprint(v)
		if v >= 1000 {
			name = fmt.Sprintf("%d,%03d", int(v)/1000, int(v)%1000)
		}
		ticks = append(ticks, picture.Tick{Value: v, Name: name})
	}
	return ticks
}
