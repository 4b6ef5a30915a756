package proc

import (
	"context"
	"errors"
	"testing"

	"github.com/weftnet/weft/internal/vni"
)

// grabbing completes posted operations. When a context has become free, it lets another caller
// run.
type grabbing struct {
	toy    *toyProc
	told   form // by the root of the group, with its handle
	freed  func()
	leaves int
}

func (w *grabbing) Wait(ctx context.Context, ready func() bool) error {
	for !ready() {
		if err := ctx.Err(); err != nil {
			return err
		}
		for c, ok := w.toy.nic.Next(); ok; c, ok = w.toy.nic.Next() {
			var sc vni.SendContext
			must(w.toy.nic.Send(int(c.Context), &sc))
			if c.Code == vni.CodeBroadcast {
				var handle [handleBytes]byte
				w.told.put(handle[:])
				copy(w.toy.memory(false, int(c.Context), sc.PoolIndex, sc.Size, sc.Len)[0], handle[:])
			}
			// A broadcast of a handle has such a completion.
			must(w.toy.nic.Complete(false, int(c.Context), &vni.Completion{Status: vni.StatusOK, Full: handleBytes}, true))
			if c.Code == vni.CodeLeave {
				w.leaves++
			}
		}
	}
	return nil
}

func (w *grabbing) Kick() {}

func (w *grabbing) Wake() {
	if f := w.freed; f != nil {
		w.freed = nil
		f()
	}
}

// An operation of a group may have several steps, and each needs a context. Other goroutines of
// the process may take all contexts between two steps, and the operation's context.Context may
// end while it waits for one. The other members must not wait for the operation then.
func TestAGroupIsLeftByAnOperationThatCannotGoOn(t *testing.T) {
	for _, x := range []struct {
		name string
		told form
		do   func(ctx context.Context, g *Group) error
	}{
		{"gather", formGather, func(ctx context.Context, g *Group) error { return g.Gather(ctx, 0, nil, nil) }},
		{"scatter", formScatter, func(ctx context.Context, g *Group) error { return g.Scatter(ctx, 0, nil, nil) }},
	} {
		w := &grabbing{told: x.told}
		p, _ := new(toy).join(t, vni.Geometry{Commands: 32, Contexts: 1, Descriptors: 4, PoolPages: 8}, true, func(_ *vni.Process, q *toyProc) Waiter { w.toy = q; return w }, Options{})
		ctx, cancel := context.WithCancel(context.Background())
		var other *Op
		w.freed = func() {
			var err error
			if other, err = p.StartSend(app(t, "app/1"), 1, make([]byte, 1000)); err != nil {
				t.Errorf("the other goroutine's send: %v", err)
			}
			cancel()
		}
		p.watched.Add(1) // it waits for a context
		g := &Group{p: p, name: "g", number: 7, rank: 1, roster: make([]Dest, 2)}
		if err := x.do(ctx, g); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v; expected %v", x.name, err, context.Canceled)
		}
		if w.leaves != 1 {
			t.Errorf("%s: a process that went no further has left its group %d times; expected once", x.name, w.leaves)
		}
		if _, err := other.Wait(context.Background()); err != nil {
			t.Errorf("the other goroutine's send: %v", err)
		}
	}
}

// endsLater is a context.Context that ends when its error is read for the second time.
type endsLater struct {
	context.Context
	asked bool
}

func (c *endsLater) Err() error {
	if c.asked {
		return context.Canceled
	}
	c.asked = true
	return nil
}

// If an operation cannot even begin, its process stays in the group, however many steps the
// operation before it had: that one is over.
func TestAnOperationThatCannotBeginAnswersNotForTheStepsOfTheOneBefore(t *testing.T) {
	w := &grabbing{told: formGather}
	p, _ := new(toy).join(t, vni.Geometry{Commands: 32, Contexts: 1, Descriptors: 4, PoolPages: 8}, true, func(_ *vni.Process, q *toyProc) Waiter { w.toy = q; return w }, Options{})
	g := &Group{p: p, name: "g", number: 7, rank: 1, roster: make([]Dest, 2)}
	if err := g.Gather(context.Background(), 0, nil, nil); err != nil {
		t.Fatal(err)
	}
	other, err := p.StartSend(app(t, "app/1"), 1, make([]byte, 1000)) // takes the only context
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Barrier(&endsLater{Context: context.Background()}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; expected %v", err, context.Canceled)
	}
	if _, err := other.Wait(context.Background()); err != nil || w.leaves != 0 {
		t.Errorf("the process has left its group %d times; the send that was in the way: %v", w.leaves, err)
	}
}
