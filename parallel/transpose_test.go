package parallel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// drawTurn draws a shape and its transpose.
func drawTurn(rng *rand.Rand) (to, from []Axis) {
	a, b := 1+rng.IntN(90), 1+rng.IntN(90)
	draw := func(x, y int) []Axis {
		return []Axis{{Len: x, Whole: rng.IntN(3) == 0, Halo: rng.IntN(2)}, {Len: y, Halo: rng.IntN(2)}}
	}
	return draw(a, b), draw(b, a)
}

func TestTransposeExchangesTheCoordinatesOfRandomShapes(t *testing.T) {
	rng := rand.New(rand.NewPCG(34, 2))
	for range 60 {
		to, from := drawTurn(rng)
		ranks, masked := 1+rng.IntN(8), rng.IntN(2) == 0
		all := !masked && rng.IntN(2) == 0
		onRanks(t, ranks, func(m *Machine) error {
			ctx := context.Background()
			sd, ss := must(NewShape(ctx, m, to...)), must(NewShape(ctx, m, from...))
			dst := must(on(sd, func(pos []int) int { return pos[0] }))
			src := must(on(ss, func(pos []int) int { return 1000*pos[0] + pos[1] }))
			mask := must(on(sd, func(pos []int) bool { return !masked || (pos[0]+2*pos[1])%3 > 0 }))
			turn := func(c *Ctx) error {
				return Transpose(c, dst, src, func(pos []int, out, in []int) {
					for k, x := range in {
						if x != 1000*(pos[1]+k)+pos[0] {
							panic(fmt.Sprint(pos, k, x))
						}
						out[k] += 7 * x
					}
				})
			}
			for range 2 {
				run := func() error { return With(ctx, sd).Where(mask, turn, nil) }
				if all {
					run = func() error { return turn(With(ctx, sd)) }
				}
				if err := run(); err != nil {
					return err
				}
			}
			return expect(dst, func(index int) int {
				i, j := index/to[1].Len, index%to[1].Len
				if masked && (i+2*j)%3 == 0 {
					return i
				}
				return i + 14*(1000*j+i)
			})
		})
	}
}

func TestTransposeRefusesShapesThatDoNotFit(t *testing.T) {
	ctx := context.Background()
	m := newMachine(nil, nil, nil, 0)
	v := must(New[int](must(NewShape(ctx, m, Axis{Len: 3}, Axis{Len: 3}))))
	copied := func(_ []int, out, in []int) { copy(out, in) }
	for _, axes := range [][]Axis{{{Len: 3}}, {{Len: 4}, {Len: 3}}, {{Len: 3}, {Len: 4}}, nil} {
		m := newMachine(nil, nil, nil, 0)
		s := must(NewShape(ctx, m, Axis{Len: 3}, Axis{Len: 3}))
		dst, src := must(New[int](s)), v // v belongs to another machine
		if axes != nil {
			src = must(New[int](must(NewShape(ctx, m, axes...))))
		}
		if err := Transpose(With(ctx, s), dst, src, copied); !errors.Is(err, ErrBadArgument) {
			t.Errorf("%v: %v; expected ErrBadArgument", axes, err)
		}
	}
	if err := Transpose(With(ctx, v.s), v, v, copied); !errors.Is(err, ErrBadArgument) {
		t.Errorf("dst is src: %v; expected ErrBadArgument", err)
	}
}

func TestTransposeAgainAllocatesNoMemoryForElements(t *testing.T) {
	s := must(NewShape(context.Background(), newMachine(nil, nil, nil, 0), Axis{Len: 200}, Axis{Len: 200}))
	dst, src := must(New[float64](s)), must(New[float64](s))
	c := With(context.Background(), s)
	n := testing.AllocsPerRun(5, func() {
		if err := Transpose(c, dst, src, func(_ []int, out, in []float64) { copy(out, in) }); err != nil {
			t.Fatal(err)
		}
	})
	if n > 20 {
		t.Errorf("Transpose allocates %v times", n)
	}
}

// The rows of a rank are shorter than a message, as long as several messages, or nearly as long
// as one.
func TestTransposeExchangesLongRows(t *testing.T) {
	for _, n := range []int{5000, 2 * (maxData/8 - 1), 2 * (maxData/8 + 1), 150_000} {
		onRanks(t, 2, func(m *Machine) error {
			ctx := context.Background()
			const lines = 5
			sd, ss := must(NewShape(ctx, m, Axis{Len: lines}, Axis{Len: n})), must(NewShape(ctx, m, Axis{Len: n}, Axis{Len: lines}))
			dst := must(New[int](sd))
			src := must(on(ss, func(pos []int) int { return lines*pos[0] + pos[1] }))
			for range 3 {
				err := Transpose(With(ctx, sd), dst, src, func(_ []int, out, in []int) { copy(out, in) })
				if err != nil {
					return err
				}
			}
			return expect(dst, func(index int) int { return lines*(index%n) + index/n })
		})
	}
}
