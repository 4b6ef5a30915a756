package load_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
)

// open returns a process that sends to itself.
func open(t *testing.T) *weft.Process {
	t.Helper()
	p, err := weft.Open(t.Context(), weft.Config{Name: weft.Name{App: "self"}, Link: weft.NewSwitch().Link()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func TestOperationsEndInTheOrderInWhichTheyWereAdded(t *testing.T) {
	p := open(t)
	r := load.NewRing(3)
	for n := range weft.Tag(10) {
		if r.Full() {
			if m, err := r.Oldest(t.Context()); err != nil || m.Tag != n-3 {
				t.Fatalf("tag %d, %v; expected %d", m.Tag, err, n-3)
			}
		}
		op := r.Next()
		if err := r.Add(op, p.StartRecv(op, p.Name(), n, make([]byte, 1))); err != nil {
			t.Fatal(err)
		}
		if err := p.Send(t.Context(), p.Name(), n); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Finish(t.Context()); err != nil || r.Len() != 0 {
		t.Errorf("%d left, %v", r.Len(), err)
	}
}

func TestCancelEndsWhatIsUnderWayAndTellsWhatCameNevertheless(t *testing.T) {
	p := open(t)
	r := load.NewRing(3)
	for n := range weft.Tag(3) {
		op := r.Next()
		if err := r.Add(op, p.StartRecv(op, p.Name(), n, make([]byte, 1))); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Peer(p.Name()).SendDelivered(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	var came []weft.Tag
	r.Cancel(func(m weft.Message) { came = append(came, m.Tag) })
	if len(came) != 1 || came[0] != 1 || r.Len() != 0 {
		t.Errorf("%v came, %d left", came, r.Len())
	}
}

func TestWhatCannotBeginIsNotAdded(t *testing.T) {
	p := open(t)
	r := load.NewRing(1)
	op := r.Next()
	if err := r.Add(op, p.StartRecv(op, weft.Name{App: "No name"}, 1, nil)); !errors.Is(err, weft.ErrBadArgument) || r.Len() != 0 {
		t.Errorf("%v, %d in the ring", err, r.Len())
	}
}

func TestAWaitThatIsGivenUpWithdrawsTheOperation(t *testing.T) {
	p := open(t)
	r := load.NewRing(1)
	op := r.Next()
	if err := r.Add(op, p.StartRecv(op, p.Name(), 1, nil)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := r.Oldest(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	r.Cancel(nil)
}
