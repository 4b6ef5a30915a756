package poller

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/interleave"
	"github.com/weftnet/weft/internal/link"
)

// In each test here, callers, the helper and a link take a few steps in every order. Only one
// goroutine runs at any moment. So the data that the sides share besides the poller is plain,
// with a step where a NIC has an atomic word.

// scheduledEngine serves commands and frames when it is polled, and has one deadline.
type scheduledEngine struct {
	r      *interleave.Run
	inside bool

	posted, served int // commands
	frames, taken  int // frames
	timer          clock.Time
	fired          bool
	closed         bool
	bells          [1]struct{ rung, listening bool } // of a loop's process
	listens        bool                              // commands need a ring, or bells.listening
}

func (e *scheduledEngine) Poll(now clock.Time) (work int, next clock.Time) {
	if e.inside {
		e.r.Failf("two are inside the engine")
	}
	if e.closed {
		e.r.Failf("polled after Close")
	}
	e.inside = true
	interleave.Step()
	if !e.listens || e.bells[0].listening {
		work = e.posted - e.served
		e.served = e.posted
		if work == 0 {
			e.EndListening()
		}
	}
	work += e.frames - e.taken
	e.taken = e.frames
	next = clock.Never
	if e.timer > 0 && e.timer <= now {
		if late := now.Sub(e.timer); late > 2*time.Millisecond { // three naps are shorter
			e.r.Failf("a deadline is met %v late", late)
		}
		e.timer, e.fired = 0, true
		work++
	} else if e.timer > 0 {
		next = e.timer
	}
	interleave.Step()
	e.inside = false
	return work, next
}

func (e *scheduledEngine) Ring(uint16)      { e.bells[0].listening = true }
func (e *scheduledEngine) RingAll()         { e.bells[0].listening = true }
func (e *scheduledEngine) Listening() bool  { return e.listens && e.bells[0].listening }
func (e *scheduledEngine) Told() bool       { return true }
func (e *scheduledEngine) Answered() uint64 { return 0 }
func (e *scheduledEngine) WaitsAt() int     { return -1 }

func (e *scheduledEngine) EndListening() {
	e.bells[0].listening = false
	interleave.Step()
	if e.posted > e.served {
		e.bells[0].listening = true
	}
}

// scheduledLink announces frames by a call, as memory does.
type scheduledLink struct{ wake func() }

func (l *scheduledLink) notify(wake func()) { l.wake = wake }

// scheduledPoller begins a poller in a schedule, and a side that closes it when done returns
// true.
func scheduledPoller(t *testing.T, r *interleave.Run, done func(e *scheduledEngine) bool) (*Poller, *scheduledEngine, *scheduledLink) {
	e, l := &scheduledEngine{r: r}, &scheduledLink{}
	p, err := New(e, Config{Link: link.Caps{Notify: l.notify}, Awake: 1})
	if err != nil {
		t.Fatal(err)
	}
	p.apart.room, p.apart.move = func() bool { return false }, func() {}
	r.Go("closer", func() {
		interleave.Block(func() bool { return done(e) })
		p.Close()
		e.closed = true
	})
	return p, e, l
}

func TestEveryScheduleOfTwoKicks(t *testing.T) {
	interleave.Explore(t, interleave.Options{Delays: 3, Least: 500}, func(r *interleave.Run) {
		p, e, _ := scheduledPoller(t, r, func(e *scheduledEngine) bool { return e.served == 2 })
		p.duty.Store(helper)
		for range 2 {
			r.Go("caller", func() {
				interleave.Step()
				e.posted++
				p.Kick()
			})
		}
	})
}

func TestEveryScheduleOfACallerThatEntersAndTheEnd(t *testing.T) {
	interleave.Explore(t, interleave.Options{Delays: 3, Least: 50}, func(r *interleave.Run) {
		p, e, _ := scheduledPoller(t, r, func(*scheduledEngine) bool { return true })
		r.Go("caller", func() {
			if !p.Enter() {
				return
			}
			if e.closed {
				r.Failf("a caller has the engine after Close")
			}
			p.Leave(clock.Never)
		})
	})
}

func TestEveryScheduleOfADeadlineAndAHelperThatFallsAsleep(t *testing.T) {
	interleave.Explore(t, interleave.Options{Delays: 2, Least: 500}, func(r *interleave.Run) {
		p, e, _ := scheduledPoller(t, r, func(e *scheduledEngine) bool { return e.fired })
		p.duty.Store(helper)
		r.Go("caller", func() {
			if p.Enter() {
				due := Now().Add(20 * time.Millisecond)
				e.timer = due
				p.Leave(due)
			}
		})
	})
}

