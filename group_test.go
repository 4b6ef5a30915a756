package weft_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
)

// crowd opens n processes w/0…, on nics NICs, and joins them in a group.
func crowd(t testing.TB, net *network, nics, n int) (context.Context, []*weft.Group, []*weft.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	h := hosts(t, net, nics)
	groups, procs := make([]*weft.Group, n), make([]*weft.Process, n)
	for i := range n {
		p, err := h[i%nics].Attach(ctx, weft.Name{App: "w", Index: uint32(i)})
		if err != nil {
			t.Fatal(err)
		}
		procs[i] = p
	}
	together(t, n, func(i int) (err error) {
		groups[i], err = procs[i].Join(ctx, "w", n)
		return err
	})
	for i, g := range groups {
		if g.Rank() != i || g.Size() != n || g.Member(n-1) != procs[n-1].Name() || g.Name() != "w" {
			t.Fatalf("member %d has rank %d of %d; the last is %v", i, g.Rank(), g.Size(), g.Member(n-1))
		}
	}
	return ctx, groups, procs
}

// together runs one function for each member concurrently.
func together(t testing.TB, n int, f func(i int) error) {
	t.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[i] = f(i)
		}()
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("member %d: %v", i, err)
		}
	}
}

func TestAGroupDoesThingsTogether(t *testing.T) {
	links(t, func(t *testing.T, net *network) {
		const n = 5
		barriers := 5 // barriers before the collectives of each round
		if testing.Short() {
			barriers = 2 // two in a row
		}
		ctx, groups, _ := crowd(t, net, 3, n)
		together(t, n, func(i int) error {
			g := groups[i]
			for k := range 4 {
				for range barriers {
					if err := g.Barrier(ctx); err != nil {
						return err
					}
				}
				if err := collectives(ctx, g, k); err != nil {
					return fmt.Errorf("round %d: %w", k, err)
				}
			}
			return g.Close()
		})
	})
}

// collectives calls each collective operation once, and checks the results.
func collectives(ctx context.Context, g *weft.Group, k int) error {
	n, me := g.Size(), g.Rank()
	size := []int{0, 100, 20_000, 1 << 20}[k]
	want, buf := pattern(uint64(k), size), make([]byte, size)
	if me == k%n {
		copy(buf, want)
	}
	if err := g.Broadcast(ctx, k%n, buf); err != nil || !bytes.Equal(buf, want) {
		return fmt.Errorf("broadcast of %d bytes: equal %v, %w", size, bytes.Equal(buf, want), err)
	}
	v := make([]int64, 1+size/16) // the longest vector is reduced in parts
	f := make([]float64, 3)
	sum := int64(0)
	for i := range v {
		v[i] = int64(me*i + 1)
	}
	for i := range n {
		sum += int64(i*(len(v)-1) + 1)
	}
	if err := weft.AllReduce(ctx, g, weft.Sum, v); err != nil || v[len(v)-1] != sum {
		return fmt.Errorf("sum of %d elements: the last is %d, expected %d, %w", len(v), v[len(v)-1], sum, err)
	}
	f[2] = -float64(me) / 2
	if err := weft.Reduce(ctx, g, n-1, weft.Min, f); err != nil || me == n-1 && f[2] != -float64(n-1)/2 || me != n-1 && f[2] != -float64(me)/2 {
		return fmt.Errorf("least of the members: %v, %w", f, err)
	}
	part := pattern(uint64(me), size)
	all, every := make([]byte, n*size), make([]byte, 0, n*size)
	for i := range n {
		every = append(every, pattern(uint64(i), size)...)
	}
	if err := g.Gather(ctx, 1, part, all); err != nil || me == 1 && !bytes.Equal(all, every) {
		return fmt.Errorf("gather: %w", err)
	}
	if err := g.AllGather(ctx, part, all); err != nil || !bytes.Equal(all, every) {
		return fmt.Errorf("all-gather: %w", err)
	}
	clear(part)
	if err := g.Scatter(ctx, 2, all, part); err != nil || !bytes.Equal(part, pattern(uint64(me), size)) {
		return fmt.Errorf("scatter: %w", err)
	}
	from, to := make([]byte, n*8), make([]byte, n*8)
	for i := range n {
		from[i*8], from[i*8+1] = byte(me), byte(i)
	}
	if err := g.AllToAll(ctx, from, to); err != nil {
		return err
	}
	for i := range n {
		if to[i*8] != byte(i) || to[i*8+1] != byte(me) {
			return fmt.Errorf("all-to-all: part %d is %v", i, to[i*8:i*8+8])
		}
	}
	return nil
}

