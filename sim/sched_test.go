package sim

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

func (s *sched) drain() {
	for s.step(clock.Never) {
	}
}

func TestEventsHappenInOrderOfTime(t *testing.T) {
	s := newSched(1)
	rng := stream(1, 9)
	var got []clock.Time
	for range 1000 {
		s.push(clock.Time(rng.Int64N(300)), call(func() { got = append(got, s.now) }), 0)
	}
	s.drain()
	if len(got) != 1000 || !slices.IsSorted(got) {
		t.Fatalf("%d events happened, in order: %v", len(got), slices.IsSorted(got))
	}
}

func TestSimultaneousEventsAreOrderedByTheSeed(t *testing.T) {
	order := func(seed uint64) string {
		s := newSched(seed)
		var b strings.Builder
		for _, c := range "abcdefgh" {
			s.push(5, call(func() { b.WriteRune(c) }), 0)
		}
		s.drain()
		return b.String()
	}
	if a, b := order(7), order(7); a != b {
		t.Errorf("one seed gave two orders, %s and %s", a, b)
	}
	if a, b := order(7), order(8); a == b {
		t.Errorf("two seeds gave the order %s", a)
	}
}

func TestAnEventInThePastIsABug(t *testing.T) {
	s := newSched(1)
	s.push(10, call(func() {}), 0)
	s.drain()
	defer func() {
		if recover() == nil {
			t.Error("an event was pushed into the past")
		}
	}()
	s.push(9, call(func() {}), 0)
}

func TestTasksTakeTurnsInVirtualTime(t *testing.T) {
	s := newSched(3)
	var got []string
	for _, d := range []time.Duration{30, 10, 20} {
		var me *task
		me = s.spawn(nil, "sleeper", func() error {
			for range 2 {
				me.sleep(d * time.Second)
				got = append(got, time.Duration(s.now).Round(time.Second).String())
			}
			return nil
		}, nil)
	}
	s.drain()
	want := []string{"10s", "20s", "20s", "30s", "40s", "1m0s"}
	if !slices.Equal(got, want) {
		t.Errorf("tasks went on at %v; want %v", got, want)
	}
}

func TestAKilledTaskUnwindsAndRunsItsDeferredCalls(t *testing.T) {
	s := newSched(3)
	var deferred, went bool
	var me *task
	me = s.spawn(nil, "victim", func() error {
		defer func() { deferred = true }()
		me.sleep(time.Hour)
		went = true
		return nil
	}, nil)
	s.push(clock.Time(time.Second), call(func() { s.kill(me) }), 0)
	s.drain()
	if !deferred || went || !me.over || me.err != nil {
		t.Errorf("deferred %v, went on %v, over %v, error %v", deferred, went, me.over, me.err)
	}
}

func TestATaskKilledBeforeItsStartNeverRuns(t *testing.T) {
	s := newSched(3)
	ran := false
	me := s.spawn(nil, "victim", func() error { ran = true; return nil }, nil)
	s.kill(me)
	s.drain()
	if ran || !me.over {
		t.Errorf("ran %v, over %v", ran, me.over)
	}
}

func TestAPanicOfATaskIsItsError(t *testing.T) {
	s := newSched(3)
	me := s.spawn(nil, "clumsy", func() error { panic("ouch") }, nil)
	s.drain()
	if me.err == nil || !strings.Contains(me.err.Error(), "ouch") {
		t.Errorf("error is %v", me.err)
	}
}

func TestBlockingOutsideOfTheOwnCoroutineIsABug(t *testing.T) {
	s := newSched(3)
	var a *task
	a = s.spawn(nil, "a", func() error { a.sleep(time.Second); return nil }, nil)
	b := s.spawn(nil, "b", func() error { a.sleep(time.Second); return nil }, nil)
	s.drain()
	if b.err == nil || !strings.Contains(b.err.Error(), "Process.Start or Runtime().Go") {
		t.Errorf("error is %v", b.err)
	}
}

