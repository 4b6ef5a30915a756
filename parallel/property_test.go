package parallel

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
)

// A world is the input of a property test on every rank: a random shape, variables with random
// elements, and a random mask. The slices hold the elements of all ranks, in the order of
// indices.
type world struct {
	axes    []Axis
	total   int
	a, b    []int
	small   []int // few different values
	flags   []bool
	mask    []bool
	axis    int
	by      int
	root    int
	at      int
	indices []int
	perm    []int
}

func drawWorld(rng *rand.Rand) *world {
	n := 1 + rng.IntN(3)
	div := rng.IntN(n)
	var axes []Axis
	for i := range n {
		most := []int{300, 17, 7}[n-1]
		a := Axis{Len: 1 + rng.IntN(most), Whole: i < div, Torus: rng.IntN(2) == 0}
		if rng.IntN(20) == 0 && n == 1 {
			a.Len = 1025 + rng.IntN(2000)
		}
		a.Halo = rng.IntN(min(a.Len, 3) + 1)
		axes = append(axes, a)
	}
	return drawWorldOf(rng, axes)
}

// drawWorldOf draws the elements and arguments of a world.
func drawWorldOf(rng *rand.Rand, axes []Axis) *world {
	w, n := &world{axes: axes, total: 1}, len(axes)
	for _, a := range axes {
		w.total *= a.Len
	}
	for i := range w.total {
		w.a, w.b = append(w.a, rng.IntN(1000)), append(w.b, rng.IntN(1000))
		w.small = append(w.small, rng.IntN(4))
		w.flags, w.mask = append(w.flags, rng.IntN(4) == 0), append(w.mask, rng.IntN(3) > 0)
		w.indices, w.perm = append(w.indices, rng.IntN(w.total)), append(w.perm, i)
	}
	rng.Shuffle(w.total, func(i, j int) { w.perm[i], w.perm[j] = w.perm[j], w.perm[i] })
	w.axis = rng.IntN(n)
	w.by = rng.IntN(2*w.axes[w.axis].Len+3) - w.axes[w.axis].Len - 1
	w.at = rng.IntN(w.axes[w.axis].Len)
	if rng.IntN(3) == 0 {
		for i := range w.mask {
			w.mask[i] = true
		}
	} else if rng.IntN(8) == 0 {
		clear(w.mask)
	}
	return w
}

// stride returns the step of an axis in the order of indices.
func (w *world) stride(axis int) int {
	n := 1
	for _, a := range w.axes[axis+1:] {
		n *= a.Len
	}
	return n
}

// coordinate returns the coordinate of a position on an axis.
func (w *world) coordinate(index, axis int) int { return index / w.stride(axis) % w.axes[axis].Len }

// line lists the active positions on the line of a position, in order.
func (w *world) line(index int) (list []int) {
	st := w.stride(w.axis)
	first := index - w.coordinate(index, w.axis)*st
	for k := range w.axes[w.axis].Len {
		if w.mask[first+k*st] {
			list = append(list, first+k*st)
		}
	}
	return list
}

// at2 is a 2×2 matrix. Its operator is not commutative.
type at2 [4]uint32

func joinAt2(a, b at2) at2 {
	return at2{a[0]*b[0] + a[1]*b[2], a[0]*b[1] + a[1]*b[3], a[2]*b[0] + a[3]*b[2], a[2]*b[1] + a[3]*b[3]}
}

var matrices = Op[at2]{Name: "matrices", Identity: at2{1, 0, 0, 1}, Join: joinAt2}

func matrixOf(x int) at2 { return at2{uint32(x), 1, 2, uint32(x * x)} }

// expect compares the elements of a variable with a function of the index.
func expect[T comparable](v *Var[T], want func(index int) T) error {
	var err error
	s, all := v.s, v.s.all()
	s.rows(&all, false, func(r *row) {
		for i := range r.n {
			index := s.index(r) + i
			if x := want(index); v.mem[r.off+i] != x && err == nil {
				err = fmt.Errorf("the element with index %d of %v is %v; expected %v", index, s, v.mem[r.off+i], x)
			}
		}
	})
	return err
}

// A property runs an operation on a rank and compares the result with that of a serial loop.
type property struct {
	name string
	run  func(w *world, c *Ctx, m *Machine) error
}

// ints makes a variable of a shape from a slice.
func ints[T any](s *Shape, list []T) *Var[T] {
	return must(on(s, func(pos []int) T { return list[s.Index(pos...)] }))
}

