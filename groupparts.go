package weft

import "context"

// GatherParts copies part of every member to the member with rank root. Parts may have different
// lengths, 0 included: all of the root has one slice for each rank, as long as the part of that
// member. The other members' all is ignored. Only the bytes of the parts travel.
//
// If a member's part has another length than the root's slice for it, that member fails with
// [ErrBadArgument] and leaves the group. Every other member, the root included, fails with
// [ErrGroupBroken] and the name of that member. If the root's own part does not fit its slice, or
// if all does not have one slice for each member, the root fails with [ErrBadArgument] and leaves
// the group.
func (g *Group) GatherParts(ctx context.Context, root int, part []byte, all [][]byte) error {
	return groupError(g.g.GatherParts(ctx, root, part, all))
}

// AllGatherParts is GatherParts that fills all of every member. Every member gives the lengths of
// all parts. One that gives others than rank 0 fails with [ErrBadArgument] and leaves the group.
func (g *Group) AllGatherParts(ctx context.Context, part []byte, all [][]byte) error {
	return groupError(g.g.AllGatherParts(ctx, part, all))
}

// ScatterParts copies slice i of the root's all to part of the member with rank i. The slices may
// have different lengths. The other members' all is ignored. A part whose length differs from that
// of the root's slice fails as in GatherParts.
func (g *Group) ScatterParts(ctx context.Context, root int, all [][]byte, part []byte) error {
	return groupError(g.g.ScatterParts(ctx, root, all, part))
}

// AllToAllParts copies from[j] of every member i to to[i] of member j, which has the same length.
// Each pair of members may have another length. The member that sends a part of another length than
// its receiver expects fails with [ErrBadArgument] and leaves the group; every other member fails
// with [ErrGroupBroken] and its name.
func (g *Group) AllToAllParts(ctx context.Context, from, to [][]byte) error {
	return groupError(g.g.AllToAllParts(ctx, from, to))
}