// inTask runs f as a task, and runs the schedule to its end.
func inTask(t *testing.T, f func(s *sched, me *task)) {
	t.Helper()
	s := newSched(11)
	var me *task
	me = s.spawn(nil, "test", func() error { f(s, me); return nil }, nil)
	s.drain()
	if me.err != nil {
		t.Error(me.err)
	}
	if !me.over {
		t.Errorf("it still waits for %s", me.why)
	}
}

func TestADeadlineEndsAWaitInVirtualTime(t *testing.T) {
	inTask(t, func(s *sched, me *task) {
		ctx, cancel := s.withDeadline(context.Background(), s.now.Add(time.Minute))
		defer cancel()
		me.await(ctx, "nothing")
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("error is %v", ctx.Err())
		}
		if at := time.Duration(s.now).Round(time.Second); at != time.Minute {
			t.Errorf("it ended at %v", at)
		}
	})
}

type testKey struct{}

func TestContextsDerivedByTheStandardLibraryEndInTheSameStep(t *testing.T) {
	inTask(t, func(s *sched, me *task) {
		outer, cancel := s.withDeadline(context.Background(), s.now.Add(time.Second))
		defer cancel()
		child, cancelChild := context.WithCancel(context.WithValue(outer, testKey{}, nil))
		defer cancelChild()
		inner, cancelInner := s.withDeadline(child, s.now.Add(time.Hour))
		defer cancelInner()
		if realDeadline(inner) || realDeadline(child) {
			t.Error("a virtual deadline was taken for a real one")
		}
		me.await(inner, "nothing")
		for _, c := range []context.Context{outer, child, inner} {
			if !errors.Is(c.Err(), context.DeadlineExceeded) {
				t.Errorf("error is %v", c.Err())
			}
		}
		if at := time.Duration(s.now).Round(time.Second); at != time.Second {
			t.Errorf("it ended at %v", at)
		}
	})
}

func TestCancellingAStandardContextWakesItsWaiters(t *testing.T) {
	inTask(t, func(s *sched, me *task) {
		ctx, cancel := context.WithCancel(context.Background())
		var other *task
		other = s.spawn(nil, "other", func() error { other.sleep(time.Second); cancel(); return nil }, nil)
		below, done := s.withDeadline(ctx, clock.Never)
		defer done()
		me.await(below, "nothing")
		if !errors.Is(below.Err(), context.Canceled) {
			t.Errorf("error is %v", below.Err())
		}
		if at := time.Duration(s.now).Round(time.Second); at != time.Second {
			t.Errorf("it ended at %v", at)
		}
	})
}

func TestARealDeadlineIsRecognised(t *testing.T) {
	s := newSched(1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if !realDeadline(ctx) {
		t.Error("it was taken for a virtual one")
	}
	v, cancelV := s.withDeadline(context.Background(), clock.Time(2*time.Hour))
	defer cancelV()
	ctx, cancel2 := context.WithTimeout(v, time.Hour)
	defer cancel2()
	if !realDeadline(ctx) {
		t.Error("below a virtual one it was taken for a virtual one")
	}
}

func TestATimeoutThatHasPassedEndsItsContextAtOnce(t *testing.T) {
	inTask(t, func(s *sched, me *task) {
		for _, d := range []time.Duration{0, -time.Second} {
			ctx, cancel := s.withDeadline(context.Background(), s.now.Add(d))
			defer cancel()
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("with a timeout of %v its error is %v", d, ctx.Err())
			}
		}
	})
}

func TestARealDeadlineIsRecognisedAboveAVirtualOne(t *testing.T) {
	s := newSched(1)
	real, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	v, cancelV := s.withDeadline(real, clock.Time(time.Second))
	defer cancelV()
	plain, cancelPlain := context.WithCancel(v)
	defer cancelPlain()
	below, cancelBelow := s.withDeadline(plain, clock.Time(time.Minute))
	defer cancelBelow()
	for i, ctx := range []context.Context{v, plain, below} {
		if !realDeadline(ctx) {
			t.Errorf("context %d below it was taken for a virtual one", i)
		}
	}
}
