package weft

import "context"

// Barrier waits until every member has called it.
func (g *Group) Barrier(ctx context.Context) error { return groupError(g.g.Barrier(ctx)) }

// Broadcast copies the slice buf of the root, which is the member with rank root, to the slice buf
// of every other member. All these slices have the same length. At the root, Broadcast returns when
// the NIC of every member has the bytes. At any other member, Broadcast returns when the bytes are
// in buf.
//
// If a member's buf is shorter than the root's, that member fails with [ErrTruncated]. If a
// member's buf is longer than the root's, that member fails with [ErrGroupMismatch]. If the shorter
// of the two lengths is a multiple of 256 KiB other than 0, Broadcast may succeed at both. A later
// operation then fails with [ErrGroupMismatch], or copies bytes of this broadcast.
func (g *Group) Broadcast(ctx context.Context, root int, buf []byte) error {
	return groupError(g.g.Broadcast(ctx, root, buf))
}

// Gather copies the slice send of every member to the slice recv of the root, which is the member
// with rank root. All send slices have the same length; [Group.GatherParts] accepts different
// lengths. The root's recv holds the parts of all members in the order of their ranks. At the other
// members, recv is ignored.
//
// If a member's send differs in length from the root's, that member fails with [ErrBadArgument] and
// leaves the group. Every other member fails with [ErrGroupBroken] and the name of that member.
func (g *Group) Gather(ctx context.Context, root int, send, recv []byte) error {
	return groupError(g.g.Gather(ctx, root, send, recv))
}

// AllGather is like [Group.Gather], but it fills the slice recv of every member. If a member's send
// differs in length from that of rank 0, the member fails as in Gather.
func (g *Group) AllGather(ctx context.Context, send, recv []byte) error {
	return groupError(g.g.AllGather(ctx, send, recv))
}

// Scatter cuts the slice send of the root, which is the member with rank root, into equal parts,
// one for each member. It copies each part to the slice recv of its member, in the order of ranks.
// At the other members, send is ignored.
//
// If a member's recv differs in length from the root's, that member fails with [ErrBadArgument] and
// leaves the group. Every other member fails with [ErrGroupBroken] and the name of that member.
func (g *Group) Scatter(ctx context.Context, root int, send, recv []byte) error {
	return groupError(g.g.Scatter(ctx, root, send, recv))
}

// AllToAll sends one part from every member to every member. The slices send and recv hold one part
// for each member, in the order of ranks, and all parts have the same length. Part j of send at
// member i becomes part i of recv at member j.
//
// If members have parts of different lengths, each of them may fail with [ErrBadArgument] and leave
// the group. Every other member fails with [ErrGroupBroken] and the name of a member that left.
func (g *Group) AllToAll(ctx context.Context, send, recv []byte) error {
	return groupError(g.g.AllToAll(ctx, send, recv))
}
