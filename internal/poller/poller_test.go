package poller

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
)

// fakeEngine completes every request posted to it, after delay of its own time, and announces
// the time as a deadline.
type fakeEngine struct {
	answers atomic.Uint64 // of programs
	inside  atomic.Int32  // goroutines inside a method: never more than one
	polls   atomic.Int64
	rings   atomic.Int64
	frames  atomic.Int64 // handed over by the link; each completes the oldest request
	delay   time.Duration
	posted  chan *request
	pending []*request
}

type request struct {
	due  clock.Time
	done atomic.Bool
}

func newFake(delay time.Duration) *fakeEngine {
	return &fakeEngine{delay: delay, posted: make(chan *request, 1024)}
}

func (e *fakeEngine) enter() {
	if e.inside.Add(1) != 1 {
		panic("two goroutines are inside the engine")
	}
}
func (e *fakeEngine) leave() { e.inside.Add(-1) }

func (e *fakeEngine) Poll(now clock.Time) (work int, next clock.Time) {
	e.enter()
	defer e.leave()
	e.polls.Add(1)
	for len(e.posted) > 0 {
		r := <-e.posted
		r.due = clock.Never
		if e.delay >= 0 {
			r.due = now.Add(e.delay)
		}
		e.pending = append(e.pending, r)
		work++
	}
	for n := e.frames.Swap(0); n > 0 && len(e.pending) > 0; n-- {
		e.pending[0].done.Store(true)
		e.pending = e.pending[1:]
		work++
	}
	next = clock.Never
	kept := e.pending[:0]
	for _, r := range e.pending {
		if r.due <= now {
			r.done.Store(true)
			work++
			continue
		}
		next = clock.Min(next, r.due)
		kept = append(kept, r)
	}
	e.pending = kept
	return work, next
}

func (e *fakeEngine) Ring(uint16)      { e.rings.Add(1) }
func (e *fakeEngine) RingAll()         { e.enter(); e.rings.Add(1); e.leave() }
func (e *fakeEngine) Listening() bool  { return false }
func (e *fakeEngine) EndListening()    {}
func (e *fakeEngine) Told() bool       { return true }
func (e *fakeEngine) Answered() uint64 { return e.answers.Load() }
func (e *fakeEngine) WaitsAt() int     { return -1 }

func open(t testing.TB, e Engine, cfg Config) *Poller {
	t.Helper()
	p, err := New(e, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// patience bounds waits that end soon unless something is broken.
const patience = time.Minute

// within fails the test if f hangs.
func within(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(patience):
		buf := make([]byte, 1<<16)
		t.Fatalf("%s took more than %v\n%s", what, patience, buf[:runtime.Stack(buf, true)])
	}
}

func TestAWaiterPollsUntilItsOperationIsDone(t *testing.T) {
	e := newFake(50 * time.Microsecond)
	p := open(t, e, Config{})
	within(t, "waiting", func() {
		for range 200 {
			r := &request{}
			e.posted <- r
			p.Kick()
			if err := p.Wait(t.Context(), r.done.Load); err != nil || !r.done.Load() {
				t.Errorf("Wait = %v, done %v", err, r.done.Load())
			}
		}
	})
}

func TestDeadlinesAreMetWhileAllSleep(t *testing.T) {
	e := newFake(5 * time.Millisecond) // longer than any goroutine spins or yields
	p := open(t, e, Config{})
	within(t, "waiting", func() {
		for range 20 {
			r := &request{}
			e.posted <- r
			p.Kick()
			if err := p.Wait(t.Context(), r.done.Load); err != nil {
				t.Error(err)
			}
			if early := r.due.Sub(Now()); early > 0 {
				t.Errorf("done %v before it was due", early)
			}
		}
	})
}

func TestNobodyIsForgottenAmongManyWaiters(t *testing.T) {
	for _, delay := range []time.Duration{0, 30 * time.Microsecond, time.Millisecond} {
		e := newFake(delay)
		p := open(t, e, Config{})
		within(t, "hammering", func() {
			var all sync.WaitGroup
			for range 32 {
				all.Go(func() {
					for range 100 {
						r := &request{}
						e.posted <- r
						p.Kick()
						if err := p.Wait(context.Background(), r.done.Load); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
		})
		if n := p.waiters.Len(); n != 0 {
			t.Errorf("%d waiters are left on the list", n)
		}
	}
}

func TestTheHelperServesWhenNobodyCalls(t *testing.T) {
	e := newFake(2 * time.Millisecond)
	p := open(t, e, Config{})
	r := &request{}
	e.posted <- r
	p.Kick() // and never Wait
	deadline := time.Now().Add(patience)
	for !r.done.Load() {
		if time.Now().After(deadline) {
			t.Fatal("the helper did not poll")
		}
		time.Sleep(100 * time.Microsecond)
	}
}

func TestAnIdlePollerDoesNotPoll(t *testing.T) {
	e := newFake(0)
	open(t, e, Config{})
	comesToRest(t, &e.polls)
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	e := newFake(-1) // nothing is ever done
	p := open(t, e, Config{})
	never := func() bool { return false }
	within(t, "cancelled waits", func() {
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				d := time.Duration(i) * 300 * time.Microsecond // while it spins, yields, sleeps
				ctx, cancel := context.WithTimeout(context.Background(), d)
				defer cancel()
				if err := p.Wait(ctx, never); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Wait = %v, want the context's error", err)
				}
			})
		}
		all.Wait()
	})
	if d := p.duty.Load(); d == waiter {
		t.Error("the duty is held by a waiter that has left")
	}
}

func TestCloseEndsEveryWait(t *testing.T) {
	e := newFake(-1)
	p, err := New(e, Config{})
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() { errs <- p.Wait(context.Background(), func() bool { return false }) }()
	}
	time.Sleep(3 * time.Millisecond)
	within(t, "Close", func() {
		p.Close()
		for range cap(errs) {
			if err := <-errs; !errors.Is(err, ErrClosed) {
				t.Errorf("Wait = %v, want ErrClosed", err)
			}
		}
	})
	polls := e.polls.Load()
	p.Kick()
	if e.polls.Load() != polls {
		t.Error("polled after Close")
	}
}

