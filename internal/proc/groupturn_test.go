package proc

import (
	"context"
	"errors"
	"testing"

	"github.com/weftnet/weft/internal/vni"
)

// hooked is a gate that calls a function when it is opened.
type hooked struct {
	Gate
	opened func()
}

func (h hooked) Open() {
	if h.opened != nil {
		h.opened()
	}
	h.Gate.Open()
}

// A call returns only when the operations that were started before it are done, so the program
// may then use their results.
func TestACallHasItsTurnWhenWhatWasStartedBeforeItIsDone(t *testing.T) {
	ctx, g, opened := context.Background(), &Group{name: "g"}, func() {}
	p := &Process{opts: Options{NewGate: func() Gate { return hooked{NewGate(), func() { opened() }} }}}
	g.p = p
	var o GroupOp
	var run func()
	if err := g.Start(ctx, &o, func(f func()) { run = f }, "barrier", func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	waits, called := make(chan struct{}), make(chan error)
	opens := 0
	opened = func() {
		opens++
		if done, err := o.Test(); !done || err != nil {
			t.Errorf("gate %d was opened, and the operation is not done: %v", opens, err)
		}
	}
	p.opts.NewGate = func() Gate { close(waits); return hooked{NewGate(), opened} }
	go func() { called <- g.turns.take(ctx, p) }()
	<-waits
	for queued := false; !queued; { // the call takes its place right after it creates its gate
		g.turns.mu.Lock()
		queued = len(g.turns.queue) == 1
		g.turns.mu.Unlock()
	}
	run()
	if err := <-called; err != nil || opens != 2 {
		t.Errorf("the call: %v, after %d gates were opened; expected that of the operation and that of the call", err, opens)
	}
}

// Close does not wait for an operation that is started after it: the operation may take as long
// as other members do.
func TestAGroupThatClosesWaitsForNothingThatIsStartedMeanwhile(t *testing.T) {
	w := &grabbing{}
	p, _ := new(toy).join(t, smallGeometry, true, func(_ *vni.Process, q *toyProc) Waiter { w.toy = q; return w }, Options{})
	g := &Group{p: p, name: "g", number: 7, rank: 1, roster: make([]Dest, 2)}
	ctx := context.Background()
	spawn := func(f func()) { go f() }
	until := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	late := func(context.Context) error {
		if w.leaves == 0 {
			t.Error("what was started while the group was closing has its turn before the group is left")
		}
		return ErrNoGroup
	}
	var first, second, third GroupOp
	if err := g.Start(ctx, &first, spawn, "barrier", until); err != nil {
		t.Fatal(err)
	}
	started := false
	p.opts.NewGate = func() Gate {
		return hooked{NewGate(), func() { // called in Close, when second has ended
			if !started {
				started = true
				if err := g.Start(ctx, &third, spawn, "barrier", late); err != nil {
					t.Errorf("a start while the group is closing: %v", err)
				}
			}
		}}
	}
	if err := g.Start(ctx, &second, spawn, "barrier", until); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil || !started {
		t.Errorf("Close: %v; something was started meanwhile: %v", err, started)
	}
	for i, o := range []*GroupOp{&first, &second, &third} {
		if err := o.Wait(ctx); !errors.Is(err, ErrNoGroup) {
			t.Errorf("operation %d: %v; expected %v", i, err, ErrNoGroup)
		}
	}
}
