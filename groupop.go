package weft

import (
	"context"

	"github.com/weftnet/weft/internal/proc"
)

// GroupOp is an operation of a group that was started and does not block its caller. The zero
// GroupOp is ready, and one that is done may be started again. It must not be copied.
//
// The start forms return at once. Until the operation is done, its memory belongs to it. ctx bounds
// the operation itself: if it ends before the operation has begun, the operation fails; if it ends
// later, this process leaves the group too, as with a call. An operation that is never waited for
// still runs.
//
// The operations of a group run one after the other, in the order in which they were started. Every
// member must start and call the same operations in the same order; one may call what another
// starts. A call waits until all operations that were started before are done.
//
// A process may have 64 operations of one group that were started and are not done; another fails
// with [ErrQueueFull] and leaves the group as it is. [Group.Close] and [Process.Close] end them.
type GroupOp struct{ o proc.GroupOp }

// Wait waits until the operation is done and returns its error. If ctx ends first, Wait returns
// ctx's error, and the operation goes on. Wait fails with [ErrBadArgument] if the GroupOp was never
// started.
func (o *GroupOp) Wait(ctx context.Context) error { return groupError(o.o.Wait(ctx)) }

// Test reports whether the operation is done and, if so, its error. It does not wait.
func (o *GroupOp) Test() (done bool, err error) {
	done, err = o.o.Test()
	return done, groupError(err)
}

// start starts an operation that a call does.
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
func (g *Group) StartGather(ctx context.Context, op *GroupOp, root int, part, all []byte) error {
	return g.start(ctx, op, "gather", func(ctx context.Context) error { return g.Gather(ctx, root, part, all) })
}

// StartAllGather starts [Group.AllGather].
func (g *Group) StartAllGather(ctx context.Context, op *GroupOp, part, all []byte) error {
	return g.start(ctx, op, "all-gather", func(ctx context.Context) error { return g.AllGather(ctx, part, all) })
}

// StartScatter starts [Group.Scatter].
func (g *Group) StartScatter(ctx context.Context, op *GroupOp, root int, all, part []byte) error {
	return g.start(ctx, op, "scatter", func(ctx context.Context) error { return g.Scatter(ctx, root, all, part) })
}

// StartAllToAll starts [Group.AllToAll].
func (g *Group) StartAllToAll(ctx context.Context, op *GroupOp, from, to []byte) error {
	return g.start(ctx, op, "all-to-all", func(ctx context.Context) error { return g.AllToAll(ctx, from, to) })
}

// StartGatherParts starts [Group.GatherParts].
func (g *Group) StartGatherParts(ctx context.Context, op *GroupOp, root int, part []byte, all [][]byte) error {
	return g.start(ctx, op, "gather", func(ctx context.Context) error { return g.GatherParts(ctx, root, part, all) })
}

// StartAllGatherParts starts [Group.AllGatherParts].
func (g *Group) StartAllGatherParts(ctx context.Context, op *GroupOp, part []byte, all [][]byte) error {
	return g.start(ctx, op, "all-gather", func(ctx context.Context) error { return g.AllGatherParts(ctx, part, all) })
}

// StartScatterParts starts [Group.ScatterParts].
func (g *Group) StartScatterParts(ctx context.Context, op *GroupOp, root int, all [][]byte, part []byte) error {
	return g.start(ctx, op, "scatter", func(ctx context.Context) error { return g.ScatterParts(ctx, root, all, part) })
}

// StartAllToAllParts starts [Group.AllToAllParts].
func (g *Group) StartAllToAllParts(ctx context.Context, op *GroupOp, from, to [][]byte) error {
	return g.start(ctx, op, "all-to-all", func(ctx context.Context) error { return g.AllToAllParts(ctx, from, to) })
}

// StartReduce starts [Reduce].
func StartReduce[T Element](ctx context.Context, g *Group, op *GroupOp, root int, o Operator, vector []T) error {
	return g.start(ctx, op, "reduce", func(ctx context.Context) error { return Reduce(ctx, g, root, o, vector) })
}

// StartAllReduce starts [AllReduce].
func StartAllReduce[T Element](ctx context.Context, g *Group, op *GroupOp, o Operator, vector []T) error {
	return g.start(ctx, op, "all-reduce", func(ctx context.Context) error { return AllReduce(ctx, g, o, vector) })
}

// StartReduceFunc starts [ReduceFunc]. combine runs in another goroutine.
func StartReduceFunc[T any](
	ctx context.Context, g *Group, op *GroupOp, root int, combine func(into, from []T), vector []T,
) error {
	return g.start(ctx, op, "reduce", func(ctx context.Context) error {
		return ReduceFunc(ctx, g, root, combine, vector)
	})
}

// StartAllReduceFunc starts [AllReduceFunc]. combine runs in another goroutine.
func StartAllReduceFunc[T any](
	ctx context.Context, g *Group, op *GroupOp, combine func(into, from []T), vector []T,
) error {
	return g.start(ctx, op, "all-reduce", func(ctx context.Context) error {
		return AllReduceFunc(ctx, g, combine, vector)
	})
}
