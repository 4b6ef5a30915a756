package bench

import (
	"bytes"
	"context"
	"fmt"
	"math"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/parallel"
)

// halo exchanges halos of Size bytes with the other rank. Each exchange carries new elements.
func (r *parallelRank) halo(ctx context.Context, q parallelQuestion) (parallelAnswer, error) {
	s, err := parallel.NewShape(ctx, r.m, parallel.Axis{Len: 8, Halo: 1}, parallel.Axis{Len: max(q.Size/8, 1)})
	if err != nil {
		return parallelAnswer{}, err
	}
	v, err := parallel.New[int64](s)
	if err != nil {
		return parallelAnswer{}, err
	}
	next, err := parallel.New[int64](s)
	if err != nil {
		return parallelAnswer{}, err
	}
	c := parallel.With(ctx, s)
	lo, n := s.Local().Lo[0], s.Local().Len[0]
	a, err := r.timed(ctx, q, func(i int) error {
		v.Row(lo)[0], v.Row(lo + n - 1)[0] = int64(i*10+lo), int64(i*10+lo+n-1)
		h, err := parallel.StartHalo(c, v, parallel.Value[int64](-1))
		if err != nil {
			return err
		}
		return h.Wait()
	})
	if err != nil {
		return a, err
	}
	wrong, last := false, int64(q.Warm+q.Count-1)*10
	beyond := func(row []int64, i int) { // row i of the neighbor, or of the border
		want := last + int64(i)
		if i < 0 || i >= 8 {
			want = -1
		}
		wrong = wrong || row[0] != want
	}
	err = parallel.Around(c, next, v, func(at *parallel.Window[int64], _ []int64) {
		if at.Pos[0] == lo {
			beyond(at.Row(-1, 0), lo-1)
		}
		if at.Pos[0] == lo+n-1 {
			beyond(at.Row(1, 0), lo+n)
		}
	})
	if err == nil && wrong {
		err = fmt.Errorf("bench: a halo has other elements than the neighbor")
	}
	a.Check = verified
	return a, err
}

// call makes calls of Size bytes in each direction, from rank 0 to rank 1.
func (r *parallelRank) call(ctx context.Context, q parallelQuestion) (parallelAnswer, error) {
	request, buf := make([]byte, q.Size), make([]byte, q.Size)
	for i := range request {
		request[i] = byte(i*i + 3)
	}
	peer := r.p.Peer(r.m.Group().Member(1))
	a, err := r.timed(ctx, q, func(i int) error {
		if r.m.Rank() == 1 {
			m, err := r.p.Recv(ctx, weft.AnyProcess, tagData, buf)
			if err != nil {
				return err
			}
			return r.p.Reply(ctx, m, buf[:m.Len])
		}
		request[0] = byte(i)
		m, err := peer.Call(ctx, tagData, request, buf)
		if err == nil && (m.Len != len(request) || buf[0] != byte(i)) {
			err = fmt.Errorf("bench: a reply differs from its request")
		}
		return err
	})
	if err == nil && r.m.Rank() == 0 && !bytes.Equal(request, buf) {
		err = fmt.Errorf("bench: a reply differs from its request")
	}
	a.Check = verified
	return a, err
}

// numberAt returns element i of a scan.
func numberAt(i int) int64 { return int64(i%1009) - 500 }

// scan sums up Size numbers.
func (r *parallelRank) scan(ctx context.Context, q parallelQuestion) (parallelAnswer, error) {
	s, err := parallel.NewShape(ctx, r.m, parallel.Axis{Len: q.Size})
	if err != nil {
		return parallelAnswer{}, err
	}
	dst, err := parallel.New[int64](s)
	if err != nil {
		return parallelAnswer{}, err
	}
	src, err := parallel.New[int64](s)
	if err != nil {
		return parallelAnswer{}, err
	}
	parallel.Fill(src, func(pos []int) int64 { return numberAt(pos[0]) })
	c := parallel.With(ctx, s)
	a, err := r.timed(ctx, q, func(int) error {
		return parallel.Scan(c, dst, src, 0, parallel.Sum[int64](), parallel.ScanOpt{})
	})
	sum := int64(0)
	for i, x := range dst.Row() {
		if sum += numberAt(i); x != sum && err == nil {
			err = fmt.Errorf("bench: element %d of the scan is %d; expected %d", i, x, sum)
		}
	}
	a.Check = verified
	return a, err
}