const untouched = -77

// fresh makes a variable whose elements are all untouched.
func fresh(s *Shape) *Var[int] { return must(on(s, func([]int) int { return untouched })) }

var properties = []property{
	{"reduce", func(w *world, c *Ctx, m *Machine) error {
		sum, err := Reduce(c, ints(c.s, w.a), Sum[int]())
		least, err2 := Reduce(c, ints(c.s, w.a), Min[int]())
		v := must(New[at2](c.s))
		Fill(v, func(pos []int) at2 { return matrixOf(w.a[c.s.Index(pos...)]) })
		if c.s.div != 0 { // the order of blocks is not the order of indices
			v = must(on(c.s, func([]int) at2 { return matrixOf(3) }))
		}
		product, err3 := Reduce(c, v, matrices)
		wantSum, wantLeast, wantProduct := 0, largest[int](), matrices.Identity
		for i, active := range w.mask {
			if active {
				wantSum += w.a[i]
				wantLeast = min(wantLeast, w.a[i])
				x := matrixOf(w.a[i])
				if c.s.div != 0 {
					x = matrixOf(3)
				}
				wantProduct = joinAt2(wantProduct, x)
			}
		}
		if sum != wantSum || least != wantLeast || product != wantProduct {
			return fmt.Errorf("%d, %d, %v; expected %d, %d, %v", sum, least, product, wantSum, wantLeast, wantProduct)
		}
		return firstError(err, err2, err3)
	}},
	{"reduce along an axis", func(w *world, c *Ctx, m *Machine) error {
		v := must(on(c.s, func(pos []int) at2 { return matrixOf(w.a[c.s.Index(pos...)]) }))
		d := must(New[at2](c.s))
		if err := ReduceAxis(c, d, v, w.axis, matrices); err != nil {
			return err
		}
		return expect(d, func(i int) at2 {
			if !w.mask[i] {
				return at2{}
			}
			x := matrices.Identity
			for _, k := range w.line(i) {
				x = joinAt2(x, matrixOf(w.a[k]))
			}
			return x
		})
	}},
	{"scan", func(w *world, c *Ctx, m *Machine) error {
		v := must(on(c.s, func(pos []int) at2 { return matrixOf(w.a[c.s.Index(pos...)]) }))
		for k := range 8 {
			o := ScanOpt{Exclusive: k&1 != 0, Reverse: k&2 != 0}
			if k&4 != 0 {
				o.Segments = ints(c.s, w.flags)
			}
			d := must(New[at2](c.s))
			if err := Scan(c, d, v, w.axis, matrices, o); err != nil {
				return err
			}
			if err := expect(d, func(i int) at2 { return w.scanned(i, o) }); err != nil {
				return fmt.Errorf("%+v: %w", o, err)
			}
			e := fresh(c.s)
			if err := Scan(c, e, ints(c.s, w.a), w.axis, Sum[int](), o); err != nil {
				return err
			}
			if err := expect(e, func(i int) int { return w.scannedSum(i, o) }); err != nil {
				return fmt.Errorf("sum, %+v: %w", o, err)
			}
		}
		return nil
	}},
	{"spread", func(w *world, c *Ctx, m *Machine) error {
		d := fresh(c.s)
		if err := Spread(c, d, ints(c.s, w.a), w.axis, w.at); err != nil {
			return err
		}
		return expect(d, func(i int) int {
			if !w.mask[i] {
				return untouched
			}
			return w.a[i+(w.at-w.coordinate(i, w.axis))*w.stride(w.axis)]
		})
	}},
	{"shift", func(w *world, c *Ctx, m *Machine) error {
		for _, border := range []Border[int]{Value(5), Torus[int](), Keep[int]()} {
			d := fresh(c.s)
			if err := Shift(c, d, ints(c.s, w.a), w.axis, w.by, border); err != nil {
				return err
			}
			err := expect(d, func(i int) int {
				from, length := w.coordinate(i, w.axis)-w.by, w.axes[w.axis].Len
				if w.axes[w.axis].Torus || border.kind == borderTorus {
					from = ((from % length) + length) % length
				}
				switch {
				case !w.mask[i]:
					return untouched
				case from >= 0 && from < length:
					return w.a[i+(from-w.coordinate(i, w.axis))*w.stride(w.axis)]
				case border.kind == borderKeep:
					return untouched
				}
				return 5
			})
			if err != nil {
				return fmt.Errorf("by %d along axis %d, border %v: %w", w.by, w.axis, border, err)
			}
		}
		return nil
	}},
	{"stencil", func(w *world, c *Ctx, m *Machine) error {
		v := ints(c.s, w.a)
		// The second exchange uses the plan of the first, and later ones have other borders.
		for _, border := range []Border[int]{Value(5), Value(5), Torus[int](), Value(7), Value(8)} {
			d := fresh(c.s)
			if err := Stencil(c, d, v, border, w.around); err != nil {
				return err
			}
			if err := expect(d, func(i int) int { return w.aroundAt(i, border) }); err != nil {
				return fmt.Errorf("border %v: %w", border, err)
			}
		}
		return nil
	}},
	{"get", func(w *world, c *Ctx, m *Machine) error {
		d := fresh(c.s)
		if err := Get(c, d, ints(c.s, w.indices), ints(c.s, w.a)); err != nil {
			return err
		}
		return expect(d, func(i int) int {
			if !w.mask[i] {
				return untouched
			}
			return w.a[w.indices[i]]
		})
	}},
	{"send", func(w *world, c *Ctx, m *Machine) error {
		d, e := fresh(c.s), fresh(c.s)
		if err := Send(c, d, ints(c.s, w.perm), ints(c.s, w.a), Op[int]{}); err != nil {
			return err
		}
		if err := Send(c, e, ints(c.s, w.indices), ints(c.s, w.a), Sum[int]()); err != nil {
			return err
		}
		permuted, sums := make([]int, w.total), make([]int, w.total)
		for i := range w.total {
			permuted[i], sums[i] = untouched, untouched
		}
		for i, active := range w.mask {
			if active {
				permuted[w.perm[i]] = w.a[i]
				if sums[w.indices[i]] == untouched {
					sums[w.indices[i]] = 0
				}
				sums[w.indices[i]] += w.a[i]
			}
		}
		return firstError(
			expect(d, func(i int) int { return permuted[i] }),
			expect(e, func(i int) int { return sums[i] }))
	}},
	{"rank", func(w *world, c *Ctx, m *Machine) error {
		for _, keys := range [][]int{w.a, w.small} {
			d := fresh(c.s)
			if err := Rank(c, d, ints(c.s, keys), w.axis); err != nil {
				return err
			}
			err := expect(d, func(i int) int {
				if !w.mask[i] {
					return untouched
				}
				n := 0
				for _, k := range w.line(i) {
					if keys[k] < keys[i] || keys[k] == keys[i] && k < i {
						n++
					}
				}
				return n
			})
			if err != nil {
				return err
			}
		}
		return nil
	}},
	{"sort", func(w *world, c *Ctx, m *Machine) error {
		for _, keys := range [][]int{w.a, w.small} {
			d := fresh(c.s)
			if err := Sort(c, d, ints(c.s, keys), w.axis); err != nil {
				return err
			}
			err := expect(d, func(i int) int {
				if !w.mask[i] {
					return untouched
				}
				line := w.line(i)
				at := slices.Index(line, i)
				slices.SortFunc(line, func(a, b int) int { return cmp.Compare(keys[a], keys[b]) })
				return keys[line[at]]
			})
			if err != nil {
				return err
			}
		}
		return nil
	}},
	{"gather and scatter", func(w *world, c *Ctx, m *Machine) error {
		root := w.root % m.size
		all, back := []int(nil), fresh(c.s)
		if m.rank == root {
			all = make([]int, w.total)
		}
		if err := Gather(c, ints(c.s, w.a), root, all); err != nil {
			return err
		}
		if m.rank == root && !slices.Equal(all, w.a) {
			return fmt.Errorf("gathered %v; expected %v", all, w.a)
		}
		if err := Scatter(c, back, root, all); err != nil {
			return err
		}
		return expect(back, func(i int) int { return w.a[i] })
	}},
	{"coordinates", func(w *world, c *Ctx, m *Machine) error {
		d := fresh(c.s)
		Pcoord(c, d, w.axis)
		return expect(d, func(i int) int {
			if !w.mask[i] {
				return untouched
			}
			return w.coordinate(i, w.axis)
		})
	}},
	{"rows and maps", func(w *world, c *Ctx, m *Machine) error {
		d, e := fresh(c.s), fresh(c.s)
		Rows2(c, d, ints(c.s, w.a), func(pos, d, a []int) {
			for i := range d {
				d[i] = a[i] + c.s.Index(pos...) + i
			}
		})
		Map2(c, e, ints(c.s, w.a), ints(c.s, w.b), func(a, b int) int { return a - b })
		return firstError(
			expect(d, func(i int) int {
				if !w.mask[i] {
					return untouched
				}
				return w.a[i] + i
			}),
			expect(e, func(i int) int {
				if !w.mask[i] {
					return untouched
				}
				return w.a[i] - w.b[i]
			}))
	}},
}

