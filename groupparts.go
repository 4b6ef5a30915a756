package weft

import "context"

// GatherParts is like [Group.Gather], but the members may send slices of different lengths,
// including empty slices. At the root, recv has one slice for each rank. Each slice must be as long
// as the send of the member with that rank. At every other member, recv is ignored. GatherParts
// transfers no padding.
//
// If a member's send differs in length from the root's slice for that member, that member fails
// with [ErrBadArgument] and leaves the group. Every other member, including the root, fails with
// [ErrGroupBroken] and the name of that member. The root fails with [ErrBadArgument] and leaves
// the group if recv does not have one slice for each member, or if the root's slice in recv is
// not as long as the root's own argument send.
func (g *Group) GatherParts(ctx context.Context, root int, send []byte, recv [][]byte) error {
	return groupError(g.g.GatherParts(ctx, root, send, recv))
}

// AllGatherParts is like [Group.GatherParts], but every member gets the parts in the slices of
// recv. So every member must know the lengths of all parts. If the slices in a member's recv differ
// in length from the slices in the recv of rank 0, that member fails with [ErrBadArgument] and
// leaves the group.
func (g *Group) AllGatherParts(ctx context.Context, send []byte, recv [][]byte) error {
	return groupError(g.g.AllGatherParts(ctx, send, recv))
}

// ScatterParts copies the root's send[i] to the recv of the member with rank i. The argument root
// is the rank of the root. The slices in send may have different lengths. At every other member,
// send is ignored.
//
// If a member's recv differs in length from the root's slice for that member, that member fails
// with [ErrBadArgument] and leaves the group. Every other member, including the root, fails with
// [ErrGroupBroken] and the name of that member.
func (g *Group) ScatterParts(ctx context.Context, root int, send [][]byte, recv []byte) error {
	return groupError(g.g.ScatterParts(ctx, root, send, recv))
}

// AllToAllParts sends one part from every member to every member: it copies send[j] of member i to
// recv[i] of member j. The slices send[j] of member i and recv[i] of member j must have the same
// length. Each pair of members may use a different length.
//
// If send[j] of member i and recv[i] of member j differ in length, member i fails with
// [ErrBadArgument] and leaves the group. Every other member fails with [ErrGroupBroken] and the
// name of member i.
func (g *Group) AllToAllParts(ctx context.Context, send, recv [][]byte) error {
	return groupError(g.g.AllToAllParts(ctx, send, recv))
}