// In an earlier version, a member with a longer buffer got no error and believed that the whole
// buffer was filled.
func TestABroadcastOfAnotherLengthFails(t *testing.T) {
	links(t, func(t *testing.T, net *network) {
		ctx, groups, _ := crowd(t, net, 2, 3)
		together(t, 3, func(i int) error {
			want := []error{nil, weft.ErrGroupMismatch, weft.ErrTruncated}[i]
			buf := bytes.Repeat([]byte{byte(i)}, []int{100, 101, 99}[i])
			if err := groups[i].Broadcast(ctx, 0, buf); !errors.Is(err, want) {
				t.Errorf("of %d bytes: %v, want %v", len(buf), err, want)
			}
			return groups[i].Barrier(ctx)
		})
		together(t, 3, func(i int) error { return groups[i].Broadcast(ctx, 1, nil) })
	})
}

// The pieces that both members have are equally long, so only the next operation shows the
// difference.
func TestABroadcastThatIsLongerByWholePiecesFailsTheNextOperation(t *testing.T) {
	for longer := range 2 {
		ctx, groups, _ := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 2, 2)
		together(t, 2, func(i int) error {
			n := 256 << 10
			if i == longer {
				n++
			}
			err := groups[i].Broadcast(ctx, 0, make([]byte, n))
			if err != nil && (i != longer || !errors.Is(err, weft.ErrGroupMismatch)) {
				return fmt.Errorf("rank %d has one byte more: %w", longer, err)
			}
			if err := groups[i].Barrier(ctx); !errors.Is(err, weft.ErrGroupMismatch) {
				return fmt.Errorf("the barrier behind it, with rank %d longer: %v; expected %w", longer, err, weft.ErrGroupMismatch)
			}
			return nil
		})
	}
}

func TestAGroupThatLosesAMemberNamesItAndShrinks(t *testing.T) {
	links(t, func(t *testing.T, net *network) {
		const n, dead = 4, 2
		ctx, groups, procs := crowd(t, net, 2, n)
		together(t, n, func(i int) error {
			if err := groups[i].Barrier(ctx); err != nil {
				return err
			}
			if i == dead {
				return procs[i].Close()
			}
			err := groups[i].Barrier(ctx)
			var ge *weft.GroupError
			if !errors.Is(err, weft.ErrGroupBroken) || !errors.As(err, &ge) || ge.Dead != procs[dead].Name() {
				return fmt.Errorf("barrier without %v: %w", procs[dead].Name(), err)
			}
			g, err := groups[i].Shrink(ctx)
			if err != nil {
				return err
			}
			if g.Size() != n-1 || g.Epoch() != 1 || g.Name() != "w" {
				return fmt.Errorf("shrunk to %d in epoch %d of %s", g.Size(), g.Epoch(), g.Name())
			}
			v := []int64{1}
			if err := weft.AllReduce(ctx, g, weft.Sum, v); err != nil || v[0] != n-1 {
				return fmt.Errorf("sum over the survivors: %d, %w", v[0], err)
			}
			return g.Close()
		})
	})
}

