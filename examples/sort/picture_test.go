package main

import (
	"fmt"
	"testing"

	"github.com/weftnet/weft/internal/picture"
	"github.com/weftnet/weft/parallel"
)

// The picture shows the keys before and after the sort.
func TestPictureOfSort(t *testing.T) {
	m, err := parallel.Init(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	sorted, err := sortRecords(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	const every = 97 // a dot for each 97th record
	d := picture.New(800, 400, "Sample sort: 50,000 records", fmt.Sprintf("examples/sort, each %dth record", every),
		"Two plots of keys by place. On the left the keys are scattered, on the right they rise along a line.")
	axes := func(left float64, label string) *picture.Plot {
		return &picture.Plot{Left: left, Top: 104, Right: left + 310, Bottom: 340,
			X: picture.Axis{From: 0, To: count, Label: "place", Ticks: []picture.Tick{
				{Value: 0, Name: "0"}, {Value: 25_000, Name: "25,000"}, {Value: 50_000, Name: "50,000"}}},
			Y: picture.Axis{From: 0, To: 65_536, Label: label, Ticks: []picture.Tick{
				{Value: 0, Name: "0"}, {Value: 32_768, Name: "32,768"}, {Value: 65_536, Name: "65,536"}}}}
	}
	before, after := axes(70, "key, before"), axes(460, "key, after Rank and Send")
	var drawnAt, sortedAt []picture.Point
	for i := 0; i < count; i += every {
		drawnAt = append(drawnAt, before.At(float64(i), float64(drawn(i).Key)))
		sortedAt = append(sortedAt, after.At(float64(i), float64(sorted[i].Key)))
	}
	d.Plot(before)
	d.Plot(after)
	d.Dots("red", drawnAt)
	d.Dots("blue", sortedAt)
	picture.Check(t, d, "sort.svg")
}
