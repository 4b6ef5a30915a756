package proc

import (
	"context"
	"fmt"
	"sync/atomic"
)

// GroupOp is a started operation of a group. The zero value is ready for use, and so is one that
// is done.
//
//	Start ──► waits for its turn ──► has the turn ──► done
type GroupOp struct {
	state atomic.Int32 // a single word, so a waiter that sees it done may start it again

	g     *Group
	ctx   context.Context
	what  string
	do    func(context.Context) error
	ended bool // under turns.mu: the group was closed
	err   error
	gate  Gate // for a waiter; open once the operation is done
}

// The states of a GroupOp.
const (
	opNew int32 = iota
	opStarted
	opDone // err is set
)

// Start starts an operation of a group. When its turn comes, do carries it out, in a function
// that spawn starts. do gets a context that ends with ctx, and calls one operation of g with it.
// ErrQueueFull: limits.GroupStarted operations of the group are already started. If a start
// fails, o ends with its error, unless o was in flight.
func (g *Group) Start(ctx context.Context, o *GroupOp, spawn func(func()), what string,
	do func(context.Context) error) error {
	if o.state.Swap(opStarted) == opStarted {
		return g.fail(what, Message{}, errOpBusy)
	}
	if o.g == nil || o.g.p != g.p {
		o.gate = g.p.opts.NewGate()
	}
	o.g, o.ctx, o.what, o.do, o.ended, o.err = g, ctx, what, do, false, nil
	err := ctx.Err()
	switch {
	case err != nil:
	case g.p.closed.Load():
		err = ErrClosed
	default:
		err = g.turns.start(o, spawn)
	}
	if err != nil {
		err = g.fail(what, Message{}, err)
		o.finish(err)
		return err
	}
	return nil
}

var errOpBusy = fmt.Errorf("%w: the GroupOp was started before, and is not done", ErrBadArgument)

// finish records the result of the operation.
func (o *GroupOp) finish(err error) {
	o.err, o.ctx, o.do = err, nil, nil
	gate := o.gate
	o.state.Store(opDone)
	gate.Open()
}

// Wait waits until the operation is done, and returns its result. If ctx ends first, Wait returns
// ctx's error, and the operation goes on.
func (o *GroupOp) Wait(ctx context.Context) error {
	if o.state.Load() == opNew {
		return errNoGroupOp("wait")
	}
	for o.state.Load() != opDone {
		if err := o.gate.Wait(ctx); err != nil && o.state.Load() != opDone {
			return o.g.fail(o.what, Message{}, err)
		}
	}
	o.gate.Open() // for other waiters
	return o.err
}

// Test reports whether the operation is done, and its result.
func (o *GroupOp) Test() (done bool, err error) {
	switch o.state.Load() {
	case opNew:
		return true, errNoGroupOp("test")
	case opStarted:
		return false, nil
	}
	return true, o.err
}

func errNoGroupOp(what string) error {
	return &OpError{Op: what, Err: fmt.Errorf("%w: a GroupOp that no start form has started", ErrBadArgument)}
}
