package poller

import (
	"cmp"
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"golang.org/x/sys/unix"
)

// bellEngine has one queue a slot and looks only at those that it listens to, as a NIC does.
type bellEngine struct {
	fakeEngine
	queues    [4]atomic.Int64 // commands posted by "processes"
	listening [4]atomic.Bool  // the listening words of the processes
	idle      [4]int
	// Polls that find a queue empty before the engine stops listening to it; 0 is 20.
	patience int
	served   [4]atomic.Int64
	timer    atomic.Int64 // a deadline
	fired    atomic.Int64
}

func (e *bellEngine) Poll(now clock.Time) (work int, next clock.Time) {
	e.enter()
	defer e.leave()
	e.polls.Add(1)
	for i := range e.queues {
		if !e.listening[i].Load() {
			continue
		}
		if n := e.queues[i].Swap(0); n > 0 {
			e.served[i].Add(n)
			e.idle[i] = 0
			work += int(n)
		} else if e.idle[i]++; e.idle[i] > cmp.Or(e.patience, 20) {
			e.stop(i)
		}
	}
	next = clock.Never
	if d := clock.Time(e.timer.Load()); d != 0 && d <= now {
		e.timer.Store(0)
		e.fired.Add(1)
	} else if d != 0 {
		next = d
	}
	return work, next
}

func (e *bellEngine) stop(i int) {
	e.listening[i].Store(false)
	if e.queues[i].Load() > 0 {
		e.listening[i].Store(true)
	}
}

func (e *bellEngine) EndListening() {
	e.enter()
	defer e.leave()
	for i := range e.listening {
		if e.listening[i].Load() {
			e.stop(i)
		}
	}
}

func (e *bellEngine) Ring(slot uint16) {
	e.rings.Add(1)
	e.idle[slot] = 0
	e.listening[slot].Store(true)
}

func (e *bellEngine) RingAll() {
	for i := range e.queues {
		e.Ring(uint16(i))
	}
}

func (e *bellEngine) Listening() bool {
	for i := range e.listening {
		if e.listening[i].Load() {
			return true
		}
	}
	return false
}

func runLoop(t *testing.T, e Engine, cfg LoopConfig) *Loop {
	t.Helper()
	l, err := NewLoop(e, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, l)
}

func run(t *testing.T, l *Loop) *Loop {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		within(t, "the end of the loop", func() { <-done })
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func eventfd(t *testing.T) int {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !f(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%s did not happen\n%s", what, buf[:runtime.Stack(buf, true)])
		}
	}
}

// A post sees that the NIC listens, or rings. None is lost, however the two meet (decision 11).
func TestNoCommandOfAProcessIsLost(t *testing.T) {
	e := &bellEngine{}
	l := runLoop(t, e, LoopConfig{})
	var all sync.WaitGroup
	for i := range e.queues {
		fd := eventfd(t)
		if err := l.AddBell(fd, uint16(i)); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for n := range int64(300) {
				e.queues[i].Add(1)
				if !e.listening[i].Load() {
					unix.Write(fd, one)
				}
				deadline := time.Now().Add(patience)
				for e.served[i].Load() != n+1 {
					if time.Now().After(deadline) {
						t.Errorf("slot %d: command %d is lost", i, n)
						return
					}
					runtime.Gosched()
				}
				if n%10 == 0 {
					time.Sleep(time.Duration(n) * 3 * time.Microsecond) // sometimes enough to park
				}
			}
		})
	}
	all.Wait()
}

// In an embedded NIC, too, a post that sees that the NIC listens does not kick, and is served
// though no caller waits for it.
func TestNoCommandIsLostThoughNobodyWaits(t *testing.T) {
	e := &bellEngine{}
	p := open(t, e, Config{})
	for n := range int64(300) {
		e.queues[0].Add(1)
		if !e.listening[0].Load() {
			p.Kick()
		}
		eventually(t, "the command's turn", func() bool { return e.served[0].Load() == n+1 })
		// So that the helper looks, takes over, or sleeps.
		time.Sleep(time.Duration(n%20) * 50 * time.Microsecond)
	}
	comesToRest(t, &e.polls)
}

func TestARingBeforeTheBellIsWatchedCounts(t *testing.T) {
	e := &bellEngine{}
	l := runLoop(t, e, LoopConfig{})
	fd := eventfd(t)
	e.queues[2].Add(1)
	unix.Write(fd, one)
	if err := l.AddBell(fd, 2); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the command's turn", func() bool { return e.served[2].Load() == 1 })
	if err := l.RemoveBell(fd); err != nil {
		t.Error(err)
	}
	l.Do(func(clock.Time) {}) // earlier rings have been reported by then
	rings := e.rings.Load()
	unix.Write(fd, one)
	time.Sleep(5 * time.Millisecond)
	if e.rings.Load() != rings {
		t.Error("a removed bell was heard")
	}
}

