package weft_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
)

func TestAGroupSplitsByColor(t *testing.T) {
	links(t, func(t *testing.T, net *network) {
		const n = 6
		ctx, groups, procs := crowd(t, net, 3, n)
		together(t, n, func(i int) error {
			color := []int{7, -1, 7, 0, 0, 7}[i]
			g, err := groups[i].Split(ctx, color)
			if err != nil {
				return err
			}
			if color < 0 {
				if g != nil {
					return fmt.Errorf("color %d is in the part %v", color, g)
				}
				return groups[i].Barrier(ctx)
			}
			members := map[int][]int{7: {0, 2, 5}, 0: {3, 4}}[color]
			if g.Size() != len(members) || g.Member(g.Rank()) != procs[i].Name() || g.Name() != fmt.Sprintf("w/1.%d", color) || g.Epoch() != 0 {
				return fmt.Errorf("color %d is in the part %v", color, g)
			}
			for rank, k := range members {
				if g.Member(rank) != procs[k].Name() {
					return fmt.Errorf("rank %d of color %d is %v; expected %v", rank, color, g.Member(rank), procs[k].Name())
				}
			}
			v := []uint32{1 << i}
			if err := weft.AllReduce(ctx, g, weft.Or, v); err != nil || v[0] != map[int]uint32{7: 1 | 4 | 32, 0: 8 | 16}[color] {
				return fmt.Errorf("the members of color %d are %b: %w", color, v[0], err)
			}
			if err := groups[i].Barrier(ctx); err != nil { // the whole group is still usable
				return err
			}
			return g.Close()
		})
	})
}

// Parts are split again, and several groups split at the same time. No group may be taken for
// another.
func TestPartsOfPartsAreGroupsOfTheirOwn(t *testing.T) {
	const n = 8
	ctx, groups, _ := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 4, n)
	var mu sync.Mutex
	names := map[string]int{}
	together(t, n, func(i int) error {
		g, all := groups[i], []*weft.Group(nil)
		for depth := n / 2; depth > 0; depth /= 2 {
			for again := range 2 {
				part, err := g.Split(ctx, g.Rank()/depth)
				if err != nil {
					return fmt.Errorf("split in parts of %d, %d: %w", depth, again, err)
				}
				all = append(all, part)
			}
			g = all[len(all)-1]
		}
		for _, g := range all {
			v := []int64{int64(i)}
			if err := weft.AllReduce(ctx, g, weft.Min, v); err != nil || v[0] != int64(i/g.Size()*g.Size()) {
				return fmt.Errorf("the least of %v is %d: %w", g, v[0], err)
			}
			if !strings.HasPrefix(g.Name(), "w/") || len(g.Name()) > limits.PartNameBytes {
				return fmt.Errorf("a part is called %q", g.Name())
			}
			mu.Lock()
			names[g.Name()] += 1
			if names[g.Name()] > g.Size() {
				t.Errorf("there are two groups %v", g)
			}
			mu.Unlock()
		}
		return nil
	})
	if len(names) != 2*(2+4+8) {
		t.Errorf("%d names: %v", len(names), names)
	}
}

func TestThePartOfAPartHasABoundedName(t *testing.T) {
	ctx, groups, _ := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 1, 1)
	names, g := map[string]bool{}, groups[0]
	for range 30 {
		part, err := g.Split(ctx, 123)
		if err != nil {
			t.Fatal(err)
		}
		if names[part.Name()] || len(part.Name()) > limits.PartNameBytes || !strings.HasPrefix(part.Name(), "w/1.123") {
			t.Fatalf("a part of %q is called %q, %d bytes", g.Name(), part.Name(), len(part.Name()))
		}
		names[part.Name()], g = true, part
	}
}

// The numbers of its parts continue after those of the group before the shrink.
func TestAGroupThatHasShrunkSplitsAgain(t *testing.T) {
	ctx, groups, procs := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 2, 3)
	together(t, 3, func(i int) error {
		before, err := groups[i].Split(ctx, 1)
		if err != nil {
			return err
		}
		if i == 0 {
			return procs[0].Close()
		}
		err = before.Barrier(ctx)
		var ge *weft.GroupError
		if !errors.Is(err, weft.ErrGroupBroken) || !errors.As(err, &ge) || ge.Dead != procs[0].Name() {
			return fmt.Errorf("the part without %v: %w", procs[0].Name(), err)
		}
		part, err := before.Shrink(ctx)
		if err != nil {
			return err
		}
		whole, err := groups[i].Shrink(ctx)
		if err != nil {
			return err
		}
		later, err := whole.Split(ctx, 1)
		if err != nil {
			return err
		}
		if part.Name() != "w/1.1" || part.Epoch() != 1 || later.Name() != "w/2.1" || later.Epoch() != 0 {
			return fmt.Errorf("the parts are %v and %v", part, later)
		}
		for _, g := range []*weft.Group{part, whole, later} {
			v := []float32{1}
			if err := weft.AllReduce(ctx, g, weft.Sum, v); err != nil || v[0] != 2 {
				return fmt.Errorf("%v adds up to %v: %w", g, v[0], err)
			}
		}
		return nil
	})
}

