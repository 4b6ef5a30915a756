package poller

import (
	"context"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// dueEngine finds no work in most of its polls, but must be polled again at once, as if its next
// step were due already.
type dueEngine struct {
	*fakeEngine
	until int64 // it is done after so many polls
}

func (e *dueEngine) Poll(clock.Time) (work int, next clock.Time) {
	e.enter()
	defer e.leave()
	if e.polls.Add(1) < e.until {
		return 0, 0
	}
	return 0, clock.Never
}

func (e *dueEngine) done() bool { return e.polls.Load() >= e.until }

func TestAWaiterDoesNotSleepWhileTheEngineIsDue(t *testing.T) {
	e := &dueEngine{newFake(0), 1000}
	p := open(t, e, Config{Awake: 1}) // it would rather sleep each time
	within(t, "the wait", func() {
		if err := p.Wait(context.Background(), e.done); err != nil {
			t.Error(err)
		}
	})
}

func TestTheHelperDoesNotSleepWhileTheEngineIsDue(t *testing.T) {
	e := &dueEngine{newFake(0), 50}
	// As if another thread computed here: the helper parks.
	open(t, e, Config{yield: func() { time.Sleep(2 * wholeSlice) }})
	within(t, "the work", func() {
		for !e.done() {
			time.Sleep(time.Millisecond)
		}
	})
}

// wholeSlice is longer than a yield that no other thread takes up.
const wholeSlice = 2 * time.Millisecond
