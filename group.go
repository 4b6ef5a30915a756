package weft

import (
	"context"
	"fmt"

	"github.com/weftnet/weft/internal/proc"
)

// Group is a process's membership in a group: a set of processes that work together. A process may
// be in up to 64 groups.
//
// The operations of a group are collective: every member calls the same operations in the same
// order, with matching arguments. The NICs carry out barriers, broadcasts and short reductions
// among themselves. The NICs wake a process only when its operation is done.
//
// # Failures
//
// If a member leaves or ends, every operation that this member has not completed fails at the other
// members with [ErrGroupBroken]. [GroupError.Dead] holds the name of the member that left or ended.
// All later operations of the group fail too. [Group.Shrink] makes a new group of the remaining
// members.
//
// If a process cannot take part in an operation, the process leaves the group, so that the other
// members do not wait for it. A process leaves the group in three cases: its arguments do not fit
// ([ErrBadArgument]), it lacks memory ([ErrNoMemory]), or the context of the operation ends after
// the operation has begun. If the context ends before the operation has begun, the operation fails,
// but the process stays in the group.
//
// If members call different operations, give different roots, or reduce vectors with different
// lengths, element types or operators, the operation fails at every member with
// [ErrGroupMismatch]. All later operations fail with the same error, until the members call
// [Group.Shrink]. [Group.Broadcast] and [Reduce] describe the different lengths that only a later
// operation detects. One mismatch ends only with the contexts: the root is in a reduction and
// waits for a member that is itself waiting in a broadcast. A broadcast is also the first step of
// every operation that gathers or scatters.
//
// A group accepts no new members. To replace a member that has ended, the remaining members close
// the group. Then these members and the new process join the group again. If the new process joins
// before the remaining members have closed the group, the new process waits for these members.
//
// # Order
//
// Within one process, the operations of a group run one after another, in the order in which the
// process called or started them; see [GroupOp]. A blocking call first waits for the operations
// that the process started earlier. If one goroutine is already in a call of the group, a call of
// that group from another goroutine fails with [ErrBadArgument] and does nothing. Operations of
// different groups are independent.
type Group struct {
	g *proc.Group
	p *Process
}

// GroupError is the error of a group operation. It holds the operation, the group and the reason.
type GroupError struct {
	Op    string // such as "join", "barrier" or "all-reduce"
	Group string // the group's name
	Dead  Name   // the member that left or ended; AnyProcess if no member did
	Err   error  // the reason
}

// Error returns the error as text.
func (e *GroupError) Error() string {
	s := "weft: " + e.Op + " in group " + e.Group + ": "
	if e.Dead != AnyProcess {
		s += e.Dead.String() + " has left or ended: "
	}
	return s + e.Err.Error()
}

// Unwrap returns the reason.
func (e *GroupError) Unwrap() error { return e.Err }

// groupError converts an error of a group in package proc to a *GroupError.
func groupError(err error) error {
	if e, ok := err.(*proc.GroupError); ok {
		return &GroupError{Op: e.Op, Group: e.Group, Dead: nameOf(e.Dead), Err: e.Err}
	}
	return err
}

// newGroup returns the public forms of a group and of an error. If g is nil, the group is nil.
func newGroup(p *Process, g *proc.Group, err error) (*Group, error) {
	if g == nil {
		return nil, groupError(err)
	}
	return &Group{g, p}, groupError(err)
}

// Join adds this process to a group, and waits until all members have joined. The argument size is
// the number of members, 1 to 4096. The name of a group has 1 to 24 bytes: a–z, 0–9, '.', '_' and
// '-'. By convention, the group of all processes of an application has the application's name.
//
// The group does not know which processes will join, so Join waits until the group is complete or
// ctx ends. Join fails with [ErrGroupSize] if other members gave a different size, or if the group
// is full. It fails with [ErrGroupJoined] if this process is already in the group, and with
// [ErrNoMemory] if this process is already in 64 groups. A failed Join does not affect the other
// members.
func (p *Process) Join(ctx context.Context, group string, size int) (*Group, error) {
	g, err := p.p.Join(ctx, group, size)
	joined, err := newGroup(p, g, err)
	return joined, p.alone(err)
}

