package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/parallel"
)

// The names of the works.
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
	workScan: (*parallelRank).scan, workCopy: copied, workSum: (*parallelRank).sum, workSumFree: (*parallelRank).sumFree,
	workStencil: (*parallelRank).stencil, workTranspose: (*parallelRank).transpose,
}

// verified is the Check of works that compare their result with a serial computation themselves.
const verified = "verified"

// jacobiRow is the loop of all the works of Jacobi.
func jacobiRow(out, up, down, left, right []float64) {
	up, down, left, right = up[:len(out)], down[:len(out)], left[:len(out)], right[:len(out)]
	for j := range out {
		out[j] = (up[j] + down[j] + left[j] + right[j]) / 4
	}
}

// hot is where Jacobi begins.
func hot(i, j int) float64 { return float64((7*i+13*j)%101) / 3 }

// hash is a sum over the elements of a row, so the hashes of the rows add up.
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

// row returns row i from column j on. Row and column −1 are of the border.
func (g *grid) row(i, j int) []float64 { return g.mem[(i+1)*g.step+j+1:][:g.n] }

// sweep computes rows of g from those of u.
func (g *grid) sweep(u *grid, from, to int) {
	for i := from; i < to; i++ {
		jacobiRow(g.row(i, 0), u.row(i-1, 0), u.row(i+1, 0), u.row(i, -1), u.row(i, 1))
	}
}

// onGrids does the iterations of Jacobi by a step from one grid to the next.
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

// jacobiPlain is Jacobi by one goroutine, without package parallel.
func jacobiPlain(_ *parallelRank, _ context.Context, q parallelQuestion) (parallelAnswer, error) {
	return onGrids(q, func(next, u *grid) { next.sweep(u, 0, q.Size) }), nil
}

// jacobiGoroutines is Jacobi by two goroutines, which meet after each iteration.
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

// stepJacobi is the function of the Stencil.
func stepJacobi(at *parallel.Window[float64], out []float64) {
	jacobiRow(out, at.Row(-1, 0), at.Row(1, 0), at.Row(0, -1), at.Row(0, 1))
}

// jacobi is Jacobi by package parallel.
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

// waitAlone measures how long a rank waits for its halo if it has nothing else to do.
func (r *parallelRank) waitAlone(ctx context.Context, q parallelQuestion) (parallelAnswer, error) {
	c, u, _, err := r.plate(ctx, q.Size)
	if err != nil {
		return parallelAnswer{}, err
	}
	var waits []int64
	a, err := r.timed(ctx, q, func(int) error {
		h, err := parallel.StartHalo(c, u, parallel.Value(0.0))
		if err != nil {
			return err
		}
		begin := time.Now()
		err = h.Wait()
		waits = append(waits, time.Since(begin).Nanoseconds())
		return err
	})
	if err != nil {
		return a, err
	}
	a.Took, a.Check = usualWait(waits, q), verified
	return a, r.checkHalo(c, u)
}

// waitHidden measures how long a rank waits between the last run of the interior and the first run
// at an edge.
func (r *parallelRank) waitHidden(ctx context.Context, q parallelQuestion) (parallelAnswer, error) {
	c, u, next, err := r.plate(ctx, q.Size)
	if err != nil {
		return parallelAnswer{}, err
	}
	local := c.Shape().Local()
	first, last := local.Lo[0], local.Lo[0]+local.Len[0]-1
	var waits []int64
	var done time.Time // of the last run of the interior; zero after the first run at an edge
	step := func(at *parallel.Window[float64], out []float64) {
		if i := at.Pos[0]; (i == first || i == last) && !done.IsZero() {
			waits = append(waits, time.Since(done).Nanoseconds())
			done = time.Time{}
		}
		stepJacobi(at, out)
		if at.Pos[0] == last-1 {
			done = time.Now()
		}
	}
	a, err := r.timed(ctx, q, func(int) error {
		err := parallel.Stencil(c, next, u, parallel.Value(0.0), step)
		u, next = next, u
		return err
	})
	if err != nil {
		return a, err
	}
	if len(waits) != q.Warm+q.Count {
		return a, fmt.Errorf("bench: %d waits in %d iterations", len(waits), q.Warm+q.Count)
	}
	a.Took, a.Check = usualWait(waits, q), verified
	return a, r.checkJacobi(ctx, u, q)
}

// usualWait returns the median wait of the iterations that count, for all of them. A wait in which
// the other rank lost its processor for a while says nothing about halos.
func usualWait(waits []int64, q parallelQuestion) int64 {
	return max(median(slices.Clone(waits[q.Warm:])), 1) * int64(q.Count)
}

// checkHalo compares the halo of the first variable of a plate with the elements of the neighbor.
func (r *parallelRank) checkHalo(c *parallel.Ctx, u *parallel.Var[float64]) error {
	next, err := parallel.New[float64](c.Shape())
	if err != nil {
		return err
	}
	n := c.Shape().Axes()[0].Len
	var wrong error
	err = parallel.Around(c, next, u, func(at *parallel.Window[float64], _ []float64) {
		for _, d := range []int{-1, 1} {
			i := at.Pos[0] + d
			for k, x := range at.Row(d, 0) {
				want := hot(i, at.Pos[1]+k)
				if i < 0 || i >= n {
					want = 0
				}
				if x != want {
					wrong = fmt.Errorf("bench: the element %d, %d is %v; expected %v", i, at.Pos[1]+k, x, want)
				}
			}
		}
	})
	if err == nil {
		err = wrong
	}
	return err
}

// checkJacobi compares the result of Jacobi with that of a plain loop.
func (r *parallelRank) checkJacobi(ctx context.Context, u *parallel.Var[float64], q parallelQuestion) error {
	got, err := r.hashOf(ctx, u)
	if err != nil {
		return err
	}
	want := onGrids(q, func(next, u *grid) { next.sweep(u, 0, q.Size) }).Check
	if got != want {
		return fmt.Errorf("bench: the hash of Jacobi is %s; expected %s", got, want)
	}
	return nil
}
