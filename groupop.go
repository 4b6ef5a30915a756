package weft

import (
	"context"

	"github.com/weftnet/weft/internal/proc"
)

// GroupOp is a group operation that runs without blocking its caller. Each method of [Group] and
// each function of this package with the name prefix Start begins a GroupOp and returns at once.
// The zero GroupOp is ready for use. A GroupOp that is done may be used for another operation. A
// GroupOp must not be copied.
//
// Until the operation is done, the program must not use the slices that it passed. The context that
// starts an operation also bounds the operation itself. If the context ends before the operation
// has begun, the operation fails when its turn comes. If the context ends later, the operation
// fails and this process leaves the group, as with a blocking call. The operation runs even if the
// program never waits for it.
//
// Starting a GroupOp that is not done fails with [ErrBadArgument], and its operation continues. If
// a start fails for another reason, Wait and Test return the same error.
//
// The operations of a group run one after another, in the order in which the process called or
// started them. Every member must call or start the same operations in the same order. For the same
// operation, one member may use the blocking call and another member the Start form. A blocking
// call first waits until all operations that the process started earlier are done.
//
// A process may have up to 64 unfinished operations in each group. If a process already has 64, a
// Start form fails with [ErrQueueFull] and does not affect the group. [Group.Close] and
// [Process.Close] end the unfinished operations.
type GroupOp struct{ o proc.GroupOp }

// Wait waits until the operation is done and returns its error. If ctx ends first, Wait returns
// ctx's error, and the operation continues. Wait fails with [ErrBadArgument] if the GroupOp was
// never started.
func (o *GroupOp) Wait(ctx context.Context) error { return groupError(o.o.Wait(ctx)) }

// Test reports whether the operation is done and, if it is, returns its error. Test does not wait.
// If the GroupOp was never started, Test returns true and [ErrBadArgument].
func (o *GroupOp) Test() (done bool, err error) {
	done, err = o.o.Test()
	return done, groupError(err)
}

// start starts the operation that call carries out.
func (g *Group) start(ctx context.Context, op *GroupOp, what string, call func(context.Context) error) error {
	return groupError(g.g.Start(ctx, &op.o, g.p.Runtime().Go, what, call))
}

// StartBarrier starts [Group.Barrier].
func (g *Group) StartBarrier(ctx context.Context, op *GroupOp) error {
	return g.start(ctx, op, "barrier", g.Barrier)
}

// StartBroadcast starts [Group.Broadcast].
func (g *Group) StartBroadcast(ctx context.Context, op *GroupOp, root int, buf []byte) error {
	return g.start(ctx, op, "broadcast", func(ctx context.Context) error { return g.Broadcast(ctx, root, buf) })
}

// StartGather starts [Group.Gather].
func (g *Group) StartGather(ctx context.Context, op *GroupOp, root int, send, recv []byte) error {
	return g.start(ctx, op, "gather", func(ctx context.Context) error { return g.Gather(ctx, root, send, recv) })
}

// StartAllGather starts [Group.AllGather].
func (g *Group) StartAllGather(ctx context.Context, op *GroupOp, send, recv []byte) error {
	return g.start(ctx, op, "all-gather", func(ctx context.Context) error { return g.AllGather(ctx, send, recv) })
}

// StartScatter starts [Group.Scatter].
func (g *Group) StartScatter(ctx context.Context, op *GroupOp, root int, send, recv []byte) error {
	return g.start(ctx, op, "scatter", func(ctx context.Context) error { return g.Scatter(ctx, root, send, recv) })
}

// StartAllToAll starts [Group.AllToAll].
func (g *Group) StartAllToAll(ctx context.Context, op *GroupOp, send, recv []byte) error {
	return g.start(ctx, op, "all-to-all", func(ctx context.Context) error { return g.AllToAll(ctx, send, recv) })
}

// StartGatherParts starts [Group.GatherParts].
func (g *Group) StartGatherParts(ctx context.Context, op *GroupOp, root int, send []byte, recv [][]byte) error {
	return g.start(ctx, op, "gather", func(ctx context.Context) error { return g.GatherParts(ctx, root, send, recv) })
}

// StartAllGatherParts starts [Group.AllGatherParts].
func (g *Group) StartAllGatherParts(ctx context.Context, op *GroupOp, send []byte, recv [][]byte) error {
	return g.start(ctx, op, "all-gather", func(ctx context.Context) error { return g.AllGatherParts(ctx, send, recv) })
}

// StartScatterParts starts [Group.ScatterParts].
func (g *Group) StartScatterParts(ctx context.Context, op *GroupOp, root int, send [][]byte, recv []byte) error {
	return g.start(ctx, op, "scatter", func(ctx context.Context) error { return g.ScatterParts(ctx, root, send, recv) })
}

// StartAllToAllParts starts [Group.AllToAllParts].
func (g *Group) StartAllToAllParts(ctx context.Context, op *GroupOp, send, recv [][]byte) error {
	return g.start(ctx, op, "all-to-all", func(ctx context.Context) error { return g.AllToAllParts(ctx, send, recv) })
}

// StartReduce starts [Reduce].
func StartReduce[T Element](ctx context.Context, g *Group, op *GroupOp, root int, o Operator, vector []T) error {
	return g.start(ctx, op, "reduce", func(ctx context.Context) error { return Reduce(ctx, g, root, o, vector) })
}

// StartAllReduce starts [AllReduce].
func StartAllReduce[T Element](ctx context.Context, g *Group, op *GroupOp, o Operator, vector []T) error {
	return g.start(ctx, op, "all-reduce", func(ctx context.Context) error { return AllReduce(ctx, g, o, vector) })
}

// StartReduceFunc starts [ReduceFunc]. The function combine runs in another goroutine.
func StartReduceFunc[T any](
	ctx context.Context, g *Group, op *GroupOp, root int, combine func(acc, vec []T), vector []T,
) error {
	return g.start(ctx, op, "reduce", func(ctx context.Context) error {
		return ReduceFunc(ctx, g, root, combine, vector)
	})
}

// StartAllReduceFunc starts [AllReduceFunc]. The function combine runs in another goroutine.
func StartAllReduceFunc[T any](
	ctx context.Context, g *Group, op *GroupOp, combine func(acc, vec []T), vector []T,
) error {
	return g.start(ctx, op, "all-reduce", func(ctx context.Context) error {
		return AllReduceFunc(ctx, g, combine, vector)
	})
}
