package sim

import (
	"context"
	"time"

	"github.com/weftnet/weft/internal/proc"
)

// virtual is the time of a process, as its *weft.Process has it.
type virtual struct{ p *Process }

var _ proc.Time = virtual{}

func (v virtual) Now() time.Time { return v.p.Now() }

func (v virtual) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return v.p.WithTimeout(ctx, d)
}

func (v virtual) Go(fn func()) {
	v.p.Go("beside", func(*Process) error { fn(); return nil })
}

// Sleep waits for a context of its own, which ends with ctx.
func (v virtual) Sleep(ctx context.Context, d time.Duration) error {
	if realDeadline(ctx) {
		return errRealDeadline
	}
	within, cancel := v.p.WithTimeout(ctx, d)
	defer cancel()
	for t := v.p.running(); within.Err() == nil; {
		t.await(within, "sleep")
	}
	return ctx.Err()
}
