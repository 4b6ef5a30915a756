package parallel_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/netmem"
	"github.com/weftnet/weft/parallel"
)

// start returns a machine and a shape. Without a launcher, the machine has one rank.
func start(ctx context.Context, axes ...parallel.Axis) (*parallel.Machine, *parallel.Shape) {
	m, err := parallel.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	s, err := parallel.NewShape(ctx, m, axes...)
	if err != nil {
		log.Fatal(err)
	}
	return m, s
}

// variable returns a variable whose elements are the results of f.
func variable[T any](s *parallel.Shape, f func(pos []int) T) *parallel.Var[T] {
	v, err := parallel.New[T](s)
	if err != nil {
		log.Fatal(err)
	}
	parallel.Fill(v, f)
	return v
}

func squares(pos []int) int { return pos[0] * pos[0] }
func zeros([]int) int       { return 0 }

// check ends an example that has failed.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// The same program runs on one rank, or on many ranks that weft run starts.
func Example() {
	ctx := context.Background()
	m, err := parallel.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	s, err := parallel.NewShape(ctx, m, parallel.Axis{Len: 1000})
	if err != nil {
		log.Fatal(err)
	}
	v, err := parallel.New[float64](s)
	if err != nil {
		log.Fatal(err)
	}
	c := parallel.With(ctx, s)
	parallel.Rows(c, v, func(pos []int, run []float64) {
		for i := range run {
			run[i] = float64(pos[0] + i)
		}
	})
	sum, err := parallel.Reduce(c, v, parallel.Sum[float64]())
	if err != nil {
		log.Fatal(err)
	}
	if m.Rank() == 0 {
		fmt.Println("the sum is", sum)
	}
	// Output: the sum is 499500
}

// Where runs both functions on every rank. So each of the two functions may reduce.
func ExampleCtx_Where() {
	ctx := context.Background()
	m, s := start(ctx, parallel.Axis{Len: 8})
	defer m.Close()
	v := variable(s, squares)
	odd := variable(s, func(pos []int) bool { return pos[0]%2 == 1 })

	check(parallel.With(ctx, s).Where(odd, func(c *parallel.Ctx) error {
		sum, err := parallel.Reduce(c, v, parallel.Sum[int]())
		fmt.Println("odd positions:", sum)
		return err
	}, func(c *parallel.Ctx) error {
		sum, err := parallel.Reduce(c, v, parallel.Sum[int]())
		fmt.Println("even positions:", sum)
		return err
	}))
	// Output:
	// odd positions: 84
	// even positions: 56
}

func ExampleScan() {
	ctx := context.Background()
	m, s := start(ctx, parallel.Axis{Len: 8})
	defer m.Close()
	v, sums := variable(s, squares), variable(s, zeros)
	starts := variable(s, func(pos []int) bool { return pos[0] == 4 })
	c := parallel.With(ctx, s)

	check(parallel.Scan(c, sums, v, 0, parallel.Sum[int](), parallel.ScanOpt{}))
	fmt.Println("inclusive:", sums.Row())
	check(parallel.Scan(c, sums, v, 0, parallel.Sum[int](), parallel.ScanOpt{Exclusive: true, Reverse: true}))
	fmt.Println("from above:", sums.Row())
	check(parallel.Scan(c, sums, v, 0, parallel.Sum[int](), parallel.ScanOpt{Segments: starts}))
	fmt.Println("two segments:", sums.Row())
	// Output:
	// inclusive: [0 1 5 14 30 55 91 140]
	// from above: [140 139 135 126 110 85 49 0]
	// two segments: [0 1 5 14 16 41 77 126]
}

// An operator need only be associative. Functions x ↦ a·x + b are joined in the order of positions.
func ExampleOp() {
	ctx := context.Background()
	m, s := start(ctx, parallel.Axis{Len: 8})
	defer m.Close()
	type linear struct{ A, B int }
	after := parallel.Op[linear]{
		Name:     "after",
		Identity: linear{1, 0},
		Join:     func(f, g linear) linear { return linear{g.A * f.A, g.A*f.B + g.B} },
	}
	v := variable(s, func(pos []int) linear { return linear{2, pos[0]} })

	all, err := parallel.Reduce(parallel.With(ctx, s), v, after)
	check(err)
	fmt.Println(all)
	// Output: {256 247}
}