// copied copies the memory of Size numbers.
func copied(_ *parallelRank, _ context.Context, q parallelQuestion) (parallelAnswer, error) {
	to, from := make([]int64, q.Size), make([]int64, q.Size)
	for i := range from {
		from[i] = numberAt(i)
	}
	a := alone(q, func(int) { copy(to, from) })
	for i, x := range to {
		if x != numberAt(i) {
			return a, fmt.Errorf("bench: element %d of the copy is %d; expected %d", i, x, numberAt(i))
		}
	}
	a.Check = verified
	return a, nil
}

// unevenAt returns element i of a sum. Each order of additions rounds differently.
func unevenAt(i int) float64 { return math.Ldexp(1+float64(i%1013)/977, i%23-11) }

// summands makes the variable whose sum is measured.
func (r *parallelRank) summands(ctx context.Context, n int) (*parallel.Ctx, *parallel.Var[float64], error) {
	s, err := parallel.NewShape(ctx, r.m, parallel.Axis{Len: n})
	if err != nil {
		return nil, nil, err
	}
	v, err := parallel.New[float64](s)
	if err == nil {
		parallel.Fill(v, func(pos []int) float64 { return unevenAt(pos[0]) })
	}
	return parallel.With(ctx, s), v, err
}

// sum sums up Size numbers in the fixed order. Its Check holds the bits of the sum.
func (r *parallelRank) sum(ctx context.Context, q parallelQuestion) (parallelAnswer, error) {
	c, v, err := r.summands(ctx, q.Size)
	if err != nil {
		return parallelAnswer{}, err
	}
	total := 0.0
	a, err := r.timed(ctx, q, func(int) (err error) {
		total, err = parallel.Reduce(c, v, parallel.Sum[float64]())
		return err
	})
	a.Check = fmt.Sprintf("%016x", math.Float64bits(total))
	return a, err
}

// sumFree sums up Size numbers in the fastest order: each rank its own numbers, and then one
// reduction.
func (r *parallelRank) sumFree(ctx context.Context, q parallelQuestion) (parallelAnswer, error) {
	_, v, err := r.summands(ctx, q.Size)
	if err != nil {
		return parallelAnswer{}, err
	}
	total, own := []float64{0}, v.Row()
	a, err := r.timed(ctx, q, func(int) error {
		total[0] = straight(own)
		return weft.AllReduce(ctx, r.m.Group(), weft.Sum, total)
	})
	serial := 0.0
	for i := range q.Size {
		serial += unevenAt(i)
	}
	if err == nil && math.Abs(total[0]-serial) > 1e-9*serial {
		err = fmt.Errorf("bench: the sum in the free order is %v; expected about %v", total[0], serial)
	}
	a.Check = verified
	return a, err
}

// straight returns the sum of a slice, in as many chains as the processor can use.
func straight(x []float64) float64 {
	var a, b, c, d, e, f, g, h float64
	for ; len(x) >= 8; x = x[8:] {
		y := (*[8]float64)(x)
		a, b, c, d = a+y[0], b+y[1], c+y[2], d+y[3]
		e, f, g, h = e+y[4], f+y[5], g+y[6], h+y[7]
	}
	for _, y := range x {
		a += y
	}
	return a + b + c + d + e + f + g + h
}

// star computes a row of the Stencil, as in stencil.c. It computes the positions of a row from
// first up to end. Five elements of the row stay in registers.
func star(at *parallel.Window[float64], out []float64, first, end int) {
	from, n := max(first-at.Pos[1], 0), min(end-at.Pos[1], len(out))
	if from >= n {
		return
	}
	out = out[from:n]
	n = len(out)
	up, up2 := at.Row(1, 0)[from:][:n], at.Row(2, 0)[from:][:n]
	down, down2 := at.Row(-1, 0)[from:][:n], at.Row(-2, 0)[from:][:n]
	left2, left, here := at.Row(0, -2)[from], at.Row(0, -1)[from], at.Row()[from]
	right := at.Row(0, 1)[from]
	for j, right2 := range at.Row(0, 2)[from:][:n] {
		out[j] += 0.25*((right-left)+(up[j]-down[j])) + 0.125*((right2-left2)+(up2[j]-down2[j]))
		left2, left, here, right = left, here, right, right2
	}
}

