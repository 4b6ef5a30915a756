package weft_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
)

// Every form is started, and one blocking call is made in between. All operations run in the
// order in which they were called or started.
func TestStartedOperationsRunInTheirOrder(t *testing.T) {
	links(t, func(t *testing.T, net *network) {
		const n = 3
		ctx, groups, _ := crowd(t, net, 2, n)
		ops := make([][14]weft.GroupOp, n)
		for round := range 3 { // each GroupOp is used again
			together(t, n, func(i int) error {
				g, o := groups[i], &ops[i]
				whole := func(of byte) []byte { return bytes.Repeat([]byte{of}, 2) }
				each := func() [][]byte { return [][]byte{make([]byte, 2), make([]byte, 2), make([]byte, 2)} }
				buf, all, every, part, to := whole(byte(i)), make([]byte, 2*n), make([]byte, 2*n), whole(9), make([]byte, 2*n)
				gathered, allGathered, scattered, swapped := each(), each(), make([]byte, 2), each()
				sum, at, product, first := []int32{1}, []uint64{2}, []int{i + 1}, []int{i}
				multiply := func(into, from []int) { into[0] *= from[0] }
				keep := func(into, from []int) {}
				err := errors.Join(
					g.StartBarrier(ctx, &o[0]),
					weft.StartAllReduce(ctx, g, &o[1], weft.Sum, sum),
					// Reduces the result of the one before.
					weft.StartAllReduce(ctx, g, &o[2], weft.Sum, sum),
					g.StartBroadcast(ctx, &o[3], 1, buf),
					g.StartGather(ctx, &o[4], 2, buf, all), // sends the result of the one before
					g.StartAllGather(ctx, &o[5], buf, every),
					g.StartScatter(ctx, &o[6], 2, all, part),
					g.StartAllToAll(ctx, &o[7], every, to),
					weft.Reduce(ctx, g, 0, weft.Max, at), // waits for the operations before
					g.StartGatherParts(ctx, &o[8], 0, part, gathered),
					g.StartAllGatherParts(ctx, &o[9], part, allGathered),
					g.StartScatterParts(ctx, &o[10], 0, gathered, scattered),
					g.StartAllToAllParts(ctx, &o[11], allGathered, swapped),
					weft.StartReduceFunc(ctx, g, &o[12], 1, multiply, product),
					weft.StartAllReduceFunc(ctx, g, &o[13], keep, first),
				)
				for k := range o {
					err = errors.Join(err, o[k].Wait(ctx))
				}
				done, late := o[13].Test()
				if err = errors.Join(err, late); err != nil || !done {
					return fmt.Errorf("round %d: %w", round, err)
				}
				// Rank 1 broadcast these bytes, and all members gathered them.
				one := bytes.Repeat([]byte{1}, 2*n)
				if sum[0] != n*n || at[0] != 2 || i == 1 && product[0] != 6 || i != 1 && product[0] != i+1 || first[0] != 0 {
					return fmt.Errorf("round %d: the reductions made %d, %d, %d and %d", round, sum[0], at[0], product[0], first[0])
				}
				for what, b := range map[string][]byte{"gather": all, "all-gather": every, "scatter": part, "all-to-all": to, "gather of parts": slices.Concat(gathered...),
					"all-gather of parts": slices.Concat(allGathered...), "scatter of parts": scattered, "all-to-all of parts": slices.Concat(swapped...)} {
					if mine := what != "gather" && what != "gather of parts" || what == "gather" && i == 2 || what == "gather of parts" && i == 0; mine && !bytes.Equal(b, one[:len(b)]) {
						return fmt.Errorf("round %d: %s brought %v", round, what, b)
					}
				}
				return nil
			})
		}
	})
}

func TestAGroupOpThatWasNotStartedHasNothingToWaitFor(t *testing.T) {
	var o weft.GroupOp
	if err := o.Wait(t.Context()); !errors.Is(err, weft.ErrBadArgument) {
		t.Errorf("Wait: %v; expected %v", err, weft.ErrBadArgument)
	}
	if done, err := o.Test(); !done || !errors.Is(err, weft.ErrBadArgument) {
		t.Errorf("Test: %v, %v; expected %v", done, err, weft.ErrBadArgument)
	}
}