func TestAThousandBarriersAndBroadcastsGetThroughLoss(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		times := 1000
		switch {
		case testing.Short():
			times = 100
		case n.Faults == nil || !n.onSwitch():
			times = 200 // a thousand takes too long on one link with loss
		}
		ctx, groups, _ := crowd(t, n, 4, 4)
		entered := make([]atomic.Int64, 4)
		together(t, 4, func(i int) error {
			for k := range times {
				entered[i].Store(int64(k + 1))
				if err := groups[i].Barrier(ctx); err != nil {
					return fmt.Errorf("barrier %d: %w", k, err)
				}
				for j := range entered {
					if entered[j].Load() <= int64(k) {
						return fmt.Errorf("through barrier %d, which member %d has not entered", k, j)
					}
				}
				want := pattern(uint64(k), k%3000)
				buf := make([]byte, len(want))
				if i == k%4 {
					copy(buf, want)
				}
				if err := groups[i].Broadcast(ctx, k%4, buf); err != nil || !bytes.Equal(buf, want) {
					return fmt.Errorf("broadcast %d: equal %v, %w", k, bytes.Equal(buf, want), err)
				}
			}
			return nil
		})
	})
}

func TestABarrierWhoseContextEndsIsGivenUpByAll(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		ctx, groups, procs := crowd(t, n, 2, 3)
		together(t, 2, func(i int) error {
			c := ctx
			if i == 1 {
				var cancel context.CancelFunc
				c, cancel = context.WithTimeout(ctx, 20*time.Millisecond)
				defer cancel()
			}
			err := groups[i].Barrier(c)
			if i == 1 && !errors.Is(err, context.DeadlineExceeded) || i == 0 && !errors.Is(err, weft.ErrGroupBroken) {
				return fmt.Errorf("barrier: %w", err)
			}
			return nil
		})
		if err := groups[1].Barrier(ctx); !errors.Is(err, weft.ErrNoGroup) {
			t.Errorf("barrier of the member that has given up: %v", err)
		}
		var ge *weft.GroupError
		if err := groups[2].Barrier(ctx); !errors.As(err, &ge) || ge.Dead != procs[1].Name() ||
			// w/1 still lives.
			err.Error() != "weft: barrier in group w: w/1 has left or ended: the group is broken" {
			t.Errorf("barrier of the third: %v", err)
		}
	})
}

func TestErrorsOfGroupsNameTheGroup(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		ctx, groups, procs := crowd(t, n, 1, 2)
		_, again := procs[0].Join(ctx, "w", 2)
		_, long := procs[0].Join(ctx, "a.name.of.more.than.24.bytes", 2)
		_, none := procs[0].Join(ctx, "x", 0)
		for _, c := range []struct {
			what string
			err  error
			is   error
		}{
			{"a second join", again, weft.ErrGroupJoined},
			{"a long name", long, weft.ErrBadArgument},
			{"no size", none, weft.ErrBadArgument},
		} {
			var ge *weft.GroupError
			if !errors.Is(c.err, c.is) || !errors.As(c.err, &ge) || ge.Group == "" {
				t.Errorf("%s: %v; expected a GroupError with %q", c.what, c.err, c.is)
			}
		}
		// None of this has harmed the group.
		together(t, 2, func(i int) error { return groups[i].Barrier(ctx) })
	})
}