// stencil runs the stencil of the Parallel Research Kernels.
func (r *parallelRank) stencil(ctx context.Context, q parallelQuestion) (parallelAnswer, error) {
	n := q.Size
	s, err := parallel.NewShape(ctx, r.m, parallel.Axis{Len: n, Halo: 2}, parallel.Axis{Len: n, Halo: 2})
	if err != nil {
		return parallelAnswer{}, err
	}
	in, err := parallel.New[float64](s)
	if err != nil {
		return parallelAnswer{}, err
	}
	out, err := parallel.New[float64](s)
	if err != nil {
		return parallelAnswer{}, err
	}
	parallel.Fill(in, func(pos []int) float64 { return float64(pos[0] + pos[1]) })
	c := parallel.With(ctx, s)
	a, err := r.timed(ctx, q, func(int) error {
		err := parallel.Stencil(c, out, in, parallel.Value(0.0), func(at *parallel.Window[float64], to []float64) {
			if i := at.Pos[0]; i >= 2 && i < n-2 {
				star(at, to, 2, n-2)
			}
		})
		parallel.Rows(c, in, addOne)
		return err
	})
	if err != nil {
		return a, err
	}
	sum, err := parallel.Reduce(c, out, parallel.Sum[float64]())
	a.Check = fmt.Sprintf("%.0f", sum)
	inner := float64(max(n-4, 0))
	if want := 2 * float64(q.Warm+q.Count) * inner * inner; err == nil && sum != want {
		err = fmt.Errorf("bench: the sum of the stencil is %.0f; expected %.0f", sum, want)
	}
	return a, err
}

func addOne(_ []int, run []float64) {
	for ; len(run) >= 4; run = run[4:] {
		x := (*[4]float64)(run)
		x[0]++
		x[1]++
		x[2]++
		x[3]++
	}
	for i := range run {
		run[i]++
	}
}

// elementAt returns an element of the matrix before the first transposition, as in transpose.c.
func elementAt(i, j int) int { return (3*i + 5*j) % 17 }

// transpose runs the transposition of the Parallel Research Kernels.
func (r *parallelRank) transpose(ctx context.Context, q parallelQuestion) (parallelAnswer, error) {
	n := q.Size
	s, err := parallel.NewShape(ctx, r.m, parallel.Axis{Len: n}, parallel.Axis{Len: n})
	if err != nil {
		return parallelAnswer{}, err
	}
	a, err := parallel.New[float64](s)
	if err != nil {
		return parallelAnswer{}, err
	}
	b, err := parallel.New[float64](s)
	if err != nil {
		return parallelAnswer{}, err
	}
	parallel.Fill(a, func(pos []int) float64 { return float64(elementAt(pos[0], pos[1])) })
	c := parallel.With(ctx, s)
	answer, err := r.timed(ctx, q, func(int) error {
		err := parallel.Transpose(c, b, a, func(_ []int, out, in []float64) {
			for k, x := range in {
				out[k] += x
			}
		})
		parallel.Rows(c, a, addOne)
		return err
	})
	if err != nil {
		return answer, err
	}
	answer.Check, err = r.weigh(c, b, q)
	return answer, err
}

// weigh checks each element of b, and returns the sum of transpose.c.
func (r *parallelRank) weigh(c *parallel.Ctx, b *parallel.Var[float64], q parallelQuestion) (string, error) {
	sum, times := []float64{0}, q.Warm+q.Count
	var wrong error
	parallel.Rows(c, b, func(pos []int, run []float64) {
		for k, x := range run {
			i, j := pos[0], pos[1]+k
			if want := times*elementAt(j, i) + times*(times-1)/2; x != float64(want) {
				wrong = fmt.Errorf("bench: the element %d, %d of the transpose is %v; expected %d", i, j, x, want)
			}
			sum[0] += x * float64(i%7+1)
		}
	})
	if wrong != nil {
		return "", wrong
	}
	err := weft.AllReduce(c.Context(), r.m.Group(), weft.Sum, sum)
	return fmt.Sprintf("%.0f", sum[0]), err
}
