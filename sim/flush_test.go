package sim_test

import (
	"context"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/sim"
)

// A stalled NIC has no turn, and Flush gives it none. Messages that wait there are sent when the
// NIC continues.
func TestAFlushGivesNoTurnToANICThatStandsStill(t *testing.T) {
	for seed := range uint64(20) {
		frames := 0
		f := sim.New(simulated.Hooked(sim.Config{Seed: sim.Seed(seed)}, simulated.Hooks{Tap: func(from, _ int, _ []byte) {
			if from == 1 {
				frames++
			}
		}}))
		f.Process(0, "a/0", func(p *sim.Process) error {
			_, err := p.Weft().RecvDatagram(context.Background(), 1)
			return err
		})
		f.Process(1, "b/0", func(p *sim.Process) error {
			ctx, w := context.Background(), p.Weft()
			to, err := w.WaitName(ctx, weft.Name{App: "a"})
			if err != nil {
				return err
			}
			if err := w.Peer(weft.Name{App: "a"}).SendDelivered(ctx, 2); err != nil {
				return err
			}
			p.Runtime().Sleep(context.Background(), time.Millisecond)
			var op weft.Op
			if err := w.PeerAt(to).StartSendDatagram(&op, 1); err != nil {
				return err
			}
			f.Stall(1, 10*time.Millisecond)
			before := frames
			if w.Flush(); frames != before {
				t.Errorf("seed %d: a Flush has %d frames leave a NIC that stands still", seed, frames-before)
			}
			_, err = op.Wait(ctx)
			return err
		})
		if err := f.Run(time.Minute); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