// Only the member knows of its error, and the others have entered the operation. In an earlier
// version they waited for it without end.
func TestAMemberWithAWrongArgumentDoesNotKeepTheOthersWaiting(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		ctx, groups, procs := crowd(t, n, 2, 3)
		// New slices for each member.
		one, all := func() []byte { return make([]byte, 1) }, func() []byte { return make([]byte, 3) }
		for i, c := range []struct {
			what       string
			wrong, fit func(g *weft.Group) error
		}{
			{"a broadcast from no member", func(g *weft.Group) error { return g.Broadcast(ctx, 3, one()) }, func(g *weft.Group) error { return g.Broadcast(ctx, 1, one()) }},
			{"a gather into too little", func(g *weft.Group) error { return g.Gather(ctx, 0, one(), all()[:2]) }, func(g *weft.Group) error { return g.Gather(ctx, 0, one(), all()) }},
			{"a gather at no member", func(g *weft.Group) error { return g.Gather(ctx, -1, one(), all()) }, func(g *weft.Group) error { return g.Gather(ctx, 0, one(), all()) }},
			{"an all-gather into too much", func(g *weft.Group) error { return g.AllGather(ctx, one(), make([]byte, 4)) }, func(g *weft.Group) error { return g.AllGather(ctx, one(), all()) }},
			{"a scatter of too little", func(g *weft.Group) error { return g.Scatter(ctx, 0, all()[:2], one()) }, func(g *weft.Group) error { return g.Scatter(ctx, 0, all(), one()) }},
			{"an all-to-all of uneven parts", func(g *weft.Group) error { return g.AllToAll(ctx, all()[:2], all()[:2]) }, func(g *weft.Group) error { return g.AllToAll(ctx, all(), all()) }},
			{"a reduction of floats by bits", func(g *weft.Group) error { return weft.AllReduce(ctx, g, weft.Xor, []float64{1}) },
				func(g *weft.Group) error { return weft.AllReduce(ctx, g, weft.Sum, []float64{1}) }},
			{"a reduction at no member", func(g *weft.Group) error { return weft.Reduce(ctx, g, 3, weft.Sum, []int64{1}) },
				func(g *weft.Group) error { return weft.Reduce(ctx, g, 1, weft.Sum, []int64{1}) }},
		} {
			if i > 0 {
				together(t, 3, func(k int) (err error) {
					groups[k], err = procs[k].Join(ctx, fmt.Sprint("again.", i), 3)
					return err
				})
			}
			together(t, 3, func(k int) error {
				g := groups[k]
				var ge *weft.GroupError
				if k == 0 {
					if err := c.wrong(g); !errors.Is(err, weft.ErrBadArgument) || !errors.As(err, &ge) || ge.Group != g.Name() {
						return fmt.Errorf("%s: %w; expected a GroupError with %v", c.what, err, weft.ErrBadArgument)
					}
					return nil
				}
				err := c.fit(g)
				if err == nil { // the root of a broadcast does not wait for the member
					err = g.Barrier(ctx)
				}
				if !errors.Is(err, weft.ErrGroupBroken) || !errors.As(err, &ge) || ge.Dead != procs[0].Name() {
					return fmt.Errorf("beside %s: %w; expected %v, and the name of the member", c.what, err, weft.ErrGroupBroken)
				}
				return nil
			})
		}
	})
}

// The others find the root's region closed, or the root gone, before they know that the group is
// broken. In an earlier version each of them then left the group, and none could shrink it.
func TestARootThatEndsWhileOthersReachItsRegionIsNamedAndTheGroupShrinks(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		const part = 40_000
		for what, c := range map[string]struct {
			form uint32 // the number by which members know the operation
			do   func(ctx context.Context, g *weft.Group) error
		}{
			"a gather":  {1, func(ctx context.Context, g *weft.Group) error { return g.Gather(ctx, 0, make([]byte, part), nil) }},
			"a scatter": {5, func(ctx context.Context, g *weft.Group) error { return g.Scatter(ctx, 0, nil, make([]byte, part)) }},
		} {
			ctx, groups, procs := crowd(t, n, 2, 4)
			r, err := procs[0].Alloc(4 * part)
			if err != nil {
				t.Fatal(err)
			}
			// The description that a root shows to all members. It lacks the form and the length
			// of a part.
			region, err := r.Handle().MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			binary.LittleEndian.PutUint32(region[20:], c.form)
			binary.LittleEndian.PutUint64(region[32:], part)
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			together(t, 4, func(i int) error {
				if i == 0 {
					return errors.Join(groups[0].Broadcast(ctx, 0, region), procs[0].Close())
				}
				var ge *weft.GroupError
				if err := c.do(ctx, groups[i]); !errors.Is(err, weft.ErrGroupBroken) || !errors.As(err, &ge) || ge.Dead != procs[0].Name() {
					return fmt.Errorf("%s: %w; expected %v, and the name of the root", what, err, weft.ErrGroupBroken)
				}
				g, err := groups[i].Shrink(ctx)
				if err != nil {
					return err
				}
				return g.Barrier(ctx)
			})
			for _, p := range procs {
				p.Close()
			}
		}
	})
}

