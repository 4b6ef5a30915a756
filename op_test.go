package weft_test

import (
	"errors"
	"testing"

	"github.com/weftnet/weft"
)

// An Op that was never begun, or whose start failed, holds no operation: its calls return an
// error at once.
func TestAnOpThatHasNotBegunIsRefused(t *testing.T) {
	ctx, p, _ := pair(t, on(weft.Config{Link: weft.NewSwitch().Link()}))
	var never, failed weft.Op
	if err := p.Peer(weft.AnyProcess).StartSend(&failed, 1); !errors.Is(err, weft.ErrBadArgument) {
		t.Fatalf("a send to any process: %v; expected %v", err, weft.ErrBadArgument)
	}
	for what, o := range map[string]*weft.Op{"an Op that has not been begun": &never, "an Op whose start has failed": &failed} {
		o.Cancel()
		if !o.Ended() {
			t.Errorf("%s has not ended", what)
		}
		if _, err := o.Wait(ctx); !errors.Is(err, weft.ErrBadArgument) {
			t.Errorf("waiting for %s: %v; expected %v", what, err, weft.ErrBadArgument)
		}
		if _, done, err := o.Test(); !done || !errors.Is(err, weft.ErrBadArgument) {
			t.Errorf("testing %s: done %v, %v; expected true and %v", what, done, err, weft.ErrBadArgument)
		}
	}
}

// The test covers decision 16 as the program sees it: an Op that is used again, and the name of a
// known sender.
func TestOperationsThatBeginInAUsedOpAllocateNothing(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		if testing.Short() && !n.onSwitch() {
			t.Skip("short runs may be for the race detector, with which system calls allocate")
		}
		ctx, p, q := pair(t, n)
		var send, recv weft.Op
		msg, buf := make([]byte, 64), make([]byte, 64)
		turn := func() {
			if err := q.StartRecv(&recv, p.Name(), weft.AnyTag, buf); err != nil {
				t.Fatal(err)
			}
			if err := p.Peer(q.Name()).StartSend(&send, 7, msg); err != nil {
				t.Fatal(err)
			}
			if _, err := send.Wait(ctx); err != nil {
				t.Fatal(err)
			}
			if m, err := recv.Wait(ctx); err != nil || m.From != p.Name() || m.Tag != 7 || m.Len != 64 {
				t.Fatalf("%+v, %v", m, err)
			}
		}
		if got := steadyAllocs(turn); got != 0 {
			t.Errorf("%v allocations a message", got)
		}
	})
}

func TestReceivesOfAnEmbeddedProcessHaveNoBound(t *testing.T) {
	_, p, _ := pair(t, on(weft.Config{Link: weft.NewSwitch().Link()}))
	for i := range 1000 {
		if err := p.StartRecv(new(weft.Op), weft.AnyProcess, 1, nil); err != nil {
			t.Fatalf("receive %d: %v", i, err)
		}
	}
}
