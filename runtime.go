package weft

import (
	"context"
	"time"

	"github.com/weftnet/weft/internal/proc"
)

// Runtime is the clock and the scheduler of a process. A library that uses it instead of package
// time, the go statement and channels runs unchanged in package sim, on virtual time.
// [Process.Runtime] returns it. It is a small value.
type Runtime struct{ p *Process }

// Runtime returns the process's clock and scheduler.
func (p *Process) Runtime() Runtime { return Runtime{p} }

// Now returns the time of day.
func (r Runtime) Now() time.Time { return r.p.time.Now() }

// Sleep waits for d. If ctx ends first, it returns ctx's error.
func (r Runtime) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.p.time.Sleep(ctx, d)
}

// WithTimeout derives a context that ends after d, as context.WithTimeout does. Call cancel when
// the context is no longer needed.
func (r Runtime) WithTimeout(ctx context.Context, d time.Duration) (_ context.Context, cancel context.CancelFunc) {
	return r.p.time.WithTimeout(ctx, d)
}

// Go runs fn concurrently, as the go statement does. fn should return when the process is closed:
// every operation then fails with [ErrClosed].
func (r Runtime) Go(fn func()) { r.p.time.Go(fn) }

// WaitUntil waits until ready returns true. Another goroutine makes the condition true and then
// calls [Runtime.Wake]. WaitUntil replaces a channel or a sync.Cond between goroutines of one
// process, and polls the NIC during the wait.
//
// ready must only load atomics, or take a lock that is never held for long; any goroutine may call
// it until WaitUntil returns. WaitUntil returns ctx's error if ctx ends first, and [ErrClosed] or
// [ErrNICGone] once no operation of the process can succeed.
func (r Runtime) WaitUntil(ctx context.Context, ready func() bool) error {
	if err := ended(ctx, "wait"); err != nil {
		return err
	}
	return opError(r.p.p.WaitUntil(ctx, ready))
}

// Wake makes every [Runtime.WaitUntil] of the process call its ready function again.
func (r Runtime) Wake() { r.p.p.Wake() }

// Random returns a random number that no other process can guess. Under package sim it follows from
// the seed.
func (r Runtime) Random() uint64 { return r.p.time.Random() }

// NewGate returns a closed Gate.
func (r Runtime) NewGate() *Gate { return &Gate{r.p.time.NewGate()} }

// Gate lets one goroutine through each time it is opened. It replaces a channel of capacity one
// between goroutines of a process, and works under package sim too. Unlike [Runtime.Wake] it wakes
// only one goroutine, so it suits libraries with thousands of them.
type Gate struct{ g proc.Gate }

// Open lets one [Gate.Wait] return: one that waits now, or else the next. Two calls of Open without
// a Wait between them count as one.
func (g *Gate) Open() { g.g.Open() }

// Wait waits until the Gate is open, and closes it. If ctx ends first, Wait returns ctx's error. If
// the Gate is open, Wait succeeds even if ctx is done. The end of the process does not end a Wait.
func (g *Gate) Wait(ctx context.Context) error { return g.g.Wait(ctx) }

// realTime is the machine's clock and scheduler.
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