// A join does not fit in two cases: the group has all its members, or the others expect another
// size.
func TestAJoinThatDoesNotFitSaysWhichSizesAreMeant(t *testing.T) {
	ctx, a, b := pair(t, on(weft.Config{Link: weft.NewSwitch().Link()}))
	third, err := b.NIC().Attach(ctx, weft.Name{App: "c"})
	if err != nil {
		t.Fatal(err)
	}
	together(t, 2, func(i int) error { _, err := []*weft.Process{a, b}[i].Join(ctx, "full", 2); return err })
	fourth, err := a.NIC().Attach(ctx, weft.Name{App: "d"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*weft.Process{third, fourth} {
		for size, want := range map[int]string{2: "all 2 members are there", 5: "this process expects 5 members, and the 2 that are there expect 2"} {
			_, err := p.Join(ctx, "full", size)
			if !errors.Is(err, weft.ErrGroupSize) || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%v: %v; expected %q", p.Name(), err, want)
			}
		}
	}
	// Two processes join one group with different sizes, so one join fails: the later one or, if
	// neither NIC knew of the other join, that of the process with the higher name.
	gather, cancel := context.WithCancel(ctx)
	type join struct {
		size int
		err  error
	}
	ended := make(chan join, 2)
	for p, size := range map[*weft.Process]int{a: 3, third: 4} {
		go func() { _, err := p.Join(gather, "gathers", size); ended <- join{size, err} }()
	}
	refused := <-ended
	want := fmt.Sprintf("this process expects %d members, and the 1 that are there expect %d", refused.size, 3+4-refused.size)
	if !errors.Is(refused.err, weft.ErrGroupSize) || !strings.HasSuffix(refused.err.Error(), want) {
		t.Errorf("%v; expected %q", refused.err, want)
	}
	cancel()
	if other := <-ended; !errors.Is(other.err, context.Canceled) {
		t.Errorf("the join that was given up: %v", other.err)
	}
}

func TestAProcessInAsManyGroupsAsItMayBeInCanShrinkEach(t *testing.T) {
	p, err := weft.Open(t.Context(), weft.Config{Name: weft.Name{App: "a"}, Link: weft.NewSwitch().Link()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var g *weft.Group
	for i := range limits.Groups {
		if g, err = p.Join(ctx, fmt.Sprintf("g%d", i), 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Join(ctx, "more", 1); !errors.Is(err, weft.ErrNoMemory) || !strings.Contains(err.Error(), fmt.Sprintf("in %d groups", limits.Groups)) {
		t.Errorf("one more: %v; expected %v, and how many groups are too many", err, weft.ErrNoMemory)
	}
	if g, err = g.Shrink(ctx); err != nil || g.Epoch() != 1 {
		t.Fatalf("shrinking one of them: %v", err)
	}
	if _, err := p.Join(ctx, "more", 1); !errors.Is(err, weft.ErrNoMemory) {
		t.Errorf("one more behind that: %v; expected %v", err, weft.ErrNoMemory)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Join(ctx, "more", 1); err != nil {
		t.Errorf("one in its place: %v", err)
	}
}

func TestABarrierAllocatesNothing(t *testing.T) { // P12
	if testing.Short() {
		t.Skip("short runs may be for the race detector, with which system calls allocate")
	}
	ctx, groups, _ := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 1, 1)
	if got := steadyAllocs(func() {
		if err := groups[0].Barrier(ctx); err != nil {
			t.Fatal(err)
		}
	}); got != 0 {
		t.Errorf("a barrier makes %v allocations", got)
	}
}