// notifyLink is a link without a descriptor, as mem is.
type notifyLink struct {
	wake func()
}

func (l *notifyLink) Notify(wake func()) { l.wake = wake }

func TestAFrameOfALinkWithoutDescriptorWakesTheSleeper(t *testing.T) {
	e := newFake(-1)
	l := &notifyLink{}
	p := open(t, e, Config{Link: link.Caps{Notify: l.Notify}})
	within(t, "frames", func() {
		for i := range 300 {
			r := &request{}
			e.posted <- r
			p.Kick()
			go func() {
				time.Sleep(time.Duration(i%10) * 100 * time.Microsecond)
				e.frames.Add(1)
				l.wake()
			}()
			if err := p.Wait(t.Context(), r.done.Load); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestDoExcludesThePollersAndChangesWhatTheyWaitFor(t *testing.T) {
	e := newFake(-1)
	p := open(t, e, Config{})
	var flag atomic.Bool
	go func() {
		time.Sleep(2 * time.Millisecond)
		p.Do(func(clock.Time) { e.enter(); flag.Store(true); e.leave() })
	}()
	within(t, "Do", func() {
		if err := p.Wait(context.Background(), flag.Load); err != nil {
			t.Error(err)
		}
	})
}

// The steady state of the data path allocates nothing (decision 16).
func TestWaitingAllocatesNothing(t *testing.T) {
	e := &countingEngine{}
	p := open(t, e, Config{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ready := func() bool { return e.polls.Load()%8 == 0 }
	wait := func() {
		p.Kick()
		if err := p.Wait(ctx, ready); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(1000, wait); n != 0 {
		t.Errorf("%v allocations a wait", n)
	}
}

type countingEngine struct{ polls atomic.Int64 }

func (e *countingEngine) Poll(now clock.Time) (int, clock.Time) {
	e.polls.Add(1)
	return 1, now
}
func (*countingEngine) Ring(uint16)      {}
func (*countingEngine) RingAll()         {}
func (*countingEngine) Listening() bool  { return false }
func (*countingEngine) EndListening()    {}
func (*countingEngine) Told() bool       { return true }
func (*countingEngine) Answered() uint64 { return 0 }
func (*countingEngine) WaitsAt() int     { return -1 }

// When programs have answered, no caller waits, and the next message may be near: the helper
// looks for it, and does not park at once.
func TestTheHelperStaysAwakeWhenProgramsHaveAnswered(t *testing.T) {
	e := newFake(0)
	p := open(t, e, Config{Awake: time.Hour})
	// Repeated, since a computing thread on its core makes the helper park.
	for end := time.Now().Add(patience); time.Now().Before(end); {
		before := e.polls.Load()
		e.answers.Add(1)
		p.callHelper()
		for range 20 {
			time.Sleep(time.Millisecond)
			if e.polls.Load()-before > 100 {
				return
			}
		}
	}
	t.Error("the helper parks at once")
}

func BenchmarkWait(b *testing.B) {
	e := newFake(0)
	p := open(b, e, Config{})
	r := &request{}
	b.ReportAllocs()
	for b.Loop() {
		r.done.Store(false)
		e.posted <- r
		p.Kick()
		if err := p.Wait(context.Background(), r.done.Load); err != nil {
			b.Fatal(err)
		}
	}
}

// comesToRest waits until there was no poll for 50 ms. Earlier work may take a while to settle
// on a busy machine; a poller that has nothing to do must not poll for ever.
func comesToRest(t *testing.T, polls *atomic.Int64) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		before := polls.Load()
		time.Sleep(50 * time.Millisecond)
		if polls.Load() == before {
			return
		}
	}
	t.Error("polls go on without any reason")
}