func TestStartedOperationsOfAGroupAreBounded(t *testing.T) {
	ctx, groups, _ := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 1, 2)
	g := groups[0]
	ops := make([]weft.GroupOp, limits.GroupStarted+1)
	for i := range limits.GroupStarted {
		if err := g.StartBarrier(ctx, &ops[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.StartBarrier(ctx, &ops[1]); !errors.Is(err, weft.ErrBadArgument) {
		t.Errorf("a GroupOp that is in flight: %v; expected %v", err, weft.ErrBadArgument)
	}
	if err := g.StartBarrier(ctx, &ops[limits.GroupStarted]); !errors.Is(err, weft.ErrQueueFull) {
		t.Errorf("one more: %v; expected %v", err, weft.ErrQueueFull)
	}
	if done, err := ops[0].Test(); done {
		t.Errorf("a barrier that one member has entered is done: %v", err)
	}
	short, cancel := context.WithCancel(ctx)
	cancel()
	if err := ops[0].Wait(short); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that was given up: %v", err)
	}
	for range limits.GroupStarted { // the group has not changed
		if err := groups[1].Barrier(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for i := range limits.GroupStarted {
		if err := ops[i].Wait(ctx); err != nil {
			t.Errorf("barrier %d: %v", i, err)
		}
	}
	if err := g.StartBarrier(ctx, &ops[limits.GroupStarted]); err != nil {
		t.Errorf("once those are done: %v", err)
	}
}

// The process has not entered the operation, so the others do not wait for it.
func TestAnOperationWhoseContextEndsBeforeItsTurnLeavesTheProcessInTheGroup(t *testing.T) {
	ctx, groups, _ := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 1, 2)
	g := groups[0]
	var first, second, third weft.GroupOp
	over, cancel := context.WithCancel(ctx)
	call := make(chan error)
	if err := errors.Join(g.StartBarrier(ctx, &first), g.StartBarrier(over, &second), g.StartBarrier(ctx, &third)); err != nil {
		t.Fatal(err)
	}
	go func() { call <- g.Barrier(over) }()
	cancel()
	if err := <-call; !errors.Is(err, context.Canceled) {
		t.Errorf("the call: %v; expected %v", err, context.Canceled)
	}
	together(t, 2, func(i int) error {
		if i == 1 {
			return errors.Join(groups[1].Barrier(ctx), groups[1].Barrier(ctx))
		}
		if err := second.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("the second: %v; expected %v", err, context.Canceled)
		}
		return errors.Join(first.Wait(ctx), third.Wait(ctx))
	})
}

func TestAnOperationWhoseContextEndsInFlightLeavesTheGroup(t *testing.T) {
	ctx, groups, procs := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 2, 2)
	var first, second weft.GroupOp
	over, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := errors.Join(groups[0].StartGather(over, &first, 0, make([]byte, 1), make([]byte, 2)), groups[0].StartBarrier(ctx, &second)); err != nil {
		t.Fatal(err)
	}
	// A gather begins with a broadcast in which the root announces its region.
	if err := groups[1].Broadcast(ctx, 0, make([]byte, 40)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := first.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the operation: %v; expected %v", err, context.Canceled)
	}
	if err := second.Wait(ctx); !errors.Is(err, weft.ErrNoGroup) {
		t.Errorf("the one behind it: %v; expected %v", err, weft.ErrNoGroup)
	}
	err := groups[1].Barrier(ctx)
	if err == nil { // the gather was in its last step, a barrier
		err = groups[1].Barrier(ctx)
	}
	var ge *weft.GroupError
	if !errors.Is(err, weft.ErrGroupBroken) || !errors.As(err, &ge) || ge.Dead != procs[0].Name() {
		t.Errorf("the other member: %v; expected %v, and the name of the one that has left", err, weft.ErrGroupBroken)
	}
	alone, err := procs[0].Join(ctx, "two", 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(alone.StartBarrier(ctx, &first), first.Wait(ctx)); err != nil {
		t.Errorf("the same GroupOp in another group: %v", err)
	}
}

func TestClosingAGroupEndsWhatWasStarted(t *testing.T) {
	for what, c := range map[string]struct {
		end  func(g *weft.Group, p *weft.Process) error
		want error
	}{
		"group":   {func(g *weft.Group, _ *weft.Process) error { return g.Close() }, weft.ErrNoGroup},
		"process": {func(_ *weft.Group, p *weft.Process) error { return p.Close() }, weft.ErrClosed},
	} {
		ctx, groups, procs := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 1, 2)
		ops := make([]weft.GroupOp, 4)
		if err := errors.Join(groups[0].StartBarrier(ctx, &ops[0]), groups[0].StartGather(ctx, &ops[1], 0, make([]byte, 1), make([]byte, 2)),
			weft.StartAllReduce(ctx, groups[0], &ops[2], weft.Sum, []int32{1})); err != nil {
			t.Fatal(err)
		}
		if err := c.end(groups[0], procs[0]); err != nil {
			t.Errorf("closing the %s: %v", what, err)
		}
		for i := range 3 {
			if err := ops[i].Wait(ctx); !errors.Is(err, c.want) {
				t.Errorf("operation %d, as the %s was closed: %v; expected %v", i, what, err, c.want)
			}
		}
		err := groups[0].StartBarrier(ctx, &ops[3])
		if err == nil {
			err = ops[3].Wait(ctx)
		}
		if !errors.Is(err, c.want) {
			t.Errorf("started once the %s was closed: %v; expected %v", what, err, c.want)
		}
		if err := groups[1].Barrier(ctx); !errors.Is(err, weft.ErrGroupBroken) {
			t.Errorf("the other member, as the %s was closed: %v; expected %v", what, err, weft.ErrGroupBroken)
		}
	}
}

func TestAllThatWaitForAGroupOpHearOfItsEnd(t *testing.T) {
	ctx, groups, _ := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 1, 2)
	var o weft.GroupOp
	if err := groups[0].StartBarrier(ctx, &o); err != nil {
		t.Fatal(err)
	}
	together(t, 6, func(i int) error {
		if i == 0 {
			return groups[1].Barrier(ctx)
		}
		return o.Wait(ctx)
	})
}

// After a failed start, the result of the earlier operation must not pass for the result of the
// new one.
func TestAGroupOpWhoseStartFailsHasThatErrorAsItsResult(t *testing.T) {
	ctx, groups, _ := crowd(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 1, 1)
	g := groups[0]
	over, cancel := context.WithCancel(ctx)
	cancel()
	var used, fresh weft.GroupOp
	if err := errors.Join(g.StartBarrier(ctx, &used), used.Wait(ctx)); err != nil {
		t.Fatal(err)
	}
	for what, o := range map[string]*weft.GroupOp{"one that was done": &used, "a new one": &fresh} {
		if err := g.StartBarrier(over, o); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: start: %v; expected %v", what, err, context.Canceled)
		}
		if err := o.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Wait: %v; expected %v", what, err, context.Canceled)
		}
		if done, err := o.Test(); !done || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Test: %v, %v; expected %v", what, done, err, context.Canceled)
		}
		if err := errors.Join(g.StartBarrier(ctx, o), o.Wait(ctx)); err != nil {
			t.Errorf("%s, started again: %v", what, err)
		}
	}
}