// scanned returns the result of a scan of matrices at an active position.
func (w *world) scanned(i int, o ScanOpt) at2 {
	if !w.mask[i] {
		return at2{}
	}
	x := matrices.Identity
	for _, k := range w.before(i, o) {
		x = joinAt2(x, matrixOf(w.a[k]))
	}
	return x
}

func (w *world) scannedSum(i int, o ScanOpt) int {
	if !w.mask[i] {
		return untouched
	}
	sum := 0
	for _, k := range w.before(i, o) {
		sum += w.a[k]
	}
	return sum
}

// before lists the positions that a scan combines at a position, in the order of positions.
func (w *world) before(i int, o ScanOpt) (list []int) {
	line := w.line(i)
	at := slices.Index(line, i)
	lo, hi := 0, len(line)
	if o.Segments != nil {
		for lo = at; lo > 0 && !w.flags[line[lo]]; lo-- {
		}
		for hi = at + 1; hi < len(line) && !w.flags[line[hi]]; hi++ {
		}
	}
	switch {
	case o.Reverse && o.Exclusive:
		return line[at+1 : hi]
	case o.Reverse:
		return line[at:hi]
	case o.Exclusive:
		return line[lo:at]
	}
	return line[lo : at+1]
}

// around sums the elements at all distances within the halo, each with a different weight.
func (w *world) around(at *Window[int], out []int) {
	clear(out)
	w.distances(func(weight int, d []int) {
		for i, x := range at.Row(d...) {
			out[i] += weight * x
		}
	})
}

