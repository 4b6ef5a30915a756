package proc

import (
	"context"
	"errors"
	"time"
)

// Time is the time that a process lives in, what happens beside each other there, and chance: the machine's, or a simulator's.
type Time interface {
	Now() time.Time
	Sleep(ctx context.Context, d time.Duration) error
	WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
	Go(fn func())
	NewGate() Gate
	Random() uint64
}

// Gate lets one that waits through each time it is opened.
type Gate interface {
	Open()
	Wait(ctx context.Context) error
}

// NewGate is a Gate for the machine's time.
func NewGate() Gate { return make(realGate, 1) }

// realGate has an element if it is open.
type realGate chan struct{}

func (s realGate) Open() {
	select {
	case s <- struct{}{}:
	default:
	}
}

func (s realGate) Wait(ctx context.Context) error {
	select {
	case <-s: // also if ctx has ended
		return nil
	default:
	}
	select {
	case <-s:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WaitUntil waits until ready returns true, and then returns nil. ready only loads atomics, or takes a lock that is held for no longer
// than that; any goroutine may call it, until WaitUntil returns. It is called again after each Wake, and whenever something of the
// process's has ended. WaitUntil fails with ctx's error, or with that of a process that has come to its end.
func (p *Process) WaitUntil(ctx context.Context, ready func() bool) error {
	if !p.enter() {
		return &OpError{Op: "wait", Err: ErrClosed}
	}
	defer p.leave()
	err := p.w.Wait(ctx, func() bool { return ready() || p.over() })
	if errors.Is(err, ErrNICGone) {
		p.fail()
		err = nil
	}
	if err == nil && !ready() {
		p.mu.Lock()
		err = p.usable()
		p.mu.Unlock()
	}
	if err != nil {
		return &OpError{Op: "wait", Err: err}
	}
	return nil
}

// Wake has every WaitUntil of the process ask again whether it is ready.
func (p *Process) Wake() {
	if p.enter() {
		p.w.Wake()
		p.leave()
	}
}
