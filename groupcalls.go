package weft

import "context"

// Barrier waits until every member has called or started the same barrier.
func (g *Group) Barrier(ctx context.Context) error { return groupError(g.g.Barrier(ctx)) }

// Broadcast copies the bytes in the root's buf to the buf of every other member. The argument root
// is the rank of the root. The buf of every member has the same length. At the root, Broadcast
// returns when the NIC of every member has the bytes. At any other member, Broadcast returns when
// the bytes are in buf.
//
// If a member's buf is shorter than the root's, that member fails with [ErrTruncated]. If a
// member's buf is longer than the root's, that member fails with [ErrGroupMismatch]. If the shorter
// of the two lengths is a multiple of 256 KiB other than 0, Broadcast may succeed at both. A later
// operation then fails with [ErrGroupMismatch], or copies bytes of this broadcast.
func (g *Group) Broadcast(ctx context.Context, root int, buf []byte) error {
	return groupError(g.g.Broadcast(ctx, root, buf))
}

// Gather copies the send of every member to the root's recv. The argument root is the rank of the
// root. The send of every member has the same length; [Group.GatherParts] accepts different
// lengths. The root's recv gets the parts of all members in the order of ranks. At every other
// member, recv is ignored.
//
// If a member's send differs in length from the root's send, that member fails with
// [ErrBadArgument] and leaves the group. Every other member fails with [ErrGroupBroken] and the
// name of that member.
func (g *Group) Gather(ctx context.Context, root int, send, recv []byte) error {
	return groupError(g.g.Gather(ctx, root, send, recv))
}

// AllGather is like [Group.Gather], but every member gets the parts in recv. If a member's send
// differs in length from the send of rank 0, that member fails with [ErrBadArgument] and leaves the
// group. Every other member fails with [ErrGroupBroken] and the name of that member.
func (g *Group) AllGather(ctx context.Context, send, recv []byte) error {
	return groupError(g.g.AllGather(ctx, send, recv))
}

// Scatter cuts the root's send into equal parts, one for each member. In the order of ranks, each
// member gets one part in recv. The argument root is the rank of the root. At every other member,
// send is ignored.
//
// If a member's recv differs in length from the root's recv, that member fails with
// [ErrBadArgument] and leaves the group. Every other member fails with [ErrGroupBroken] and the
// name of that member.
func (g *Group) Scatter(ctx context.Context, root int, send, recv []byte) error {
	return groupError(g.g.Scatter(ctx, root, send, recv))
}

// AllToAll sends one part from every member to every member. Both send and recv hold one part for
// each member, in the order of ranks. All parts have the same length. Part j of send at member i
// becomes part i of recv at member j.
//
// If the part length of some members differs from that of others, any of these members may fail
// with [ErrBadArgument] and leave the group. Every other member fails with [ErrGroupBroken] and
// the name of a member that left.
func (g *Group) AllToAll(ctx context.Context, send, recv []byte) error {
	return groupError(g.g.AllToAll(ctx, send, recv))
}
