package sim

import (
	"context"
	"errors"

	"github.com/weftnet/weft/internal/proc"
)

// errRealDeadline is what an operation says to a context that virtual time cannot end.
var errRealDeadline = errors.New("sim: the context has a real deadline; use Process.Runtime().WithTimeout")

// waiter is how a process half waits under virtual time: it parks its coroutine until the NIC wakes the process.
type waiter struct{ p *Process }

// Wait blocks the calling function until ready is true, ctx has ended, or the NIC is gone.
//
// It sleeps as a real process does: says so, looks once more, and then relies on being woken. A wake-up that the NIC
// forgets is a wake-up that never comes.
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

// Kick gives the NIC a turn because a command was posted while it may not look for one.
func (w waiter) Kick() {
	n := w.p.host
	if !w.p.gone && !w.p.over && n.engine != nil {
		n.engine.Ring(w.p.slot)
		n.soon(noticeTime)
	}
}

// Wake has every function that waits in an operation look again.
func (w waiter) Wake() { w.p.wakeAll() }