// Each line along axis 1 gets its own sum.
func ExampleReduceAxis() {
	ctx := context.Background()
	m, s := start(ctx, parallel.Axis{Len: 2}, parallel.Axis{Len: 4})
	defer m.Close()
	v := variable(s, func(pos []int) int { return 10*pos[0] + pos[1] })
	sums := variable(s, zeros)

	check(parallel.ReduceAxis(parallel.With(ctx, s), sums, v, 1, parallel.Sum[int]()))
	fmt.Println(sums.Row(0), sums.Row(1))
	// Output: [6 6 6 6] [46 46 46 46]
}

func ExampleSpread() {
	ctx := context.Background()
	m, s := start(ctx, parallel.Axis{Len: 2}, parallel.Axis{Len: 4})
	defer m.Close()
	v := variable(s, func(pos []int) int { return 10*pos[0] + pos[1] })
	row := variable(s, zeros)

	check(parallel.Spread(parallel.With(ctx, s), row, v, 0, 1))
	fmt.Println(row.Row(0), row.Row(1))
	// Output: [10 11 12 13] [10 11 12 13]
}

func ExampleShift() {
	ctx := context.Background()
	m, s := start(ctx, parallel.Axis{Len: 8})
	defer m.Close()
	v, moved := variable(s, squares), variable(s, zeros)
	c := parallel.With(ctx, s)

	check(parallel.Shift(c, moved, v, 0, 2, parallel.Value(-1)))
	fmt.Println(moved.Row())
	check(parallel.Shift(c, moved, v, 0, -1, parallel.Torus[int]()))
	fmt.Println(moved.Row())
	// Output:
	// [-1 -1 0 1 4 9 16 25]
	// [1 4 9 16 25 36 49 0]
}

// A step of Jacobi's method: each element becomes the mean of its two neighbors.
func ExampleStencil() {
	ctx := context.Background()
	m, s := start(ctx, parallel.Axis{Len: 8, Halo: 1})
	defer m.Close()
	v, next := variable(s, squares), variable(s, zeros)

	check(parallel.Stencil(parallel.With(ctx, s), next, v, parallel.Value(0), func(at *parallel.Window[int], out []int) {
		left, right := at.Row(-1), at.Row(+1)
		for i := range out {
			out[i] = (left[i] + right[i]) / 2
		}
	}))
	fmt.Println(next.Row())
	// Output: [0 2 5 10 17 26 37 18]
}

// A program that starts an exchange by StartHalo can compute something else before it waits.
func ExampleStartHalo() {
	ctx := context.Background()
	m, s := start(ctx, parallel.Axis{Len: 8, Halo: 1, Torus: true})
	defer m.Close()
	v, w := variable(s, squares), variable(s, zeros)
	c := parallel.With(ctx, s)

	h, err := parallel.StartHalo(c, v, parallel.Torus[int]())
	check(err)
	parallel.Pcoord(c, w, 0) // while the halo is in flight
	check(h.Wait())
	check(parallel.Around(c, w, v, func(at *parallel.Window[int], out []int) {
		for i, x := range at.Row(-1) {
			out[i] += x
		}
	}))
	fmt.Println(w.Row())
	// Output: [49 1 3 7 13 21 31 43]
}

// Send builds a histogram: all positions of one class send to the same element.
func ExampleSend() {
	ctx := context.Background()
	m, s := start(ctx, parallel.Axis{Len: 8})
	defer m.Close()
	classes, err := parallel.NewShape(ctx, m, parallel.Axis{Len: 3})
	check(err)
	count := variable(classes, zeros)
	class := variable(s, func(pos []int) int { return squares(pos) % 3 })
	one := variable(s, func([]int) int { return 1 })

	check(parallel.Send(parallel.With(ctx, s), count, class, one, parallel.Sum[int]()))
	fmt.Println(count.Row())
	// Output: [3 5 0]
}

func ExampleGet() {
	ctx := context.Background()
	m, s := start(ctx, parallel.Axis{Len: 8})
	defer m.Close()
	v, w := variable(s, squares), variable(s, zeros)
	back := variable(s, func(pos []int) int { return 7 - pos[0] })

	check(parallel.Get(parallel.With(ctx, s), w, back, v))
	fmt.Println(w.Row())
	// Output: [49 36 25 16 9 4 1 0]
}

