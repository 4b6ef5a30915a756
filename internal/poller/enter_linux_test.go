package poller

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
)

func TestWhoEntersHasTheEngineToItself(t *testing.T) {
	e := newFake(time.Microsecond)
	p := open(t, e, Config{})
	var all sync.WaitGroup
	total := 0
	within(t, "entering", func() {
		for range 4 {
			all.Go(func() {
				for range 2000 {
					if !p.Enter() {
						t.Error("refused though it is open")
						return
					}
					total++
					p.Leave(clock.Never)
				}
			})
		}
		all.Wait()
	})
	if total != 8000 {
		t.Errorf("entered %d times, expected 8000", total)
	}
}

func TestNobodyEntersAPollerThatIsClosed(t *testing.T) {
	p := open(t, newFake(time.Microsecond), Config{})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if p.Enter() {
		t.Error("entered")
	}
}

func TestADeadlineSetByLeaveIsMetWhileAllSleep(t *testing.T) {
	e := &bellEngine{}
	p := open(t, e, Config{})
	for i := range int64(10) {
		time.Sleep(3 * time.Millisecond) // the helper dozes
		if !p.Enter() {
			t.Fatal("refused")
		}
		due := Now().Add(2 * time.Millisecond)
		e.timer.Store(int64(due))
		p.Leave(due)
		eventually(t, "the deadline", func() bool { return e.fired.Load() == i+1 })
	}
}

func TestLeavePollingPolls(t *testing.T) {
	e := &bellEngine{}
	p := open(t, e, Config{})
	p.Enter()
	before := e.polls.Load()
	p.LeavePolling()
	if e.polls.Load() == before {
		t.Error("LeavePolling did not poll")
	}
}

// glancing is a link on which a frame is seen before the engine is polled.
type glancing struct {
	glances atomic.Int64
	frame   atomic.Bool
}

func (g *glancing) Glance() bool { g.glances.Add(1); return g.frame.Load() }

func TestAGlanceEndsWithAFrameWithACommandAndByItself(t *testing.T) {
	g := &glancing{}
	p := open(t, newFake(time.Microsecond), Config{Link: link.Caps{Glance: g.Glance}})
	p.mu.Lock()
	defer p.mu.Unlock()
	look := func() (saw bool, n int64) {
		g.glances.Store(0)
		saw = p.glance()
		return saw, g.glances.Load()
	}
	if saw, n := look(); saw || n != glances {
		t.Errorf("of nothing: %v after %d glances", saw, n)
	}
	p.again.Store(true)
	if saw, n := look(); saw || n != 1 {
		t.Errorf("with a command: %v after %d glances", saw, n)
	}
	g.frame.Store(true)
	if saw, n := look(); !saw || n != 1 {
		t.Errorf("with a frame: %v after %d glances", saw, n)
	}
	p.again.Store(false)
}

func TestNobodyGlancesAtALinkOnceThePollerIsClosed(t *testing.T) { // it is closed next
	g := &glancing{}
	p := open(t, newFake(time.Microsecond), Config{Link: link.Caps{Glance: g.Glance}})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p.lead(t.Context(), func() bool { return false })
	if n := g.glances.Load(); n > 0 {
		t.Errorf("glanced %d times", n)
	}
}

// A caller that enters takes the duty away, perhaps before the helper has polled, and does not
// poll itself.
func TestTheHelperPollsThoughItsDutyIsTakenAway(t *testing.T) {
	e := newFake(time.Microsecond)
	p := &Poller{engine: e}
	within(t, "watching", p.watch)
	if n := e.polls.Load(); n != 1 {
		t.Errorf("polled %d times, expected once", n)
	}
}

// late is an engine that always has work, and knows the earliest valid time of its polls.
type late struct {
	fakeEngine
	entered atomic.Int64 // when a caller entered last
	before  atomic.Int64 // polls with an earlier time
}

func (e *late) Poll(now clock.Time) (work int, next clock.Time) {
	if int64(now) < e.entered.Load() {
		e.before.Add(1)
	}
	return 1, now
}

// A goroutine that ran while the poller shared its processor may have read a later time than the
// poller. With the older time a round trip could end before it began.
func TestAPollerThatSharedItsProcessorLooksAtTheClockAgain(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	e := &late{}
	p := open(t, e, Config{})
	const times = 20000
	var done atomic.Bool
	go func() {
		for range times {
			p.Enter()
			e.entered.Store(int64(Now()))
			p.Leave(clock.Never)
			runtime.Gosched()
		}
		done.Store(true)
	}()
	begun := time.Now()
	if err := p.Wait(t.Context(), done.Load); err != nil {
		t.Fatal(err)
	}
	// The runtime lets a goroutine run for at least 10 ms.
	preempted := int64(time.Since(begun) / (10 * time.Millisecond))
	if n := e.before.Load(); n > times/200+preempted {
		t.Errorf("%d of %d times the engine was polled with a time of before", n, times)
	}
}
