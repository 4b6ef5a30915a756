package bench

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/parallel"
)

// Names of the works.
const (
	workJacobi           = "jacobi"
	workJacobiPlain      = "jacobi-plain"
	workJacobiGoroutines = "jacobi-goroutines"
	workHalo             = "halo"
	workCall             = "call"
	workWaitHidden       = "wait-hidden"
	workWaitAlone        = "wait-alone"
	workScan             = "scan"
	workCopy             = "copy"
	workSum              = "sum"
	workSumFree          = "sum-free"
	workStencil          = "stencil"
	workTranspose        = "transpose"
)

var parallelWorks = map[string]parallelWork{
	workJacobi: (*parallelRank).jacobi, workJacobiPlain: jacobiPlain, workJacobiGoroutines: jacobiGoroutines,
	workHalo: (*parallelRank).halo, workCall: (*parallelRank).call,
	workWaitHidden: (*parallelRank).waitHidden, workWaitAlone: (*parallelRank).waitAlone,
	workScan: (*parallelRank).scan, workCopy: copied, workSum: (*parallelRank).sum,
	workSumFree: (*parallelRank).sumFree,
	workStencil: (*parallelRank).stencil, workTranspose: (*parallelRank).transpose,
}

// verified is the Check of works that compare their result with a serial computation themselves.
const verified = "verified"

// jacobiRow is the loop of all Jacobi works. It is not inlined, so all works run the same
// instructions.
//
//go:noinline
func jacobiRow(out, up, down, left, right []float64) {
	up, down, left, right = up[:len(out)], down[:len(out)], left[:len(out)], right[:len(out)]
	for j := range out {
		out[j] = (up[j] + down[j] + left[j] + right[j]) / 4
	}
}

// hot returns the first value of Jacobi at a position.
func hot(i, j int) float64 { return float64((7*i+13*j)%101) / 3 }

// hash returns a sum over the elements of a row. The hashes of several rows add up.
func hash(row []float64, index int) (sum int64) {
	for j, x := range row {
		sum += int64(math.Float64bits(x)) * int64(2*(index+j)+1)
	}
	return sum
}

// grid is a square with a border of zeros.
type grid struct {
	n, step int
	mem     []float64
}

func newGrid(n int) *grid { return &grid{n, n + 2, make([]float64, (n+2)*(n+2))} }

// row returns row i from column j on. Row −1 and column −1 are in the border.
func (g *grid) row(i, j int) []float64 { return g.mem[(i+1)*g.step+j+1:][:g.n] }

// sweep computes rows of g from those of u.
func (g *grid) sweep(u *grid, from, to int) {
	for i := from; i < to; i++ {
		jacobiRow(g.row(i, 0), u.row(i-1, 0), u.row(i+1, 0), u.row(i, -1), u.row(i, 1))
	}
}

// onGrids runs the iterations of Jacobi; step computes one grid from another.
func onGrids(q parallelQuestion, step func(next, u *grid)) parallelAnswer {
	u, next := newGrid(q.Size), newGrid(q.Size)
	for i := range q.Size {
		for j, row := 0, u.row(i, 0); j < q.Size; j++ {
			row[j] = hot(i, j)
		}
	}
	a := alone(q, func(int) {
		step(next, u)
		u, next = next, u
	})
	sum := int64(0)
	for i := range q.Size {
		sum += hash(u.row(i, 0), i*q.Size)
	}
	a.Check = fmt.Sprintf("%016x", uint64(sum))
	return a
}

// jacobiPlain runs Jacobi in one goroutine, without package parallel.
func jacobiPlain(_ *parallelRank, _ context.Context, q parallelQuestion) (parallelAnswer, error) {
	return onGrids(q, func(next, u *grid) { next.sweep(u, 0, q.Size) }), nil
}

// jacobiGoroutines runs Jacobi in two goroutines, which meet after each iteration.
func jacobiGoroutines(_ *parallelRank, _ context.Context, q parallelQuestion) (parallelAnswer, error) {
	return onGrids(q, func(next, u *grid) {
		var both sync.WaitGroup
		both.Go(func() { next.sweep(u, 0, q.Size/2) })
		next.sweep(u, q.Size/2, q.Size)
		both.Wait()
	}), nil
}

