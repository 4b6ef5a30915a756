package weft_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// matrix is a 2×2 matrix of numbers below a prime. The product of matrices is associative but not
// commutative, so a result shows the order of the factors. A matrix has an odd number of words.
type matrix struct {
	e    [2][2]uint32
	rank uint32 // rank of the first factor
}

func multiply(into, from []matrix) {
	const prime = 65521
	for i := range into {
		a, b := into[i], from[i]
		for r := range 2 {
			for c := range 2 {
				into[i].e[r][c] = uint32((uint64(a.e[r][0])*uint64(b.e[0][c]) + uint64(a.e[r][1])*uint64(b.e[1][c])) % prime)
			}
		}
	}
}

func TestReductionsByAFunctionKeepTheOrderOfRanks(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for n := 1; n <= 6; n++ {
		ctx, groups, _ := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), min(n, 3), n)
		for _, length := range []int{0, 1, 7, 1000, 60_001} { // the last length is reduced in parts
			members := make([][]matrix, n)
			for i := range members {
				members[i] = make([]matrix, length)
				for k := range members[i] {
					members[i][k] = matrix{[2][2]uint32{{rng.Uint32N(1000), rng.Uint32N(1000)}, {rng.Uint32N(1000), rng.Uint32N(1000)}}, uint32(i)}
				}
			}
			want := slices.Clone(members[0])
			for _, v := range members[1:] {
				multiply(want, v)
			}
			root := rng.IntN(n)
			together(t, n, func(i int) error {
				at, all := slices.Clone(members[i]), slices.Clone(members[i])
				err := errors.Join(weft.ReduceFunc(ctx, groups[i], root, multiply, at), weft.AllReduceFunc(ctx, groups[i], multiply, all))
				kept := members[i]
				if i == root {
					kept = want
				}
				if !slices.Equal(all, want) || !slices.Equal(at, kept) {
					return fmt.Errorf("the product of %d matrices of %d members is another: %w", length, n, err)
				}
				return err
			})
		}
	}
}

func TestAReductionByAFunctionRefusesElementsThatCannotTravel(t *testing.T) {
	ctx, groups, procs := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 1, 1)
	again := func() *weft.Group { // the process has left the group of the call before
		g, err := procs[0].Join(ctx, "again", 1)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	type list struct {
		N    int
		Next *list
	}
	for what, f := range map[string]func(g *weft.Group) error{
		"string":      func(g *weft.Group) error { return weft.AllReduceFunc(ctx, g, func(_, _ []string) {}, []string{"a"}) },
		"*weft_test.": func(g *weft.Group) error { return weft.AllReduceFunc(ctx, g, func(_, _ []*list) {}, []*list{nil}) },
		"list":        func(g *weft.Group) error { return weft.ReduceFunc(ctx, g, 0, func(_, _ []list) {}, []list{{}}) },
		"[2]func()": func(g *weft.Group) error {
			return weft.AllReduceFunc(ctx, g, func(_, _ [][2]func()) {}, [][2]func(){{}})
		},
		"uintptr":     func(g *weft.Group) error { return weft.AllReduceFunc(ctx, g, func(_, _ []uintptr) {}, []uintptr{1}) },
		"struct {}":   func(g *weft.Group) error { return weft.AllReduceFunc(ctx, g, func(_, _ []struct{}) {}, []struct{}{{}}) },
		"no function": func(g *weft.Group) error { return weft.AllReduceFunc(ctx, g, nil, []int{1}) },
	} {
		if err := f(again()); !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v; expected %v, and what is wrong", what, err, weft.ErrBadArgument)
		}
	}
	type sample struct {
		At    [3]complex128
		Valid bool
	}
	if err := weft.AllReduceFunc(ctx, groups[0], func(_, _ []sample) {}, []sample{{}}); err != nil {
		t.Errorf("a struct of numbers: %v", err)
	}
}

func TestReductionsOfOtherLengthsByAFunctionFailAtAllMembers(t *testing.T) {
	add := func(into, from []int16) {
		for i := range into {
			into[i] += from[i]
		}
	}
	for _, length := range []int{5, 1 << 20} { // reduced by gathering, and in parts
		for odd := range 3 {
			ctx, groups, _ := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 2, 3)
			together(t, 3, func(i int) error {
				v := make([]int16, length)
				if i == odd {
					v = v[1:]
				}
				if err := weft.AllReduceFunc(ctx, groups[i], add, v); !errors.Is(err, weft.ErrGroupMismatch) {
					return fmt.Errorf("of %d elements: %w; expected %w", len(v), err, weft.ErrGroupMismatch)
				}
				g, err := groups[i].Shrink(ctx)
				if err != nil {
					return err
				}
				v = v[:3]
				for k := range v {
					v[k] = int16(i)
				}
				if err := weft.AllReduceFunc(ctx, g, add, v); err != nil || v[2] != 3 {
					return fmt.Errorf("in the group behind that: %v, %w", v, err)
				}
				return nil
			})
		}
	}
}

