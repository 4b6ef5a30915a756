package weft_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
)

// The NIC of the process answers, for a Peer by name and by address. A process that has ended is
// alive for neither.
func TestAliveAsksTheNICOfThePeer(t *testing.T) {
	f := sim.New(sim.Config{Seed: sim.Seed(1), NICs: 2})
	// Receives nothing.
	busy := func(p *sim.Process) error { p.Runtime().Sleep(context.Background(), time.Hour); return nil }
	far, near, cut := f.Serve(0, "far/0", busy), f.Serve(1, "near/0", busy), f.Serve(0, "cut/0", busy)
	f.Process(1, "asks/0", func(p *sim.Process) error {
		ctx := context.Background()
		for name, peer := range map[string]*sim.Process{"far": far, "near": near} {
			n := weft.Name{App: name}
			at, err := p.WaitName(ctx, n)
			if err != nil {
				return err
			}
			f.Pause(peer, time.Hour)
			if err := errors.Join(p.Peer(n).Alive(ctx), p.PeerAt(at).Alive(ctx)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			f.Kill(peer)
			p.Runtime().Sleep(ctx, time.Second)
			if err := p.Peer(n).Alive(ctx); !errors.Is(err, weft.ErrNameUnknown) {
				t.Errorf("%s has ended: %v; expected %v", name, err, weft.ErrNameUnknown)
			}
			if err := p.PeerAt(at).Alive(ctx); !errors.Is(err, weft.ErrProcessGone) {
				t.Errorf("the process at %v has ended: %v; expected %v", at, err, weft.ErrProcessGone)
			}
		}
		f.Partition(0)
		if err := p.PeerAt(cut.Address()).Alive(ctx); !errors.Is(err, weft.ErrUnreachable) {
			t.Errorf("beyond a partition: %v; expected %v", err, weft.ErrUnreachable)
		}
		return nil
	})
	if err := f.Run(time.Hour); err != nil {
		t.Fatal(err)
	}
}