// plate makes the variables of Jacobi.
func (r *parallelRank) plate(ctx context.Context, n int) (c *parallel.Ctx, u, next *parallel.Var[float64], err error) {
	axis := parallel.Axis{Len: n, Halo: 1}
	s, err := parallel.NewShape(ctx, r.m, axis, axis)
	if err != nil {
		return nil, nil, nil, err
	}
	if u, err = parallel.New[float64](s); err == nil {
		next, err = parallel.New[float64](s)
	}
	if err == nil {
		parallel.Fill(u, func(pos []int) float64 { return hot(pos[0], pos[1]) })
	}
	return parallel.With(ctx, s), u, next, err
}

// stepJacobi computes a row of the Stencil.
func stepJacobi(at *parallel.Window[float64], out []float64) {
	jacobiRow(out, at.Row(-1, 0), at.Row(1, 0), at.Row(0, -1), at.Row(0, 1))
}

// jacobi runs Jacobi with package parallel.
func (r *parallelRank) jacobi(ctx context.Context, q parallelQuestion) (parallelAnswer, error) {
	c, u, next, err := r.plate(ctx, q.Size)
	if err != nil {
		return parallelAnswer{}, err
	}
	a, err := r.timed(ctx, q, func(int) error {
		err := parallel.Stencil(c, next, u, parallel.Value(0.0), stepJacobi)
		u, next = next, u
		return err
	})
	if err == nil {
		a.Check, err = r.hashOf(ctx, u)
	}
	return a, err
}

// hashOf returns the hash of a variable of two axes.
func (r *parallelRank) hashOf(ctx context.Context, v *parallel.Var[float64]) (string, error) {
	sum := []int64{0}
	n := v.Shape().Axes()[1].Len
	parallel.Rows(parallel.With(ctx, v.Shape()), v, func(pos []int, run []float64) {
		sum[0] += hash(run, pos[0]*n+pos[1])
	})
	err := weft.AllReduce(ctx, r.m.Group(), weft.Sum, sum)
	return fmt.Sprintf("%016x", uint64(sum[0])), err
}

// waitAlone measures how long the ranks wait for halos in a Jacobi that exchanges them before it
// computes.
func (r *parallelRank) waitAlone(ctx context.Context, q parallelQuestion) (parallelAnswer, error) {
	c, u, next, err := r.plate(ctx, q.Size)
	if err != nil {
		return parallelAnswer{}, err
	}
	waits := time.Duration(0)
	a, err := r.timed(ctx, q, func(i int) error {
		h, err := parallel.StartHalo(c, u, parallel.Value(0.0))
		if err != nil {
			return err
		}
		begin := time.Now()
		err = h.Wait()
		if i >= q.Warm {
			waits += time.Since(begin)
		}
		if err == nil {
			err = parallel.Around(c, next, u, stepJacobi)
		}
		u, next = next, u
		return err
	})
	if err != nil {
		return a, err
	}
	return r.waited(ctx, a, waits, u)
}

// waitHidden measures how long the ranks wait between the last run of the interior and the first
// run at an edge.
func (r *parallelRank) waitHidden(ctx context.Context, q parallelQuestion) (parallelAnswer, error) {
	c, u, next, err := r.plate(ctx, q.Size)
	if err != nil {
		return parallelAnswer{}, err
	}
	local := c.Shape().Local()
	first, last := local.Lo[0], local.Lo[0]+local.Len[0]-1
	waits, interior := time.Duration(0), false
	var done time.Time // end of the interior
	step := func(at *parallel.Window[float64], out []float64) {
		if i := at.Pos[0]; interior && (i == first || i == last) {
			waits += time.Since(done)
			interior = false
		}
		stepJacobi(at, out)
		if at.Pos[0] == last-1 {
			done, interior = time.Now(), true
		}
	}
	a, err := r.timed(ctx, q, func(i int) error {
		if i == q.Warm {
			waits = 0
		}
		err := parallel.Stencil(c, next, u, parallel.Value(0.0), step)
		u, next = next, u
		return err
	})
	if err != nil {
		return a, err
	}
	return r.waited(ctx, a, waits, u)
}

// waited makes the answer from the waits of this rank.
func (r *parallelRank) waited(
	ctx context.Context, a parallelAnswer, waits time.Duration, u *parallel.Var[float64],
) (parallelAnswer, error) {
	sum := []int64{waits.Nanoseconds()}
	err := weft.AllReduce(ctx, r.m.Group(), weft.Sum, sum)
	a.Took = max(sum[0]/int64(r.m.Size()), 1)
	if err == nil {
		a.Check, err = r.hashOf(ctx, u)
	}
	return a, err
}
