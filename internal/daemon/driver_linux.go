package daemon

import (
	"context"

	"github.com/weftnet/weft/internal/idle"
	"github.com/weftnet/weft/internal/poller"
)

// driverWaiter lets goroutines of the daemon wait for the NIC. The daemon is the driver of its
// NIC (QNIX-49). The loop polls until the last of these goroutines has ended, so each waiter is
// answered.
type driverWaiter struct {
	loop    *poller.Loop
	waiters idle.Waiters
}

// rung wakes the waiters. The engine calls it, within its poll.
func (w *driverWaiter) rung() { w.waiters.WakeReady() }

func (w *driverWaiter) Wait(ctx context.Context, ready func() bool) error {
	return w.waiters.Wait(ctx, ready)
}

func (w *driverWaiter) Kick() { w.loop.Kick() }
func (w *driverWaiter) Wake() { w.waiters.WakeReady() }