// The others have already called Split and wait for the member, whatever its color would have
// been.
func TestASplitFailsWithTheNameOfAMemberThatDoesNotCome(t *testing.T) {
	for what, leave := range map[string]func(g *weft.Group, p *weft.Process) error{
		"closes the group":   func(g *weft.Group, _ *weft.Process) error { return g.Close() },
		"closes the process": func(_ *weft.Group, p *weft.Process) error { return p.Close() },
	} {
		ctx, groups, procs := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 2, 3)
		together(t, 3, func(i int) error {
			if i == 1 {
				return leave(groups[1], procs[1])
			}
			part, err := groups[i].Split(ctx, i)
			var ge *weft.GroupError
			if part != nil || !errors.Is(err, weft.ErrGroupBroken) || !errors.As(err, &ge) || ge.Dead != procs[1].Name() || ge.Op != "split" {
				return fmt.Errorf("a member %s: %v, %w", what, part, err)
			}
			g, err := groups[i].Shrink(ctx)
			if err != nil {
				return err
			}
			part, err = g.Split(ctx, 0)
			if err != nil || part.Size() != 2 {
				return fmt.Errorf("the split of those that are left: %v, %w", part, err)
			}
			return nil
		})
	}
}

func TestASplitOfAProcessInTooManyGroupsFails(t *testing.T) {
	ctx, groups, procs := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 2, 2)
	for i := 1; i < limits.Groups; i++ {
		if _, err := procs[0].Join(ctx, fmt.Sprint("g", i), 1); err != nil {
			t.Fatal(err)
		}
	}
	together(t, 2, func(i int) error {
		_, err := groups[i].Split(ctx, 0)
		want := []error{weft.ErrNoMemory, weft.ErrGroupBroken}[i]
		var ge *weft.GroupError
		if !errors.Is(err, want) || !errors.As(err, &ge) || i == 1 && ge.Dead != procs[0].Name() {
			return fmt.Errorf("%w; expected %w", err, want)
		}
		return nil
	})
}

func TestAGroupSaysWhatItIs(t *testing.T) {
	_, groups, _ := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 1, 2)
	if s := fmt.Sprint(groups[1]); s != "w (epoch 0, rank 1 of 2)" {
		t.Errorf("a group is printed as %q", s)
	}
}

// A process that gives up a split leaves the group, as with every operation.
func TestASplitWhoseContextEndsIsGivenUpByAll(t *testing.T) {
	ctx, groups, procs := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 2, 3)
	over, cancel := context.WithCancel(ctx)
	defer cancel()
	together(t, 3, func(i int) error {
		switch i {
		case 0:
			if _, err := groups[0].Split(over, 0); !errors.Is(err, context.Canceled) {
				return fmt.Errorf("%w; expected %w", err, context.Canceled)
			}
			return nil
		case 1:
			err := groups[1].Broadcast(ctx, 0, make([]byte, 40)) // the first step of the split
			cancel()
			return err
		}
		var ge *weft.GroupError
		if _, err := groups[2].Split(ctx, 0); !errors.Is(err, weft.ErrGroupBroken) || !errors.As(err, &ge) || ge.Dead != procs[0].Name() {
			return fmt.Errorf("%w; expected %w, and the name of the member", err, weft.ErrGroupBroken)
		}
		return nil
	})
}

// Four processes split into the even and the odd ranks, and each half adds up its values.
func ExampleGroup_Split() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	nic, err := weft.OpenNIC(ctx, weft.Config{Link: weft.NewSwitch().Link()})
	if err != nil {
		log.Fatal(err)
	}
	defer nic.Close()

	const members = 4
	results := make([]string, members)
	var wg sync.WaitGroup
	for i := range members {
		wg.Go(func() {
			p, err := nic.Attach(ctx, weft.Name{App: "sum", Index: uint32(i)})
			if err != nil {
				log.Fatal(err)
			}
			g, err := p.Join(ctx, "sum", members)
			if err != nil {
				log.Fatal(err)
			}
			half, err := g.Split(ctx, g.Rank()%2)
			if err != nil {
				log.Fatal(err)
			}
			v := []float32{float32(i)}
			if err := weft.AllReduce(ctx, half, weft.Sum, v); err != nil {
				log.Fatal(err)
			}
			results[i] = fmt.Sprintf("%s: %v", half.Name(), v[0])
		})
	}
	wg.Wait()
	fmt.Println(strings.Join(results, "\n"))
	// Output:
	// sum/1.0: 2
	// sum/1.1: 4
	// sum/1.0: 2
	// sum/1.1: 4
}
