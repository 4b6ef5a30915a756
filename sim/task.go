package sim

import (
	"context"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// task is a function that runs as a coroutine of the scheduler. It is ordinary blocking code. One
// task runs at a time.
//
//	 spawn        resume            return
//	──────► ready ──────► running ──────────► over
//	          ▲              │ park
//	          └── wake ── parked ── unwind (killed, or the run has ended)
type task struct {
	s    *sched
	name string
	// owner is the process that the coroutine belongs to. The scheduler only compares it, and
	// asks whether it is paused.
	owner any

	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool

	turn   uint64 // counts parks: an event of an earlier one is stale
	begun  bool
	parked bool
	woken  bool // a resumption of this park is in the queue
	dead   bool // unwinds at its next park
	over   bool

	why   string     // the reason of the present park, for the report of a run that does not end
	since clock.Time // the beginning of that park
	ctx   context.Context
	err   error
	done  func(*task)
}

// unwound is the value of the panic by which park ends a task. The task's deferred calls run.
type unwound struct{}

// spawn makes a task that starts within wakeUpTime. The scheduler calls done after the task has
// ended.
func (s *sched) spawn(owner any, name string, fn func() error, done func(*task)) *task {
	t := &task{s: s, name: name, owner: owner, done: done, parked: true, why: "its start", since: s.now}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		t.err = t.guard(fn)
	})
	s.wake(t)
	return t
}

// guard runs fn. It turns a panic into an error with the stack.
func (t *task) guard(fn func() error) (err error) {
	defer func() {
		switch r := recover(); r.(type) {
		case nil:
		case unwound:
			err = nil
		default:
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return fn()
}

// happen resumes the task, if turn is the number of its present park.
func (t *task) happen(turn uint64) {
	if t.over || !t.parked || turn != t.turn {
		return
	}
	if at := t.pausedUntil(); at > t.s.now && !t.dead {
		t.s.push(at, t, turn)
		return
	}
	t.parked, t.woken = false, false
	t.s.note(t.turn<<8 ^ uint64(t.s.now))
	if t.dead && !t.begun {
		t.stop()
	}
	t.begun = true
	before := t.s.current
	t.s.current = t
	_, more := t.next()
	t.s.current = before
	if !more {
		t.over = true
		if t.done != nil {
			t.done(t)
		}
	}
	t.s.lookAtForeign()
}

// pausedUntil returns the end of the pause of the task's process. Without a pause, the end is in
// the past.
func (t *task) pausedUntil() clock.Time {
	if p, ok := t.owner.(*Process); ok {
		return p.paused
	}
	return 0
}

// wake resumes a parked task after a drawn time below wakeUpTime, so tasks that are woken together
// run in any order.
func (s *sched) wake(t *task) {
	if t.parked && !t.woken && !t.over {
		t.woken = true
		s.after(s.jitter(wakeUpTime), t, t.turn)
	}
}

// resume resumes a parked task now, before NICs whose turns are due later.
func (s *sched) resume(t *task) {
	if t.parked && !t.woken && !t.over {
		t.woken = true
		s.after(0, t, t.turn)
	}
}

// park returns control to the scheduler until a wake. Only the task itself may call it.
func (t *task) park(why string) {
	t.mustRun()
	t.why, t.since = why, t.s.now
	t.parked = true
	if t.dead || !t.yield(struct{}{}) || t.dead {
		t.parked, t.dead = false, true
		panic(unwound{})
	}
	t.turn++
}

// sleep parks for d. Only kill and abandon end it early.
func (t *task) sleep(d time.Duration) {
	t.mustRun()
	t.woken = true // the timer is this park's only resumption
	t.s.after(max(d, 0), t, t.turn)
	t.park("sleep")
}

// mustRun panics if the task is not the running one: blocking code was called outside its
// coroutine.
func (t *task) mustRun() {
	if t.s.current != t {
		panic(fmt.Sprintf("sim: %s blocks outside its coroutine; "+
			"start functions with Process.Start or Runtime().Go", t.name))
	}
}

// kill ends a task: in this instant if it is parked, else at its next park.
func (s *sched) kill(t *task) {
	t.dead = true
	if t.parked && !t.over {
		t.woken = true
		s.after(0, t, t.turn)
	}
}

// abandon unwinds a task after the run.
func (s *sched) abandon(t *task) {
	if t.over {
		return
	}
	t.dead, t.over, t.parked = true, true, false
	before := s.current
	s.current = t
	t.stop()
	s.current = before
}

// lookAtForeign wakes the tasks whose contexts the standard library ended during the last step. Our
// own contexts wake their waiters themselves.
func (s *sched) lookAtForeign() {
	for _, v := range s.lent {
		v.followParent()
	}
	s.lent = slices.DeleteFunc(s.lent, func(v *timed) bool { return v.err != nil })
	for _, t := range s.foreign {
		if t.ctx.Err() != nil {
			s.wake(t)
		}
	}
}
