package proc

import (
	"context"
	"errors"
	"time"
)

// Time is the source of time, goroutines and random numbers of a process: the machine's, or a
// simulator's.
type Time interface {
	Now() time.Time
	Sleep(ctx context.Context, d time.Duration) error
	WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
	Go(fn func())
	NewGate() Gate
	Random() uint64
}

// Gate lets one waiter through each time it is opened.
type Gate interface {
	Open()
	Wait(ctx context.Context) error
}

// NewGate returns a Gate for the machine's time.
func NewGate() Gate { return make(realGate, 1) }

// realGate holds an element if it is open.
type realGate chan struct{}

func (s realGate) Open() {
	select {
	case s <- struct{}{}:
	default:
	}
}

func (s realGate) Wait(ctx context.Context) error {
	select {
	case <-s: // even if ctx is done
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

// WaitUntil waits until ready returns true, and then returns nil. ready only loads atomics, or
// takes a lock that is held just as briefly. Any goroutine may call ready until WaitUntil
// returns. WaitUntil calls it again after each Wake, and whenever an operation of the process has
// ended. WaitUntil fails with ctx's error, or with the error of a process that has ended.
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

// Wake makes every WaitUntil of the process call its ready again.
func (p *Process) Wake() {
	if p.enter() {
		p.w.Wake()
		p.leave()
	}
}
