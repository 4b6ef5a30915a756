package weft

import (
	"context"
	"time"

	"github.com/weftnet/weft/internal/proc"
)

// Runtime is the clock and the scheduler of a process. [Process.Runtime] returns a Runtime, which
// is a small value. A library runs unchanged in package sim, on virtual time, if it uses a Runtime
// in place of three things: package time, the go statement, and channels.
type Runtime struct{ p *Process }

// Runtime returns the process's clock and scheduler.
func (p *Process) Runtime() Runtime { return Runtime{p} }

// Now returns the current time.
func (r Runtime) Now() time.Time { return r.p.time.Now() }

// Sleep waits for the duration d. If ctx ends first, Sleep returns ctx's error.
func (r Runtime) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.p.time.Sleep(ctx, d)
}

// WithTimeout returns a context that ends after the duration d, like context.WithTimeout. Call
// cancel when the context is no longer needed.
func (r Runtime) WithTimeout(ctx context.Context, d time.Duration) (_ context.Context, cancel context.CancelFunc) {
	return r.p.time.WithTimeout(ctx, d)
}

// Go runs fn concurrently, like the go statement. After the process is closed, every operation
// fails with [ErrClosed], and fn should return.
func (r Runtime) Go(fn func()) { r.p.time.Go(fn) }

// WaitUntil waits until the function condition returns true. Another goroutine makes the condition
// true and then calls [Runtime.Wake]. WaitUntil replaces a channel or a sync.Cond between
// goroutines of one process. It polls the NIC while it waits.
//
// The function condition must only load atomics, or take a lock that no goroutine holds for long.
// Any goroutine may call this function until WaitUntil returns. If ctx ends first, WaitUntil
// returns ctx's error. WaitUntil fails with [ErrClosed] or [ErrNICGone] when no operation of the
// process can succeed any more.
func (r Runtime) WaitUntil(ctx context.Context, condition func() bool) error {
	if err := ended(ctx, "wait"); err != nil {
		return err
	}
	return opError(r.p.p.WaitUntil(ctx, condition))
}

// Wake makes every [Runtime.WaitUntil] of the process check its condition again.
func (r Runtime) Wake() { r.p.p.Wake() }

// Random returns a random number that no other process can guess. In package sim the seed of the
// simulation determines the number.
func (r Runtime) Random() uint64 { return r.p.time.Random() }

// NewGate returns a closed Gate.
func (r Runtime) NewGate() *Gate { return &Gate{r.p.time.NewGate()} }

// Each time a Gate is opened, it lets one goroutine through. A Gate replaces a channel of capacity
// one between goroutines of a process, and also works in package sim. [Runtime.Wake] wakes all
// waiting goroutines, but a Gate wakes only one. So a Gate suits libraries with thousands of
// goroutines.
type Gate struct{ g proc.Gate }

// Open lets one [Gate.Wait] return. If no goroutine is waiting, the next Wait returns at once. Two
// calls of Open without a Wait between them count as one call.
func (g *Gate) Open() { g.g.Open() }

// Wait waits until the Gate is open, and then closes it. If the Gate is open, Wait succeeds even if
// ctx is done. If ctx ends before the Gate is open, Wait returns ctx's error. Closing the process
// does not end a Wait.
func (g *Gate) Wait(ctx context.Context) error { return g.g.Wait(ctx) }

// realTime is the clock and the scheduler of a real process.
type realTime struct{}

func (realTime) Now() time.Time { return time.Now() }

func (realTime) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (realTime) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

func (realTime) Go(fn func()) { go fn() }

func (realTime) Random() uint64 { return random() }

func (realTime) NewGate() proc.Gate { return proc.NewGate() }