func TestADeadlineSetByDoIsMetWhileParked(t *testing.T) {
	e := &bellEngine{}
	l := runLoop(t, e, LoopConfig{})
	for i := range int64(10) {
		time.Sleep(2 * time.Millisecond) // parked by now
		var due clock.Time
		l.Do(func(now clock.Time) {
			due = now.Add(3 * time.Millisecond)
			e.timer.Store(int64(due))
		})
		eventually(t, "the deadline", func() bool { return e.fired.Load() == i+1 })
		if early := due.Sub(Now()); early > 0 {
			t.Errorf("fired %v before it was due", early)
		}
	}
}

func TestAParkedLoopCostsNothing(t *testing.T) {
	e := &bellEngine{}
	runLoop(t, e, LoopConfig{})
	comesToRest(t, &e.polls)
}

func TestALoopBesideSomebodyWhoComputesParksThoughItListens(t *testing.T) {
	e := &bellEngine{patience: 1 << 30}
	l, err := NewLoop(e, LoopConfig{Awake: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	l.yield = func() { time.Sleep(time.Millisecond) } // the other thread has the core meanwhile
	run(t, l)
	fd := eventfd(t)
	if err := l.AddBell(fd, 0); err != nil {
		t.Fatal(err)
	}
	for n := range int64(20) {
		e.queues[0].Add(1)
		if !e.listening[0].Load() {
			unix.Write(fd, one)
		}
		eventually(t, "the command's turn", func() bool { return e.served[0].Load() == n+1 })
		eventually(t, "the end of listening", func() bool { return !e.Listening() })
	}
	comesToRest(t, &e.polls)
}

func TestAHelperBesideAThreadThatComputesParksThoughItListens(t *testing.T) {
	e := &bellEngine{patience: 1 << 30}
	// The other thread has the core meanwhile.
	p, err := New(e, Config{yield: func() { time.Sleep(time.Millisecond) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	for n := range int64(20) {
		e.queues[0].Add(1)
		if !e.listening[0].Load() {
			p.Kick()
		}
		eventually(t, "the command's turn", func() bool { return e.served[0].Load() == n+1 })
		eventually(t, "the end of listening", func() bool { return !e.Listening() })
	}
	comesToRest(t, &e.polls)
}

func TestDoHasTheEngineToItselfWhileTheLoopIsBusy(t *testing.T) {
	e := &countingEngine{}
	l := runLoop(t, e, LoopConfig{})
	within(t, "1000 Do calls beside a busy loop", func() {
		for range 1000 {
			l.Do(func(clock.Time) {
				before := e.polls.Load()
				if e.polls.Load() != before {
					t.Error("the loop polled during Do")
				}
			})
		}
	})
}

// A loop that always finds work does not park, and so learns of no rings from epoll. It looks
// for them all the same.
func TestABusyLoopHearsARing(t *testing.T) {
	e := &busyBells{}
	l := runLoop(t, e, LoopConfig{})
	bell := eventfd(t)
	if err := l.AddBell(bell, 2); err != nil {
		t.Fatal(err)
	}
	e.queues[2].Add(1)
	if _, err := unix.Write(bell, one); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the command of a process that rings", func() bool { return e.served[2].Load() == 1 })
}

// busyBells is a bellEngine that finds work in each poll.
type busyBells struct{ bellEngine }

func (e *busyBells) Poll(now clock.Time) (work int, next clock.Time) {
	_, next = e.bellEngine.Poll(now)
	return 1, next
}

func TestDoMayMeetTheStartAndTheEndOfTheLoop(t *testing.T) {
	// With two processors, as daemons have: with one, each call waits until the loop is
	// preempted.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))))
	// 40 calls each; if other threads compute, each may wait for its turn.
	for range 200 {
		l, err := NewLoop(&countingEngine{}, LoopConfig{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { l.Run(ctx) })
		done := 0
		all.Go(func() {
			for range 20 {
				l.Do(func(clock.Time) { done++ })
			}
			cancel()
			for range 20 {
				l.Do(func(clock.Time) { done++ })
			}
		})
		within(t, "Do at the start and the end of a loop", all.Wait)
		if done != 40 {
			t.Errorf("%d of 40 calls were made", done)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The end of its context no longer wakes a loop that has ended: its descriptor may be another
// file's by then.
func TestNothingWakesALoopThatHasEnded(t *testing.T) {
	for range 300 {
		l, err := NewLoop(&bellEngine{}, LoopConfig{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			l.Run(ctx)
			l.dirty.Store(false)
		}()
		cancel()
		<-ended
		for range 20 {
			runtime.Gosched()
		}
		if l.dirty.Load() {
			t.Fatal("a loop that has ended is told to poll")
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestALoopsTurnAllocatesNothing(t *testing.T) { // decision 16
	l, err := NewLoop(&countingEngine{}, LoopConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	turn := func() {
		l.engine.Poll(Now())
		l.rings(l.wait(0))
		l.wait(time.Microsecond)
	}
	if n := testing.AllocsPerRun(100, turn); n != 0 {
		t.Errorf("%v allocations a turn", n)
	}
}
