package proc

import (
	"context"
	"errors"
	"testing"

	"github.com/weftnet/weft/internal/vni"
)

// deaf is the waiter of a process whose NIC does not answer, like a stopped daemon. Each patience
// ends, and deaf counts them.
type deaf struct {
	patiences, givenUp int
	cancel             context.CancelFunc
}

func (w *deaf) patience() (context.Context, context.CancelFunc) {
	w.patiences++
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	return ctx, cancel
}

func (w *deaf) Wait(ctx context.Context, ready func() bool) error {
	if ready() {
		return nil
	}
	if w.cancel != nil {
		w.cancel()
	}
	return ctx.Err()
}

func (w *deaf) Kick() {}
func (w *deaf) Wake() {}

// If the NIC should do something at once, the process waits for it only once. A leave is not
// withdrawn. If the first of many operations does not end, the process does not wait for the
// others.
func TestANICThatDoesNotAnswerIsWaitedForOnce(t *testing.T) {
	for what, do := range map[string]func(t *testing.T, p *Process) error{
		"closing a process with receives under way": func(t *testing.T, p *Process) error {
			for range 3 {
				if _, err := p.StartRecv(Dest{}, AnyTag, make([]byte, 10)); err != nil {
					t.Fatal(err)
				}
			}
			return p.Close()
		},
		"closing a group": func(_ *testing.T, p *Process) error {
			return (&Group{p: p, name: "g", number: 7, roster: make([]Dest, 2)}).Close()
		},
	} {
		w := &deaf{}
		p, _ := new(toy).join(t, smallGeometry, true, func(*vni.Process, *toyProc) Waiter { return w },
			Options{Patience: w.patience, GivenUp: func() { w.givenUp++ }})
		if err := do(t, p); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if w.patiences != 1 || w.givenUp == 0 {
			t.Errorf("%s has waited for the NIC %d times, and given it up %d times; expected to wait once and to give it up", what, w.patiences, w.givenUp)
		}
		if err := p.Send(context.Background(), app(t, "app/0"), 0); !errors.Is(err, ErrNICGone) && !errors.Is(err, ErrClosed) {
			t.Errorf("a send after %s: %v", what, err)
		}
	}
}