// Rank and Send sort several variables by one key.
func ExampleRank() {
	ctx := context.Background()
	m, s := start(ctx, parallel.Axis{Len: 5})
	defer m.Close()
	age := variable(s, func(pos []int) int { return []int{31, 17, 45, 17, 22}[pos[0]] })
	name := variable(s, func(pos []int) byte { return "abcde"[pos[0]] })
	place, sorted := variable(s, zeros), variable(s, func([]int) byte { return 0 })
	c := parallel.With(ctx, s)

	check(parallel.Rank(c, place, age, 0))
	check(parallel.Send(c, sorted, place, name, parallel.Op[byte]{}))
	fmt.Println(place.Row(), string(sorted.Row()))
	// Output: [3 0 4 1 2] bdeac
}

func ExampleSort() {
	ctx := context.Background()
	m, s := start(ctx, parallel.Axis{Len: 5})
	defer m.Close()
	v := variable(s, func(pos []int) int { return []int{31, 17, 45, 17, 22}[pos[0]] })
	sorted := variable(s, zeros)

	check(parallel.Sort(parallel.With(ctx, s), sorted, v, 0))
	fmt.Println(sorted.Row())
	// Output: [17 17 22 31 45]
}

func ExampleGather() {
	ctx := context.Background()
	m, s := start(ctx, parallel.Axis{Len: 8})
	defer m.Close()
	v := variable(s, squares)

	var all []int
	if m.Rank() == 0 {
		all = make([]int, s.Len())
	}
	check(parallel.Gather(parallel.With(ctx, s), v, 0, all))
	if m.Rank() == 0 {
		fmt.Println(all)
	}
	// Output: [0 1 4 9 16 25 36 49]
}

// A program saves its variables from time to time. At its start, it continues from the last
// checkpoint.
func ExampleSave() {
	dir, err := os.MkdirTemp("", "checkpoint")
	check(err)
	defer os.RemoveAll(dir)
	ctx := context.Background()
	m, s := start(ctx, parallel.Axis{Len: 8})
	defer m.Close()
	store := parallel.Dir(filepath.Join(dir, "squares"))

	v := variable(s, squares)
	check(parallel.Save(ctx, m, store, 100, parallel.Named("v", v)))

	w := variable(s, zeros)
	step, err := parallel.Load(ctx, m, store, parallel.Named("v", w))
	check(err)
	fmt.Println("step", step, w.Row())
	// Output: step 100 [0 1 4 9 16 25 36 49]
}

// The example keeps a checkpoint in network memory. Two other processes lend 1 MiB each, and each
// page is on both.
func ExampleSave_networkMemory() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var servers []netmem.ServerRef
	var nodes []weft.Node
	for i := range uint32(2) {
		p, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "memory", Index: i}})
		check(err)
		defer p.Close()
		_, err = netmem.Serve(p, netmem.ServerConfig{Bytes: 1 << 20, Shelve: time.Hour})
		check(err)
		servers = append(servers, netmem.ServerRef{Name: p.Name()})
		nodes = append(nodes, weft.Node{Addr: p.NIC().Addr()})
	}
	for _, step := range []uint64{1, 2} { // each step is a separate program
		p, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "squares", Index: uint32(step)}, Nodes: nodes})
		check(err)
		store, err := netmem.OpenShelf(ctx, p, netmem.ShelfConfig{
			ClientConfig: netmem.ClientConfig{Servers: servers, Copies: 2},
			Key:          "an example of a key",
		})
		check(err)
		m, s := start(ctx, parallel.Axis{Len: 8})
		v := variable(s, zeros)
		last, err := parallel.Load(ctx, m, store, parallel.Named("v", v))
		if errors.Is(err, parallel.ErrNoCheckpoint) {
			parallel.Fill(v, squares)
			err = parallel.Save(ctx, m, store, step, parallel.Named("v", v))
			fmt.Println("saved step", step)
		} else {
			fmt.Println("loaded step", last, v.Row())
		}
		check(err)
		check(m.Close())
		store.Close()
		check(p.Close())
	}
	// Output:
	// saved step 1
	// loaded step 1 [0 1 4 9 16 25 36 49]
}

// After a rank has ended, the others continue with a smaller machine.
func ExampleMachine_Shrink() {
	work := func(ctx context.Context, m *parallel.Machine) error { return m.Barrier(ctx) }

	ctx := context.Background()
	m, err := parallel.Init(ctx)
	check(err)
	for {
		err := work(ctx, m)
		if err == nil {
			break
		}
		if !errors.Is(err, parallel.ErrRankGone) {
			log.Fatal(err)
		}
		m, err = m.Shrink(ctx)
		check(err)
	}
	fmt.Println(m)
	check(m.Close())
	// Output: rank 0 of 1
}
