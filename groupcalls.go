package weft

import "context"

// Barrier returns when every member has called it.
func (g *Group) Barrier(ctx context.Context) error { return groupError(g.g.Barrier(ctx)) }

// Broadcast copies buf of the member with rank root into buf of every other member. All have the
// same length. At the root it returns when the NIC of every member has the bytes, elsewhere when
// they are in buf. A member whose buf is shorter than the root's fails with [ErrTruncated], and one
// whose buf is longer with [ErrGroupMismatch].
func (g *Group) Broadcast(ctx context.Context, root int, buf []byte) error {
	return groupError(g.g.Broadcast(ctx, root, buf))
}

// Gather copies part of every member to the member with rank root. All parts have the same length;
// [Group.GatherParts] takes others. The root's all holds the parts in the order of ranks. The other
// members' all is ignored.
//
// A member whose part has another length than the root's fails with [ErrBadArgument] and leaves the
// group. The others fail with [ErrGroupBroken] and its name.
func (g *Group) Gather(ctx context.Context, root int, part, all []byte) error {
	return groupError(g.g.Gather(ctx, root, part, all))
}

// AllGather is Gather that fills all of every member.
func (g *Group) AllGather(ctx context.Context, part, all []byte) error {
	return groupError(g.g.AllGather(ctx, part, all))
}

// Scatter cuts all of the member with rank root into equal parts, and copies to each member the
// part of its rank. The other members' all is ignored. Lengths that do not fit fail as those of
// Gather do.
func (g *Group) Scatter(ctx context.Context, root int, all, part []byte) error {
	return groupError(g.g.Scatter(ctx, root, all, part))
}

// AllToAll copies part j of every member i to part i of member j. from and to have one part for
// each member, all of the same length. Lengths that do not fit fail as those of Gather do.
func (g *Group) AllToAll(ctx context.Context, from, to []byte) error {
	return groupError(g.g.AllToAll(ctx, from, to))
}
