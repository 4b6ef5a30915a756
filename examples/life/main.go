// Command life plays Conway's Game of Life on a torus, on any number of ranks:
//
//	go build -o life ./examples/life
//	weft run -n 4 -- ./life
//
// It prints, with and without a launcher:
//
//	................
//	................
//	................
//	................
//	..........OOO...
//	................
//	................
//	................
//	................
//	................
//	...........O....
//	............O...
//	..........OOO...
//	................
//	................
//	................
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/weftnet/weft/parallel"
)

const side = 16

// generations is the number of generations. A glider moves one cell in four generations, so here
// it ends in the opposite corner.
const generations = 40

// alive reports whether a cell lives at the start: a glider, and a row of three.
func alive(i, j int) bool {
	switch [2]int{i, j} {
	case [2]int{0, 1}, [2]int{1, 2}, [2]int{2, 0}, [2]int{2, 1}, [2]int{2, 2}:
		return true
	}
	return i == 4 && j >= 10 && j < 13
}

func main() {
	ctx := context.Background()
	m, err := parallel.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	cells, err := play(ctx, m, generations)
	if err == nil && m.Rank() == 0 {
		fmt.Print(draw(cells))
	}
	if err := errors.Join(err, m.Close()); err != nil {
		log.Fatal(err)
	}
}

// play returns the cells after a number of generations, at rank 0.
func play(ctx context.Context, m *parallel.Machine, generations int) ([]uint8, error) {
	ring := parallel.Axis{Len: side, Halo: 1, Torus: true}
	s, err := parallel.NewShape(ctx, m, ring, ring)
	if err != nil {
		return nil, err
	}
	cells, err := parallel.New[uint8](s)
	if err != nil {
		return nil, err
	}
	next, err := parallel.New[uint8](s)
	if err != nil {
		return nil, err
	}
	parallel.Fill(cells, func(pos []int) uint8 {
		if alive(pos[0], pos[1]) {
			return 1
		}
		return 0
	})
	c := parallel.With(ctx, s)
	for range generations {
		if err := parallel.Stencil(c, next, cells, parallel.Torus[uint8](), live); err != nil {
			return nil, err
		}
		cells, next = next, cells
	}
	var all []uint8
	if m.Rank() == 0 {
		all = make([]uint8, s.Len())
	}
	return all, parallel.Gather(c, cells, 0, all)
}

// live decides which cells of a run live in the next generation.
func live(at *parallel.Window[uint8], out []uint8) {
	clear(out)
	for i := -1; i <= 1; i++ {
		for j := -1; j <= 1; j++ {
			if i == 0 && j == 0 {
				continue
			}
			for k, x := range at.Row(i, j) {
				out[k] += x
			}
		}
	}
	for k, x := range at.Row() {
		if n := out[k]; n == 3 || n == 2 && x == 1 {
			out[k] = 1
		} else {
			out[k] = 0
		}
	}
}

// draw returns the cells as text.
func draw(cells []uint8) string {
	var b strings.Builder
	for i := range side {
		for _, x := range cells[i*side : (i+1)*side] {
			b.WriteByte(".O"[x])
		}
		b.WriteByte('\n')
	}
	return b.String()
}
