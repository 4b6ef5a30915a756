package weft_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
)

// runtimeCases are functions that use only a *weft.Process. Each returns the same results in real
// time and in virtual time.
var runtimeCases = []struct {
	name string
	want string // the results, printed
	run  func(p *weft.Process) (results []any)
}{
	{"a sleep whose context has no Done", "<nil> true", func(p *weft.Process) []any {
		begun := p.Runtime().Now()
		err := p.Runtime().Sleep(context.Background(), 2*time.Millisecond)
		return []any{err, p.Runtime().Now().Sub(begun) >= 2*time.Millisecond}
	}},
	{"a sleep of no time", "<nil> <nil>", func(p *weft.Process) []any {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		return []any{p.Runtime().Sleep(context.Background(), 0), p.Runtime().Sleep(ctx, 0)}
	}},
	{"a sleep of a negative time", "<nil> <nil> <nil>", func(p *weft.Process) []any {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		return []any{
			p.Runtime().Sleep(context.Background(), -time.Hour), p.Runtime().Sleep(ctx, -time.Hour),
			p.Runtime().Sleep(ctx, math.MinInt64),
		}
	}},
	{"a sleep whose context has ended", "context canceled context canceled context canceled context deadline exceeded", func(p *weft.Process) []any {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		late, cancelLate := p.Runtime().WithTimeout(context.Background(), 0)
		defer cancelLate()
		return []any{
			p.Runtime().Sleep(ctx, time.Hour), p.Runtime().Sleep(ctx, 0), p.Runtime().Sleep(ctx, -1),
			p.Runtime().Sleep(late, time.Hour),
		}
	}},
	{"a sleep that outlasts its context", "context deadline exceeded context deadline exceeded", func(p *weft.Process) []any {
		ctx, cancel := p.Runtime().WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		return []any{p.Runtime().Sleep(ctx, math.MaxInt64), ctx.Err()}
	}},
	{"a sleep whose context is cancelled", "context canceled", func(p *weft.Process) []any {
		ctx, cancel := context.WithCancel(context.Background())
		p.Runtime().Go(func() {
			_ = p.Runtime().Sleep(context.Background(), time.Millisecond)
			cancel()
		})
		return []any{p.Runtime().Sleep(ctx, math.MaxInt64)}
	}},
	{"a timeout that is negative, and one without end", "context deadline exceeded <nil> context canceled", func(p *weft.Process) []any {
		past, cancelPast := p.Runtime().WithTimeout(context.Background(), -time.Hour)
		defer cancelPast()
		far, cancel := p.Runtime().WithTimeout(context.Background(), math.MaxInt64)
		before := far.Err()
		cancel()
		return []any{past.Err(), before, far.Err()}
	}},
	{"functions that Go starts", "<nil> [0 1 2]", func(p *weft.Process) []any {
		var order []int // the functions run one after the other
		var done atomic.Int32
		for i := range 3 {
			p.Runtime().Go(func() {
				err := p.Runtime().WaitUntil(context.Background(), func() bool { return int(done.Load()) == i })
				if err == nil {
					order = append(order, i)
				}
				done.Add(1)
				p.Runtime().Wake()
			})
		}
		err := p.Runtime().WaitUntil(context.Background(), func() bool { return done.Load() == 3 })
		return []any{err, slices.Clone(order)}
	}},
	{"a WaitUntil", "<nil> weft: wait: context canceled weft: wait: context deadline exceeded", func(p *weft.Process) []any {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		short, cancelShort := p.Runtime().WithTimeout(context.Background(), time.Millisecond)
		defer cancelShort()
		yes, no := func() bool { return true }, func() bool { return false }
		p.Runtime().Wake() // nothing is waiting
		return []any{
			p.Runtime().WaitUntil(context.Background(), yes), p.Runtime().WaitUntil(ended, yes),
			p.Runtime().WaitUntil(short, no),
		}
	}},
	{"a gate", "context canceled <nil> context canceled <nil> context deadline exceeded", gateResults},
	{"a random number", "true", func(p *weft.Process) []any {
		a, b := p.Runtime().Random(), p.Runtime().Random()
		return []any{a != b}
	}},
	{"the end of the process", "<nil> weft: wait: process closed <nil> <nil>", func(p *weft.Process) []any {
		g := p.Runtime().NewGate()
		closed := p.Close()
		g.Open()
		p.Runtime().Wake()
		return []any{
			closed, p.Runtime().WaitUntil(context.Background(), func() bool { return true }),
			g.Wait(context.Background()), p.Runtime().Sleep(context.Background(), time.Microsecond),
		}
	}},
}

// gateResults opens a Gate before, between and after waits.
func gateResults(p *weft.Process) []any {
	ctx := context.Background()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	g := p.Runtime().NewGate()
	shut := g.Wait(ended)
	g.Open()
	g.Open() // the second Open has no effect
	first, second := g.Wait(ended), g.Wait(ended)
	p.Runtime().Go(g.Open)
	third := g.Wait(ctx)
	short, cancelShort := p.Runtime().WithTimeout(ctx, time.Millisecond)
	defer cancelShort()
	return []any{shut, first, second, third, g.Wait(short)}
}

// The methods of Runtime have the same results in real time and in virtual time.
func TestRuntimeHasTheSameResultsInRealTimeAndInASimulation(t *testing.T) {
	for _, c := range runtimeCases {
		t.Run(c.name, func(t *testing.T) {
			_, a, _ := pair(t, on(weft.Config{Link: weft.NewSwitch().Link()}))
			inReal := c.run(a)
			if got := fmt.Sprint(inReal...); got != c.want {
				t.Errorf("real time returns %s; expected %s", got, c.want)
			}
			for seed := range uint64(5) {
				var inVirtual []any
				f := sim.New(sim.Config{Seed: sim.Seed(seed), NICs: 1})
				f.Process(0, "a/0", func(p *sim.Process) error { inVirtual = c.run(p.Weft()); return nil })
				if err := f.Run(time.Hour); err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprint(inVirtual...); got != c.want {
					t.Errorf("seed %d: a simulation returns %s; expected %s", seed, got, c.want)
				}
				for i := range min(len(inReal), len(inVirtual)) {
					mustBeTheSameError(t, inReal[i], inVirtual[i])
				}
			}
		})
	}
}

// mustBeTheSameError compares two errors by errors.Is and by their types.
func mustBeTheSameError(t *testing.T, real, virtual any) {
	t.Helper()
	a, _ := real.(error)
	b, _ := virtual.(error)
	for _, of := range []error{context.Canceled, context.DeadlineExceeded, weft.ErrClosed, weft.ErrBadArgument} {
		if errors.Is(a, of) != errors.Is(b, of) {
			t.Errorf("a simulation returns %v; expected %v", b, a)
		}
	}
	if x, y := fmt.Sprintf("%T", real), fmt.Sprintf("%T", virtual); x != y {
		t.Errorf("a simulation returns a %s; expected a %s", y, x)
	}
}

// If a function of a simulation uses real time, the error names the right call.
func TestASimulationNamesTheCallsOfRuntimeInItsErrors(t *testing.T) {
	f := sim.New(sim.Config{Seed: sim.Seed(1)})
	f.Process(0, "a/0", func(p *sim.Process) error {
		real, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		const want = "sim: the context has a real deadline; use Process.Runtime().WithTimeout"
		for what, err := range map[string]error{
			"Sleep": p.Runtime().Sleep(real, time.Second), "Wait of a Gate": p.Runtime().NewGate().Wait(real),
		} {
			if err == nil || err.Error() != want {
				return fmt.Errorf("%s returns %v; expected %q", what, err, want)
			}
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}
