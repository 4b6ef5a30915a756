package weft_test

import (
	"errors"
	"testing"

	"github.com/weftnet/weft"
)

// An Op that has not been begun, or whose start has failed, is no operation: it ends at once, and says why.
func TestAnOpThatHasNotBegunIsRefused(t *testing.T) {
	ctx, p, _ := pair(t, on(weft.Config{Switch: weft.NewSwitch()}))
	var never, failed weft.Op
	if err := p.StartSendInto(&failed, weft.AnyProcess, 1); !errors.Is(err, weft.ErrBadArgument) {
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

// Decision 16, as the program sees it: an Op that is used again, and the name of a sender that is known.
func TestOperationsThatBeginInAUsedOpAllocateNothing(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		if testing.Short() && n.Switch == nil {
			t.Skip("short runs may be for the race detector, with which system calls allocate")
		}
		ctx, p, q := pair(t, n)
		var send, recv weft.Op
		msg, buf := make([]byte, 64), make([]byte, 64)
		turn := func() {
			if err := q.StartRecvInto(&recv, p.Name(), weft.AnyTag, buf); err != nil {
				t.Fatal(err)
			}
			if err := p.StartSendInto(&send, q.Name(), 7, msg); err != nil {
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
	_, p, _ := pair(t, on(weft.Config{Switch: weft.NewSwitch()}))
	for i := range 1000 {
		if _, err := p.StartRecv(weft.AnyProcess, 1, nil); err != nil {
			t.Fatalf("receive %d: %v", i, err)
		}
	}
}
