package sim

import (
	"context"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// epoch is the wall-clock time at which every fabric begins. It lies in the future. So if a
// context with a real deadline is derived from one of our contexts, its deadline is the earlier
// one, and realDeadline notices it.
var epoch = time.Date(2100, time.January, 1, 0, 0, 0, 0, time.UTC)

func wall(t clock.Time) time.Time { return epoch.Add(time.Duration(t)) }

// timed is a context with a deadline in virtual time. Users hold a visible:
//
//	parent ◄── timed ◄── a cancelCtx of package context ◄── visible ◄── contexts derived from it
//
// Package context must not start a goroutine for any of them, because the scheduler could not order
// it. It starts none: it reaches contexts derived from visible through the cancelCtx in visible,
// and it hooks the cancelCtx to timed by timed's AfterFunc method. A parent that can end and is not
// visible cannot call timed, so the scheduler checks such parents after every step.
type timed struct {
	context.Context // the parent
	s               *sched
	deadline        clock.Time
	real            bool // an ancestor has a real deadline, which virtual time never reaches
	done            chan struct{}
	err             error

	funcs   []*hook
	waiting []*task
}

type visible struct {
	context.Context
	*timed
}

type hook struct{ f func() }

type timedKey struct{}

func (s *sched) withDeadline(parent context.Context, at clock.Time) (context.Context, context.CancelFunc) {
	v := &timed{Context: parent, s: s, deadline: at, real: realDeadline(parent), done: make(chan struct{})}
	p := nearestTimed(parent)
	if p != nil {
		v.deadline = min(at, p.deadline)
	}
	direct, isDirect := parent.(visible)
	switch {
	case parent.Err() != nil:
		v.end(parent.Err())
	case at <= s.now: // if a parent has the same deadline, its own event ends it in another step
		v.end(context.DeadlineExceeded)
	case isDirect:
		direct.timed.AfterFunc(func() { v.end(direct.timed.err) })
	case parent.Done() != nil:
		s.lent = append(s.lent, v)
	}
	if v.err == nil && v.deadline < clock.Never {
		s.push(v.deadline, v, 0)
	}
	inner, cancel := context.WithCancel(v)
	return visible{inner, v}, func() { v.end(context.Canceled); cancel() }
}

// nearestTimed returns the innermost of our contexts among ctx and its ancestors, or nil.
func nearestTimed(ctx context.Context) *timed {
	v, _ := ctx.Value(timedKey{}).(*timed)
	return v
}

// realDeadline reports whether ctx or an ancestor has a deadline that virtual time never reaches.
func realDeadline(ctx context.Context) bool {
	v := nearestTimed(ctx)
	if v != nil && v.real {
		return true
	}
	at, ok := ctx.Deadline()
	if !ok {
		return false
	}
	return v == nil || v.deadline == clock.Never || !at.Equal(wall(v.deadline))
}

// happen ends the context at its deadline.
func (v *timed) happen(uint64) {
	v.end(context.DeadlineExceeded)
	v.s.lookAtForeign()
}

func (v *timed) end(err error) {
	if v.err != nil {
		return
	}
	v.err = err
	close(v.done)
	funcs := v.funcs
	v.funcs = nil
	for _, h := range funcs {
		h.f()
	}
	for _, t := range v.waiting {
		v.s.wake(t)
	}
}

// followParent ends the context if its parent has ended. Some parents cannot call us.
func (v *timed) followParent() {
	if v.err == nil {
		if err := v.Context.Err(); err != nil {
			v.end(err)
		}
	}
}

func (v *timed) Deadline() (time.Time, bool) {
	if v.deadline == clock.Never {
		return time.Time{}, false
	}
	return wall(v.deadline), true
}

func (v *timed) Done() <-chan struct{} { return v.done }

func (v *timed) Err() error {
	v.followParent()
	return v.err
}

func (v *timed) Value(key any) any {
	if key == (timedKey{}) {
		return v
	}
	return v.Context.Value(key)
}

// AfterFunc calls f in the step in which the context ends. Package context finds this method.
func (v *timed) AfterFunc(f func()) (stop func() bool) {
	if v.err != nil {
		f()
		return func() bool { return false }
	}
	h := &hook{f}
	v.funcs = append(v.funcs, h)
	return func() bool {
		i := slices.Index(v.funcs, h)
		if i < 0 {
			return false
		}
		v.funcs = slices.Delete(v.funcs, i, i+1)
		return true
	}
}

func (v visible) Deadline() (time.Time, bool) { return v.timed.Deadline() }
func (v visible) Done() <-chan struct{}       { return v.Context.Done() }
func (v visible) Value(key any) any           { return v.Context.Value(key) }

func (v visible) Err() error {
	v.followParent()
	return v.Context.Err()
}

// await parks t until a wake or the end of ctx.
func (t *task) await(ctx context.Context, why string) {
	t.ctx = ctx
	v := nearestTimed(ctx)
	if v != nil {
		v.waiting = append(v.waiting, t)
	}
	_, direct := ctx.(visible)
	foreign := !direct && ctx.Done() != nil
	if foreign {
		t.s.foreign = append(t.s.foreign, t)
	}
	defer func() {
		t.ctx = nil
		if v != nil {
			v.waiting = without(v.waiting, t)
		}
		if foreign {
			t.s.foreign = without(t.s.foreign, t)
		}
	}()
	t.park(why)
}

// without removes one task from a list, in order.
func without(list []*task, t *task) []*task {
	if i := slices.Index(list, t); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}
