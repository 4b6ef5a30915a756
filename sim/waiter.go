package sim

import (
	"context"
	"errors"

	"github.com/weftnet/weft/internal/proc"
)

// errRealDeadline is the error of an operation whose context virtual time cannot end.
var errRealDeadline = errors.New("sim: the context has a real deadline; use Process.Runtime().WithTimeout")

// waiter lets a process half wait in virtual time: it parks the coroutine until the NIC wakes the
// process.
type waiter struct{ p *Process }

// Wait blocks the calling function until ready is true, ctx is done, or the NIC is gone.
//
// It sleeps as a real process does: it announces the sleep, checks once more, and then relies on a
// wake-up. If the NIC forgets the wake-up, the process never wakes, so the simulation finds that
// bug.
func (w waiter) Wait(ctx context.Context, ready func() bool) error {
	p := w.p
	if realDeadline(ctx) {
		return errRealDeadline
	}
	for {
		if ready() {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.gone || p.detached || p.over {
			return proc.ErrNICGone
		}
		p.park(ctx, ready)
	}
}

func (p *Process) park(ctx context.Context, ready func() bool) {
	t := p.running()
	half := p.seg.Process()
	half.SetSleeping(true)
	defer func() {
		if len(p.waiting) == 0 {
			half.SetSleeping(false)
		}
	}()
	if ready() {
		return
	}
	p.waiting = append(p.waiting, t)
	defer func() { p.waiting = without(p.waiting, t) }()
	t.await(ctx, "an operation")
}

// Kick gives the NIC a turn after a command that an idle NIC would not see.
func (w waiter) Kick() {
	n := w.p.host
	if !w.p.gone && !w.p.over && n.engine != nil {
		n.engine.Ring(w.p.slot)
		n.soon(noticeTime)
	}
}

// Wake makes every function that waits in an operation check again.
func (w waiter) Wake() { w.p.wakeAll() }