// Name returns the group's name. If [Group.Split] made the group, the name shows the origin of the
// group: "solvers/1.3" is the group of color 3 from the first split of "solvers".
func (g *Group) Name() string { return g.g.Name() }

// String returns the group's name, its epoch, this process's rank and the group's size, as in
// "solvers (epoch 0, rank 2 of 8)".
func (g *Group) String() string {
	if g.g == nil {
		return "no group"
	}
	return fmt.Sprintf("%s (epoch %d, rank %d of %d)", g.Name(), g.Epoch(), g.Rank(), g.Size())
}

// Epoch returns the epoch of the group. The epoch is 0 at first, and each [Group.Shrink] increases
// the epoch.
func (g *Group) Epoch() int { return g.g.Epoch() }

// Rank returns this process's rank, 0 to Size−1. The ranks follow the order of the members' names.
func (g *Group) Rank() int { return g.g.Rank() }

// Size returns the number of members.
func (g *Group) Size() int { return g.g.Size() }

// Member returns the name of the member with the given rank, 0 to Size−1.
func (g *Group) Member(rank int) Name { return nameOf(g.g.Member(rank).Name) }

// Shrink makes a new group of the remaining members, and closes this group. The new group has the
// same name and a later epoch. Every remaining member must call Shrink. Shrink returns when the
// remaining members agree on the list of remaining members.
//
// If one more member leaves or ends during Shrink, the others agree on a new list in a later
// epoch. At some members, Shrink may have returned before. The group that it returned there is
// broken: its operations fail with [ErrGroupBroken]. When these members call Shrink of that
// group, they come into one group with the members whose Shrink has not returned. So a member
// that calls Shrink after each [ErrGroupBroken] waits for every remaining member, and is never
// left behind.
//
// If ctx ends, Shrink fails with its error, and the process stays in the old group. A process has
// at most 128 memberships. This number includes memberships that an unfinished shrink still
// holds. Beyond that, Shrink fails with [ErrNoMemory].
func (g *Group) Shrink(ctx context.Context) (*Group, error) {
	n, err := g.g.Shrink(ctx)
	shrunk, err := newGroup(g.p, n, err)
	if shrunk != nil {
		g.p.world.CompareAndSwap(g, shrunk)
	}
	return shrunk, err
}

// Split divides the members into new groups. All members that give the same color form one new
// group. Every member must call Split. Split returns when all the new groups have formed. A member
// that gives a negative color is in no new group. At such a member, Split returns nil and no error.
// The old group stays open. If the old group is closed later, the new groups stay open.
//
// If a member leaves or ends before all the new groups have formed, Split fails at the other
// members with [ErrGroupBroken]. Then these members leave their new groups. If Split has already
// returned at a member, the new group of that member is broken. If a process is already in 64
// groups, its Split fails with [ErrNoMemory], and the process leaves the old group.
func (g *Group) Split(ctx context.Context, color int) (*Group, error) {
	n, err := g.g.Split(ctx, color)
	return newGroup(g.p, n, err)
}

// Close leaves the group. Every operation that this process completed before Close also completes
// at the other members. Every operation that it did not complete fails there. Operations that this
// process has started but that are not done fail with [ErrNoGroup]. If a call of the group is in
// flight, Close fails with [ErrBadArgument].
func (g *Group) Close() error {
	g.p.world.CompareAndSwap(g, nil)
	return groupError(g.g.Close())
}

// bad fails an operation that has bad arguments. The process leaves the group.
func (g *Group) bad(ctx context.Context, op, what string) error {
	return groupError(g.g.Refuse(ctx, op, fmt.Errorf("%w: %s", ErrBadArgument, what)))
}
