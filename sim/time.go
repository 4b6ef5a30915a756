package sim

import (
	"context"
	"time"

	"github.com/weftnet/weft/internal/proc"
)

// virtual is the proc.Time of a process: virtual time and seeded randomness.
type virtual struct{ p *Process }

var _ proc.Time = virtual{}

func (v virtual) Now() time.Time { return v.p.f.Now() }

func (v virtual) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return v.p.f.s.withDeadline(ctx, v.p.f.s.now.Add(d))
}

func (v virtual) Go(fn func()) {
	v.p.Start("function of Runtime().Go", func(*Process) error { fn(); return nil })
}

// Sleep waits for its own context, which ends with ctx. A sleep of 0 or less lets other tasks run.
func (v virtual) Sleep(ctx context.Context, d time.Duration) error {
	if realDeadline(ctx) {
		return errRealDeadline
	}
	if ctx.Done() == nil {
		v.p.running().sleep(max(d, 1))
		return nil
	}
	within, cancel := v.WithTimeout(ctx, max(d, 1))
	defer cancel()
	for t := v.p.running(); within.Err() == nil; {
		t.await(within, "sleep")
	}
	return ctx.Err()
}

func (v virtual) Random() uint64 { return v.p.rng.Uint64() }

func (v virtual) NewGate() proc.Gate { return &virtualGate{v: v} }

// virtualGate needs no lock, because one task runs at a time.
type virtualGate struct {
	v     virtual
	open  bool
	waits []*task
}

func (s *virtualGate) Open() {
	s.open = true
	s.wakeOne()
}

func (s *virtualGate) wakeOne() {
	if s.open && len(s.waits) > 0 {
		s.v.p.f.s.wake(s.waits[0])
	}
}

func (s *virtualGate) Wait(ctx context.Context) error {
	if realDeadline(ctx) {
		return errRealDeadline
	}
	t := s.v.p.running()
	for !s.open {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.waits = append(s.waits, t)
		s.park(ctx, t)
	}
	s.open = false
	return nil
}

// park waits at the gate and then leaves the line, even if the task ends. If ctx ends, it wakes the
// next waiter, because an Open may have woken this one.
func (s *virtualGate) park(ctx context.Context, t *task) {
	defer func() {
		if s.waits = without(s.waits, t); ctx.Err() != nil {
			s.wakeOne()
		}
	}()
	t.await(ctx, "gate")
}
