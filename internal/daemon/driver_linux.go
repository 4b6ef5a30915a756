package daemon

import (
	"context"

	"github.com/weftnet/weft/internal/idle"
	"github.com/weftnet/weft/internal/poller"
)

// driverWaiter lets goroutines of the daemon, which is the driver of its NIC (QNIX-49), wait for the NIC. The loop polls
// until the last of them has gone, so each waiter is answered.
type driverWaiter struct {
	loop    *poller.Loop
	waiters idle.Waiters
}

// rung is called by the engine, within its poll.
func (w *driverWaiter) rung() { w.waiters.WakeReady() }

func (w *driverWaiter) Wait(ctx context.Context, ready func() bool) error {
	return w.waiters.Wait(ctx, ready)
}

func (w *driverWaiter) Kick() { w.loop.Kick() }
func (w *driverWaiter) Wake() { w.waiters.WakeReady() }