// distances calls f for each distance within the halo.
func (w *world) distances(f func(weight int, d []int)) {
	d := make([]int, len(w.axes))
	for i, a := range w.axes {
		d[i] = -a.Halo
	}
	for weight := 1; ; weight += 3 {
		f(weight, d)
		i := len(d) - 1
		for ; i >= 0; i-- {
			if d[i]++; d[i] <= w.axes[i].Halo {
				break
			}
			d[i] = -w.axes[i].Halo
		}
		if i < 0 {
			return
		}
	}
}

func (w *world) aroundAt(index int, border Border[int]) int {
	if !w.mask[index] {
		return untouched
	}
	sum := 0
	w.distances(func(weight int, d []int) {
		from, outside := 0, false
		for i, a := range w.axes {
			x := w.coordinate(index, i) + d[i]
			if a.Torus || border.kind == borderTorus {
				x = (x + a.Len) % a.Len
			}
			outside = outside || x < 0 || x >= a.Len
			from += x * w.stride(i)
		}
		if outside {
			sum += weight * border.value
		} else {
			sum += weight * w.a[from]
		}
	})
	return sum
}

// propertySeeds returns the seeds of the worlds. WEFT_PARALLEL_SEED replaces them by one seed.
func propertySeeds(t *testing.T, n uint64) (seeds []uint64) {
	if s := os.Getenv("WEFT_PARALLEL_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{seed}
	}
	for seed := range n {
		seeds = append(seeds, seed)
	}
	return seeds
}

func TestEveryOperationDoesWhatASerialLoopDoes(t *testing.T) {
	n := uint64(60)
	if testing.Short() {
		n = 10
	}
	for _, seed := range propertySeeds(t, n) {
		rng := rand.New(rand.NewPCG(seed, 34))
		w := drawWorld(rng)
		ranks := 1 + rng.IntN(8)
		w.root = rng.IntN(ranks)
		onRanks(t, ranks, func(m *Machine) error {
			ctx := context.Background()
			s := must(NewShape(ctx, m, w.axes...))
			mask := ints(s, w.mask)
			for _, p := range properties {
				err := With(ctx, s).Where(mask, func(c *Ctx) error { return p.run(w, c, m) }, nil)
				if err != nil {
					return fmt.Errorf("seed %d: %s on %v with mask: %w", seed, p.name, s, err)
				}
			}
			return nil
		})
	}
}