func TestEveryScheduleOfAFrameAndAHelperThatFallsAsleep(t *testing.T) {
	interleave.Explore(t, interleave.Options{Delays: 3, Least: 500}, func(r *interleave.Run) {
		p, e, l := scheduledPoller(t, r, func(e *scheduledEngine) bool { return e.taken == 2 })
		p.duty.Store(helper)
		r.Go("link", func() {
			for range 2 {
				interleave.Step()
				e.frames++
				l.wake()
			}
		})
	})
}

func TestEveryScheduleOfAFrameAndAWaiter(t *testing.T) { aFrameAndAWaiter(t, 0, 3) }

// The frame arrives as the waiter leaves the duty to the helper.
func TestEveryScheduleOfALateFrameAndAWaiter(t *testing.T) { aFrameAndAWaiter(t, mostNod, 1) }

func aFrameAndAWaiter(t *testing.T, after time.Duration, delays int) {
	interleave.Explore(t, interleave.Options{Delays: delays, Least: 100}, func(r *interleave.Run) {
		over := false
		p, e, l := scheduledPoller(t, r, func(*scheduledEngine) bool { return over })
		r.Go("waiter", func() {
			if err := p.Wait(context.Background(), func() bool { interleave.Step(); return e.taken == 1 }); err != nil {
				r.Failf("%v", err)
			}
			over = true
		})
		r.Go("link", func() {
			if interleave.Step(); after > 0 {
				interleave.BlockFor(func() bool { return false }, after)
			}
			e.frames++
			l.wake()
		})
	})
}

func TestEveryScheduleOfTwoWaitersAndTheirFrames(t *testing.T) {
	interleave.Explore(t, interleave.Options{Delays: 3, Least: 500}, func(r *interleave.Run) {
		over := 0
		p, e, l := scheduledPoller(t, r, func(*scheduledEngine) bool { return over == 2 })
		r.Go("link", func() {
			for range 2 {
				interleave.Step()
				e.frames++
				l.wake()
			}
		})
		for k := range 2 {
			r.Go("waiter", func() {
				if err := p.Wait(context.Background(), func() bool { interleave.Step(); return e.taken > k }); err != nil {
					r.Failf("%v", err)
				}
				over++
			})
		}
	})
}

// ending is a context that a side ends. Functions that wait for its end are called by that side
// at once.
type ending struct {
	context.Context
	done chan struct{}
	f    func()
}

func (c *ending) Done() <-chan struct{} { return c.done }

func (c *ending) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}

func (c *ending) AfterFunc(f func()) (stop func() bool) {
	c.f = f
	return func() bool { c.f = nil; return true }
}

func (c *ending) end() {
	close(c.done)
	if c.f != nil {
		c.f()
	}
}

// scheduledLoop begins a loop in a schedule, and a side that ends it when done returns true.
func scheduledLoop(t *testing.T, r *interleave.Run, done func(e *scheduledEngine) bool) (*Loop, *scheduledEngine) {
	e := &scheduledEngine{r: r}
	l, err := NewLoop(e, LoopConfig{Awake: 1})
	if err != nil {
		t.Fatal(err)
	}
	l.shares = func() bool { return false }
	ctx := &ending{Context: context.Background(), done: make(chan struct{})}
	r.Go("loop", func() { l.Run(ctx) })
	r.Go("closer", func() {
		interleave.Block(func() bool { return done(e) })
		ctx.end()
	})
	r.Check(l.Close)
	return l, e
}

func TestEveryScheduleOfALoopThatParksAndAKick(t *testing.T) {
	interleave.Explore(t, interleave.Options{Delays: 3, Least: 500}, func(r *interleave.Run) {
		l, e := scheduledLoop(t, r, func(e *scheduledEngine) bool { return e.taken == 1 })
		r.Go("link", func() {
			interleave.Step()
			e.frames++
			l.Kick()
		})
	})
}

func TestEveryScheduleOfALoopThatParksAndADo(t *testing.T) {
	interleave.Explore(t, interleave.Options{Delays: 3, Least: 500}, func(r *interleave.Run) {
		l, _ := scheduledLoop(t, r, func(e *scheduledEngine) bool { return e.fired })
		r.Go("caller", func() {
			l.Do(func(now clock.Time) { l.engine.(*scheduledEngine).timer = now.Add(20 * time.Millisecond) })
		})
	})
}

func TestEveryScheduleOfALoopThatParksAndAProcessThatRings(t *testing.T) { // decision 11
	interleave.Explore(t, interleave.Options{Delays: 3, Least: 500}, func(r *interleave.Run) {
		l, e := scheduledLoop(t, r, func(e *scheduledEngine) bool { return e.served == 2 })
		e.listens = true
		bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.AddBell(bell, 0); err != nil {
			t.Fatal(err)
		}
		r.Check(func() error { return unix.Close(bell) })
		r.Go("process", func() {
			for range 2 {
				interleave.Step()
				e.posted++
				interleave.Step()
				if !e.bells[0].listening {
					unix.Write(bell, one)
				}
			}
		})
	})
}
