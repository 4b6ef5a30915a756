package proc

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/weftnet/weft/internal/limits"
)

// turns orders the operations of a group in this process. One operation has the turn. Started
// operations wait in the order in which they were started, and a waiting call has its place among
// them.
//
//	started: 1 2 3 ──► call ──► started: 4        a second call meanwhile fails
//	         │          └ its own goroutine
//	         └ a runner does one after the other; it ends when none is left,
//	           or when the call's turn comes
//
// A runner carries out an operation by its blocking call. That call knows from its context that
// it has the turn.
type turns struct {
	mu    sync.Mutex
	taken bool // an operation has the turn
	call  bool // a call has the turn, or waits for it
	left  int  // number of operations that were started and are not done
	queue []turn

	running *GroupOp           // the started operation that has the turn; nil if none has
	ctx     context.Context    // context of running, set when its runner has reached it
	cancel  context.CancelFunc // ends ctx

	spawn func(func()) // starts a runner; known after the first start
}

// turn is a waiting entry: a started operation, or the call with its gate.
type turn struct {
	op   *GroupOp
	gate Gate
}

var errGroupBusy = fmt.Errorf("%w: another call of the group is in flight in this process", ErrBadArgument)

// take takes the turn for a call, after all operations that were started before.
func (t *turns) take(ctx context.Context, p *Process) error {
	t.mu.Lock()
	if t.running != nil && t.ctx == ctx {
		t.mu.Unlock()
		return nil
	}
	if t.call {
		t.mu.Unlock()
		return errGroupBusy
	}
	t.call = true
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return nil
	}
	gate := p.opts.NewGate()
	t.queue = append(t.queue, turn{gate: gate})
	t.mu.Unlock()
	return t.await(ctx, gate)
}

// await waits for the turn of a call.
func (t *turns) await(ctx context.Context, gate Gate) error {
	err := gate.Wait(ctx)
	if err != nil && !t.withdraw() { // otherwise it has the turn by now
		t.pass()
	}
	return err
}

// withdraw removes the call from the queue. It returns false if the call is no longer in the
// queue.
func (t *turns) withdraw() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.queue, func(o turn) bool { return o.gate != nil })
	if i < 0 {
		return false
	}
	t.queue = slices.Delete(t.queue, i, i+1)
	t.call = false
	return true
}

// pass ends the turn of a call. It does nothing for a started operation, whose runner ends the
// turn.
func (t *turns) pass() {
	t.mu.Lock()
	if t.running != nil {
		t.mu.Unlock()
		return
	}
	t.call = false
	o, spawn := t.next(), t.spawn
	t.mu.Unlock()
	if o != nil {
		spawn(func() { t.run(o) })
	}
}

// next gives the turn to the first entry of the queue. If that is a started operation, next
// returns it for a runner. A call continues by itself. The caller holds mu.
func (t *turns) next() *GroupOp {
	if len(t.queue) == 0 {
		t.taken = false
		return nil
	}
	first := t.queue[0]
	t.queue = slices.Delete(t.queue, 0, 1)
	if first.gate != nil {
		first.gate.Open()
	}
	t.running = first.op
	return first.op
}

// start queues an operation behind all earlier ones. If there is no runner, spawn starts one.
func (t *turns) start(o *GroupOp, spawn func(func())) error {
	t.mu.Lock()
	if t.left == limits.GroupStarted {
		t.mu.Unlock()
		return fmt.Errorf("%w: %d operations of the group were started and are not done, which is the most",
			ErrQueueFull, limits.GroupStarted)
	}
	t.left++
	t.spawn = spawn
	first := !t.taken
	if first {
		t.taken, t.running = true, o
	} else {
		t.queue = append(t.queue, turn{op: o})
	}
	t.mu.Unlock()
	if first {
		spawn(func() { t.run(o) })
	}
	return nil
}

// run carries out started operations, one after the other, from o on.
func (t *turns) run(o *GroupOp) {
	for o != nil {
		o = t.runOne(o)
	}
}

// runOne carries out a started operation, and returns the operation whose turn is next. If a
// function of the program ends the runner's goroutine, another runner continues with that
// operation.
func (t *turns) runOne(o *GroupOp) (next *GroupOp) {
	ctx, cancel := context.WithCancel(o.ctx)
	t.mu.Lock()
	t.ctx, t.cancel = ctx, cancel
	if o.ended {
		cancel()
	}
	t.mu.Unlock()
	err, returned := error(nil), false
	defer func() {
		cancel()
		var spawn func(func())
		if next, spawn = t.over(o, err, returned); !returned && next != nil {
			spawn(func() { t.run(next) })
		}
	}()
	err = o.do(ctx)
	returned = true
	return
}

// over finishes a started operation, and passes the turn as next does. So a waiting call
// continues only when the operation is done.
func (t *turns) over(o *GroupOp, err error, returned bool) (next *GroupOp, spawn func(func())) {
	t.mu.Lock()
	if !returned || o.ended && err != nil {
		err = o.g.fail(o.what, Message{}, ErrNoGroup) // the process left the group
	}
	t.running, t.ctx, t.cancel = nil, nil, nil
	t.left--
	t.mu.Unlock()
	o.finish(err)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next(), t.spawn
}

// end ends all started operations, and takes the turn for a call. The operation that has the turn
// ends as if its context had ended. Operations that are started meanwhile come after that call.
// If another call is in flight, end does nothing, since a group with a call in flight is not
// closed.
func (t *turns) end(p *Process) error {
	t.mu.Lock()
	if t.call {
		t.mu.Unlock()
		return errGroupBusy
	}
	t.call = true
	queue := t.queue
	t.queue = nil
	t.left -= len(queue)
	if t.running != nil {
		t.running.ended = true
		if t.cancel != nil {
			t.cancel()
		}
	}
	var gate Gate
	if t.taken {
		gate = p.opts.NewGate()
		t.queue = append(t.queue, turn{gate: gate})
	}
	t.taken = true
	t.mu.Unlock()
	for _, w := range queue { // it has no call
		w.op.finish(w.op.g.fail(w.op.what, Message{}, ErrNoGroup))
	}
	if gate == nil {
		return nil
	}
	return t.await(context.Background(), gate)
}
