package ctl

import (
	"context"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/idle"
)

// listen reads the wake socket until its end, which is the end of the daemon or of the attachment.
func (w *Waiter) listen() {
	var buf [64]byte
	for {
		n, err := w.a.wake.Read(buf[:])
		w.wakes.Add(1)
		if n > 0 && err == nil {
			w.waiters.WakeReady()
			continue
		}
		w.closed.Store(w.a.closing.Load())
		w.a.gone.Store(true)
		w.waiters.WakeAll()
		return
	}
}

// Kick tells the NIC that a command was posted, if the NIC does not look unasked. The command
// must be visible before Kick is called.
func (w *Waiter) Kick() {
	if !w.hooks.Listening() {
		w.kicks.Add(1)
		ring(w.a.kick)
	}
}

// Wake makes each waiter check its condition again.
func (w *Waiter) Wake() { w.waiters.WakeReady() }

// Gone reports whether the daemon has gone or the attachment was closed.
func (w *Waiter) Gone() bool { return w.a.gone.Load() }

// Wait returns nil as soon as ready returns true. It returns ctx's error when ctx is done,
// ErrNICGone when the daemon is gone, and ErrClosed when the attachment was closed.
//
// ready is called from several goroutines: it may load atomics, and must not block.
func (w *Waiter) Wait(ctx context.Context, ready func() bool) error {
	for {
		if ready() {
			return nil
		}
		if w.a.gone.Load() {
			return w.end(ready)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if w.looking.CompareAndSwap(false, true) {
			again := w.turn(ready) || w.look(ctx, ready)
			w.looking.Store(false)
			if again {
				continue
			}
		}
		if err := w.park(ctx, ready); err != nil {
			return err
		}
	}
}

// end returns why a wait ends. A completion that came before the end still counts.
func (w *Waiter) end(ready func() bool) error {
	switch {
	case ready():
		return nil
	case w.closed.Load():
		return ErrClosed
	}
	return ErrNICGone
}

var epoch = time.Now()

func sinceEpoch() clock.Time { return clock.Time(time.Since(epoch)) }

// turn lets other threads run once, and reports whether the condition is true afterwards. If
// processes that share a core wait for one another, it mostly is. The further work of look would
// then cost time of both.
func (w *Waiter) turn(ready func() bool) bool { return w.pace.Turn(w.giveWay, sinceEpoch) && ready() }

// letRun lets other threads run once. Meanwhile the waiting word holds the processor of this
// process, as look last found it.
func (w *Waiter) letRun() {
	idle.Enter()
	w.hooks.WaitsAt(w.at)
	idle.Relax()
	w.hooks.WaitsAt(-1)
	idle.Leave()
}

// look spins and yields. It returns true if Wait should look again before it parks.
func (w *Waiter) look(ctx context.Context, ready func() bool) bool {
	idle.Enter()
	defer idle.Leave()
	defer w.hooks.WaitsAt(-1)
	done := ctx.Done()
	begun, at := clock.Never, -1
	for !ready() {
		select {
		case <-done:
			return true
		default:
		}
		if here := idle.Processor(); here != at {
			at = here
			w.at = at
			w.hooks.WaitsAt(at)
		}
		now := sinceEpoch()
		begun = clock.Min(begun, now)
		if now.Sub(begun) >= w.hooks.Awake || w.pace.Rest(now, idle.Relax, sinceEpoch) {
			return false
		}
		if w.a.gone.Load() {
			return true
		}
	}
	return true
}

// park sleeps until ready, the end, or ctx. Add has told the NIC that we sleep. The last look
// sees anything that happened before the NIC noticed that.
func (w *Waiter) park(ctx context.Context, ready func() bool) error {
	p := w.waiters.Add(ready)
	defer w.waiters.Remove(p)
	if ready() || w.a.gone.Load() {
		return nil
	}
	select {
	case <-p.Woken():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
