package poller

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/idle"
)

// watchedEngine reports its polls.
type watchedEngine struct {
	*fakeEngine
	polled func()
}

func (e *watchedEngine) Poll(now clock.Time) (int, clock.Time) {
	e.polled()
	return e.fakeEngine.Poll(now)
}

// compute takes longer than a goroutine that only looks.
func compute() {
	for begun := time.Now(); time.Since(begun) < 10*vainShare; {
	}
}

// A goroutine that was made ready by the present waiter runs before the waiter polls, on the
// only processor, and so does one that yields in turn. Now and then the runtime runs the waiter
// first all the same, as one that has waited for long.
func TestAWaiterInCompanyLetsOthersRunBeforeItPolls(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const rounds = 20
	var ran, polled atomic.Bool
	var before atomic.Int32
	var p atomic.Pointer[Poller]
	e := &watchedEngine{fakeEngine: newFake(0)}
	e.polled = func() {
		if p := p.Load(); p != nil && p.duty.Load() == waiter && !polled.Swap(true) && ran.Load() {
			before.Add(1)
		}
	}
	p.Store(open(t, e, Config{}))
	for range rounds {
		ran.Store(false)
		polled.Store(false)
		p.Load().company.note(0)
		r := &request{}
		e.posted <- r
		go func() {
			compute()
			runtime.Gosched()
			compute()
			ran.Store(true)
		}()
		if err := p.Load().Wait(context.Background(), r.done.Load); err != nil {
			t.Fatal(err)
		}
		for !ran.Load() {
			runtime.Gosched()
		}
	}
	if n := before.Load(); n < rounds/2 {
		t.Errorf("others ran before the waiter polled in %d rounds of %d", n, rounds)
	}
}

func TestACallerThatEntersWhileAWaiterPollsIsItsCompanyForAWhile(t *testing.T) {
	p := open(t, newFake(0), Config{})
	for name, enter := range map[string]func(){
		"Enter": func() {
			if p.Enter() {
				p.unlock()
			}
		},
		"Kick":  p.Kick,
		"Began": p.Began,
	} {
		p.company.left.Store(0)
		p.duty.Store(nobody)
		if enter(); p.company.left.Load() != 0 {
			t.Errorf("%s while none polls is company", name)
		}
		p.duty.Store(waiter)
		enter()
		p.duty.Store(nobody)
		for n := range companyFor {
			if p.company.left.Load() == 0 {
				t.Fatalf("%s while a waiter polls was company for %d waiters; expected %d", name, n, companyFor)
			}
			p.company.share()
		}
		if p.company.left.Load() != 0 {
			t.Errorf("company is there after %d waiters that had none", companyFor)
		}
	}
}

func TestThePollerSleepsByTheRuntimeWhereCompanyIsFrequent(t *testing.T) {
	var c company
	now := clock.Time(1e9)
	for range 100 { // one caller now and then
		c.note(now)
		for range companyFor {
			c.share()
		}
	}
	if c.isFrequent(now) {
		t.Error("a caller now and then is frequent company")
	}
	for range frequent/companyFor + 1 {
		c.note(now)
	}
	if !c.isFrequent(now.Add(frequentFor - 1)) {
		t.Errorf("%d callers in a row are no frequent company", frequent/companyFor+1)
	}
	if c.isFrequent(now.Add(frequentFor)) {
		t.Errorf("company is frequent %v after the last", frequentFor)
	}
}

// A program with one processor computes while its helper sleeps. A waiter that sleeps is the
// program itself.
func TestAHelperSleepsByTheRuntimeIfTheProgramHasNoOtherProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := new(Poller)
	idle.Enter() // a sleeper has polled until now
	defer idle.Leave()
	defer helpers.Store(helpers.Swap(2))
	if p.sleepsByRuntime(helper, 0) {
		t.Error("a helper sleeps by the runtime although waiters of another NIC may poll")
	}
	helpers.Store(1)
	if !p.sleepsByRuntime(helper, 0) {
		t.Error("a helper keeps the only processor of the program while it sleeps")
	}
	if p.sleepsByRuntime(waiter, 0) {
		t.Error("a waiter without company sleeps by the runtime")
	}
	runtime.GOMAXPROCS(16) // more than the pollers of other tests
	if p.sleepsByRuntime(helper, 0) {
		t.Error("a helper sleeps by the runtime although the program has other processors")
	}
}
