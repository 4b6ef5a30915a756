package weft

import "context"

// GatherParts is like [Group.Gather], but the members may send slices of different lengths,
// including empty slices. At the root, recv has one slice for each rank, which must be as long as
// the slice send of the member with that rank. At the other members, recv is ignored. GatherParts
// transfers no padding.
//
// If a member's send differs in length from the root's slice for that member, the member fails with
// [ErrBadArgument] and leaves the group. Every other member, including the root, fails with
// [ErrGroupBroken] and the name of that member. If the root's own send does not fit its slice, or
// if recv does not have one slice for each member, the root fails with [ErrBadArgument] and leaves
// the group.
func (g *Group) GatherParts(ctx context.Context, root int, send []byte, recv [][]byte) error {
	return groupError(g.g.GatherParts(ctx, root, send, recv))
}

// AllGatherParts is like [Group.GatherParts], but it fills the slices of recv at every member. So
// every member must know the lengths of all parts. If the lengths in a member's recv differ from
// those of rank 0, that member fails with [ErrBadArgument] and leaves the group.
func (g *Group) AllGatherParts(ctx context.Context, send []byte, recv [][]byte) error {
	return groupError(g.g.AllGatherParts(ctx, send, recv))
}

// ScatterParts copies slice i of the root's send to the slice recv of the member with rank i. The
// root is the member with rank root. The slices may have different lengths. At the other members,
// send is ignored.
//
// If a member's recv differs in length from the root's slice for that member, the member fails with
// [ErrBadArgument] and leaves the group. Every other member, including the root, fails with
// [ErrGroupBroken] and the name of that member.
func (g *Group) ScatterParts(ctx context.Context, root int, send [][]byte, recv []byte) error {
	return groupError(g.g.ScatterParts(ctx, root, send, recv))
}

// AllToAllParts sends one part from every member to every member: it copies send[j] of member i to
// recv[i] of member j. These two slices must have the same length. Other pairs of members may use
// other lengths.
//
// If the slice of the sender differs in length from the slice of the receiver, the sender fails
// with [ErrBadArgument] and leaves the group. Every other member fails with [ErrGroupBroken] and
// the name of the sender.
func (g *Group) AllToAllParts(ctx context.Context, send, recv [][]byte) error {
	return groupError(g.g.AllToAllParts(ctx, send, recv))
}