func TestReductionsOfElementsOfOtherSizesByAFunctionFailAtAllMembers(t *testing.T) {
	ctx, groups, _ := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 2, 2)
	// reduced by gathering, and in parts: the same number of bytes at both members
	for _, n := range []int{1, 1 << 18} {
		var again [2]*weft.Group
		together(t, 2, func(i int) (err error) {
			if i == 0 {
				err = weft.AllReduceFunc(ctx, groups[i], func(_, _ []int32) {}, make([]int32, 2*n))
			} else {
				err = weft.AllReduceFunc(ctx, groups[i], func(_, _ []int64) {}, make([]int64, n))
			}
			if !errors.Is(err, weft.ErrGroupMismatch) {
				return fmt.Errorf("%d bytes: %v; expected %w", 8*n, err, weft.ErrGroupMismatch)
			}
			again[i], err = groups[i].Shrink(ctx)
			return err
		})
		if t.Failed() {
			return
		}
		groups = again[:]
	}
}

// A program that recovers the panic continues without the group, and so do the other members.
// Goexit ends the goroutine of a test that has failed.
func TestAFunctionThatDoesNotReturnLeavesTheGroup(t *testing.T) {
	for what, end := range map[string]func(){"panics": func() { panic("a defect of the program") }, "exits": runtime.Goexit} {
		for _, n := range []int{1, 1 << 19} { // reduced by gathering, and in parts
			ctx, groups, procs := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 2, 2)
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				defer func() { _ = recover() }()
				_ = weft.AllReduceFunc(ctx, groups[0], func(_, _ []int16) { end() }, make([]int16, n))
				t.Errorf("a reduction whose function %s has returned", what)
			}()
			err := weft.AllReduceFunc(ctx, groups[1], func(_, _ []int16) {}, make([]int16, n))
			var ge *weft.GroupError
			if !errors.Is(err, weft.ErrGroupBroken) || !errors.As(err, &ge) || ge.Dead != procs[0].Name() {
				t.Errorf("the function of %v %s: %v; expected %v, and its name", procs[0].Name(), what, err, weft.ErrGroupBroken)
			}
			<-ended
			if err := groups[0].Barrier(ctx); !errors.Is(err, weft.ErrNoGroup) {
				t.Errorf("a barrier of the member whose function %s: %v; expected %v", what, err, weft.ErrNoGroup)
			}
		}
	}
}

// The goroutine that ran the operation ends too, and operations that were started later still
// run.
func TestAStartedReductionWhoseFunctionEndsItsGoroutineIsDone(t *testing.T) {
	ctx, groups, _ := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 2, 2)
	var first, second weft.GroupOp
	err := errors.Join(weft.StartAllReduceFunc(ctx, groups[0], &first, func(_, _ []int16) { runtime.Goexit() }, []int16{1}),
		groups[0].StartBarrier(ctx, &second))
	if err != nil {
		t.Fatal(err)
	}
	if err := weft.AllReduceFunc(ctx, groups[1], func(_, _ []int16) {}, []int16{1}); !errors.Is(err, weft.ErrGroupBroken) {
		t.Errorf("the other member: %v; expected %v", err, weft.ErrGroupBroken)
	}
	for i, o := range []*weft.GroupOp{&first, &second} {
		if err := o.Wait(ctx); !errors.Is(err, weft.ErrNoGroup) {
			t.Errorf("operation %d: %v; expected %v", i, err, weft.ErrNoGroup)
		}
	}
	if err := groups[0].Close(); err != nil {
		t.Errorf("closing the group: %v", err)
	}
}

// The words by which the members of a long reduction agree are also a vector of integers.
func TestAShortReductionBesideALongOneFailsAtBothMembers(t *testing.T) {
	for n := 1; n <= 16; n++ {
		ctx, groups, _ := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 2, 2)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		together(t, 2, func(i int) error {
			v := make([]int64, []int{n, 1 << 18}[i])
			if err := weft.AllReduce(ctx, groups[i], weft.And, v); !errors.Is(err, weft.ErrGroupMismatch) {
				cancel() // the other member may still be waiting
				return fmt.Errorf("%d elements beside %d: %v; expected %w", n, 1<<18, err, weft.ErrGroupMismatch)
			}
			return nil
		})
	}
}

// Three processes look for the largest value and for the process that has it. They start the
// reduction, and could compute while it runs.
func ExampleStartAllReduceFunc() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	nic, err := weft.OpenNIC(ctx, weft.Config{Link: weft.NewSwitch().Link()})
	if err != nil {
		log.Fatal(err)
	}
	defer nic.Close()

	type best struct {
		Value float64
		Rank  int64
	}
	better := func(into, from []best) {
		for i, b := range from {
			if b.Value > into[i].Value {
				into[i] = b
			}
		}
	}
	const members = 3
	results := make([]best, members)
	var wg sync.WaitGroup
	for i := range members {
		wg.Go(func() {
			p, err := nic.Attach(ctx, weft.Name{App: "search", Index: uint32(i)})
			if err != nil {
				log.Fatal(err)
			}
			g, err := p.Join(ctx, "search", members)
			if err != nil {
				log.Fatal(err)
			}
			var op weft.GroupOp
			v := []best{{Value: []float64{2.5, 7, 3}[i], Rank: int64(g.Rank())}}
			if err := weft.StartAllReduceFunc(ctx, g, &op, better, v); err != nil {
				log.Fatal(err)
			}
			if err := op.Wait(ctx); err != nil {
				log.Fatal(err)
			}
			results[i] = v[0]
		})
	}
	wg.Wait()
	fmt.Println(results)
	// Output: [{7 1} {7 1} {7 1}]
}
