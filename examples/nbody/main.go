// Command nbody moves bodies that attract each other, on any number of ranks. A copy of all bodies
// goes round the ring of positions, and each body adds up the forces of the bodies that pass:
//
//	go build -o nbody ./examples/nbody
//	weft run -n 4 -- ./nbody
//
// It prints, with and without a launcher:
//
//	after 20 steps, body 0 of 60 is at 1.015222, 0.210178
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"

	"github.com/weftnet/weft/parallel"
)

const (
	count = 60
	steps = 20
	step  = 0.01
)

type body struct{ X, Y, VX, VY, Mass float64 }

type force struct{ X, Y float64 }

// first returns a body at the start: on a circle, and moving along it.
func first(i int) body {
	a := 2 * math.Pi * float64(i) / count
	r := 1 + float64(i%7)/10
	return body{X: r * math.Cos(a), Y: r * math.Sin(a), VX: -math.Sin(a), VY: math.Cos(a), Mass: 1 / float64(count)}
}

// pull adds the force of body b on body a.
func pull(f *force, a, b *body) {
	dx, dy := b.X-a.X, b.Y-a.Y
	d := dx*dx + dy*dy + 1e-3
	k := b.Mass / (d * math.Sqrt(d))
	f.X += k * dx
	f.Y += k * dy
}

// move moves a body for one step.
func move(b *body, f force) {
	b.VX += step * f.X
	b.VY += step * f.Y
	b.X += step * b.VX
	b.Y += step * b.VY
}

func main() {
	ctx := context.Background()
	m, err := parallel.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	bodies, err := run(ctx, m, steps)
	if err == nil && m.Rank() == 0 {
		fmt.Printf("after %d steps, body 0 of %d is at %.6f, %.6f\n", steps, count, bodies[0].X, bodies[0].Y)
	}
	if err := errors.Join(err, m.Close()); err != nil {
		log.Fatal(err)
	}
}

// run returns the bodies after a number of steps, at rank 0.
func run(ctx context.Context, m *parallel.Machine, steps int) ([]body, error) {
	s, err := parallel.NewShape(ctx, m, parallel.Axis{Len: count, Torus: true})
	if err != nil {
		return nil, err
	}
	bodies, err1 := parallel.New[body](s)
	guests, err2 := parallel.New[body](s)
	next, err3 := parallel.New[body](s)
	forces, err4 := parallel.New[force](s)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	parallel.Fill(bodies, func(pos []int) body { return first(pos[0]) })
	c := parallel.With(ctx, s)
	for range steps {
		parallel.Map(c, guests, bodies, func(b body) body { return b })
		parallel.Fill(forces, func([]int) force { return force{} })
		for range count - 1 {
			if err := parallel.Shift(c, next, guests, 0, 1, parallel.Torus[body]()); err != nil {
				return nil, err
			}
			guests, next = next, guests
			parallel.Rows3(c, forces, bodies, guests, func(_ []int, f []force, a, b []body) {
				for i := range f {
					pull(&f[i], &a[i], &b[i])
				}
			})
		}
		parallel.Rows2(c, bodies, forces, func(_ []int, b []body, f []force) {
			for i := range b {
				move(&b[i], f[i])
			}
		})
	}
	var all []body
	if m.Rank() == 0 {
		all = make([]body, count)
	}
	return all, parallel.Gather(c, bodies, 0, all)
}
