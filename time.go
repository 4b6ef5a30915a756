package weft

import (
	"context"
	"time"

	"github.com/weftnet/weft/internal/proc"
)

// A library that lives on a Process asks it for the time and starts what it does beside its caller by it. It then runs unchanged under
// the virtual time of package sim.

// Now is the time of day where the process lives.
func (p *Process) Now() time.Time { return p.time.Now() }

// Sleep waits for d. If ctx ends first, it returns ctx's error.
func (p *Process) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return p.time.Sleep(ctx, d)
}

// WithTimeout derives a context that ends after d, as context.WithTimeout does. cancel must be called.
func (p *Process) WithTimeout(ctx context.Context, d time.Duration) (_ context.Context, cancel context.CancelFunc) {
	return p.time.WithTimeout(ctx, d)
}

// Go runs fn beside its caller, as the go statement would. fn should end when the process is closed: every operation then fails with
// [ErrClosed].
func (p *Process) Go(fn func()) { p.time.Go(fn) }

// WaitUntil waits until ready returns true, which another goroutine brings about and then calls [Process.Wake]. It takes the place of a
// channel or a sync.Cond between goroutines of one process, and a waiting goroutine may move the NIC on meanwhile. ready only loads
// atomics, or takes a lock that is never held for long; any goroutine may call it until WaitUntil returns. WaitUntil returns ctx's
// error if ctx ends first, and [ErrClosed] or [ErrNICGone] once no operation of the process can succeed any more.
func (p *Process) WaitUntil(ctx context.Context, ready func() bool) error {
	if err := ended(ctx, "wait"); err != nil {
		return err
	}
	return p.p.WaitUntil(ctx, ready)
}

// Wake has every [Process.WaitUntil] of the process ask again whether it is ready.
func (p *Process) Wake() { p.p.Wake() }

// Random returns a random number that no other process can guess. Under package sim it follows from the seed.
func (p *Process) Random() uint64 { return p.time.Random() }

// realTime is the machine's.
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
