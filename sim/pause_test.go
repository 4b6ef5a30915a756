package sim

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// A paused process does nothing, and its NIC receives for it. Afterwards the process continues,
// whichever of its late timers fires first. A kill ends a paused process at once.
func TestAPausedProcessDoesNothingUntilItsPauseEnds(t *testing.T) {
	const pause = 45 * time.Second
	f := New(Config{Seed: Seed(1)})
	var ticks []time.Duration
	a := f.Serve(0, "a/0", func(p *Process) error {
		p.Start("ticks", func(p *Process) error {
			for {
				ticks = append(ticks, f.Elapsed())
				sleep(p, time.Second)
			}
		})
		for {
			m, err := p.Recv(context.Background(), weft.AnyProcess, 1, nil)
			if err != nil {
				return err
			}
			if err := p.Send(context.Background(), m.From, 2); err != nil {
				return err
			}
		}
	})
	const at = 10*time.Second + time.Millisecond
	f.After(at, func() { f.Pause(a, pause) })
	f.Process(1, "b/0", func(p *Process) error {
		ctx, peer := context.Background(), p.Peer(weft.Name{App: "a"})
		sleep(p, 20*time.Second)
		if err := peer.SendDelivered(ctx, 1); err != nil {
			return fmt.Errorf("the NIC of a paused process took no message: %w", err)
		}
		if took := f.Elapsed(); took > 21*time.Second {
			return fmt.Errorf("the NIC of a paused process took a message after %v", took)
		}
		if err := peer.Alive(ctx); err != nil {
			return fmt.Errorf("the NIC of a paused process does not vouch for it: %w", err)
		}
		if _, err := p.Recv(ctx, weft.AnyProcess, 2, nil); err != nil {
			return err
		}
		if took := f.Elapsed(); took < at+pause {
			return fmt.Errorf("a paused process answered after %v", took)
		}
		f.Pause(a, time.Hour)
		f.Kill(a)
		sleep(p, time.Second)
		if !a.Over() || peer.Alive(ctx) == nil {
			return fmt.Errorf("a paused process outlived a kill")
		}
		return nil
	})
	if err := f.Run(2 * time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, tick := range ticks {
		if tick > at && tick < at+pause {
			t.Errorf("a paused process ran at %v", tick)
		}
	}
	if f.Counts().Pauses != 2 || len(ticks) < 10 {
		t.Errorf("%d pauses and %d ticks; expected 2 and more than 10", f.Counts().Pauses, len(ticks))
	}
}
