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
// members with [ErrGroupBroken]. [GroupError].Dead holds the name of that member. All later
// operations fail too. [Group.Shrink] makes a new group of the remaining members.
//
// If a process cannot take part in an operation, it leaves the group, because the other members
// would wait for it. A process leaves if its arguments do not fit ([ErrBadArgument]), if it lacks
// memory ([ErrNoMemory]), or if the context of the operation ends after the operation has begun. If
// the context ends before the operation has begun, the operation fails, but the process stays in
// the group.
//
// If members call different operations, give different roots, or reduce vectors with different
// lengths, element types or operators, the operation fails at every member with [ErrGroupMismatch].
// All later operations fail with the same error, until the members call [Group.Shrink].
// [Group.Broadcast] and [Reduce] describe the different lengths that only a later operation
// detects. If a member waits for a broadcast, and the root waits for this member in a reduction,
// both wait until their contexts end. A broadcast is also the first step of every operation that
// gathers or scatters.
//
// A group accepts no new members. To replace a member that has ended, the remaining members close
// the group. Then these members and the new process join it again. If the new process joins before
// the others have closed the group, it waits for them.
//
// # Order
//
// Within one process, the operations of a group run one after another, in the order in which the
// process called or started them; see [GroupOp]. A call waits for the operations that the process
// started before it. If another goroutine is already in a call of the same group, a second call
// fails with [ErrBadArgument] and does nothing. Operations of different groups are independent.
type Group struct {
	g *proc.Group
	p *Process
}

// GroupError is the error of a group operation. It holds the operation, the group and the reason.
type GroupError struct {
	Op    string // such as "join", "barrier" or "all-reduce"
	Group string // the group's name
	Dead  Name   // the member that left or ended; AnyProcess if the reason is a different one
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

// Name returns the group's name. The name of a group that [Group.Split] made shows its origin:
// "solvers/1.3" is the group of color 3 from the first split of "solvers".
func (g *Group) Name() string { return g.g.Name() }

// String returns the group's name, its epoch, this process's rank and the group's size, as in
// "solvers (epoch 0, rank 2 of 8)".
func (g *Group) String() string {
	if g.g == nil {
		return "no group"
	}
	return fmt.Sprintf("%s (epoch %d, rank %d of %d)", g.Name(), g.Epoch(), g.Rank(), g.Size())
}

// Epoch returns the epoch of the group. It is 0 at first, and each [Group.Shrink] increases it.
func (g *Group) Epoch() int { return g.g.Epoch() }

// Rank returns this process's rank, 0 to Size−1. The ranks follow the order of the members' names.
func (g *Group) Rank() int { return g.g.Rank() }

// Size returns the number of members.
func (g *Group) Size() int { return g.g.Size() }

// Member returns the name of the member with the given rank, 0 to Size−1.
func (g *Group) Member(rank int) Name { return nameOf(g.g.Member(rank).Name) }

// Shrink makes a new group of the remaining members, and closes this group. The new group has the
// same name and a later epoch. Every remaining member must call Shrink. Shrink returns when these
// members agree on who remains.
func (g *Group) Shrink(ctx context.Context) (*Group, error) {
	n, err := g.g.Shrink(ctx)
	return newGroup(g.p, n, err)
}

// Split divides the members into new groups: all members that give the same color form one new
// group. Every member must call Split. Split returns when all the new groups have formed. A member
// that gives a negative color is in no new group; for it, Split returns nil and no error. This
// group stays open. If it is closed later, the new groups stay open.
//
// If a member leaves or ends before all the new groups have formed, Split fails at the other
// members with [ErrGroupBroken], and these members leave their new groups. If Split has already
// returned at a member, the new group of that member is broken. If a process is already in 64
// groups, its Split fails with [ErrNoMemory], and the process leaves this group.
func (g *Group) Split(ctx context.Context, color int) (*Group, error) {
	n, err := g.g.Split(ctx, color)
	return newGroup(g.p, n, err)
}

// Close leaves the group. If this process has completed an operation, the operation completes at
// the other members too. All other operations fail at the other members. An operation that this
// process has started, and that is not done, fails with [ErrNoGroup]. If a call of the group is in
// flight, Close fails with [ErrBadArgument].
func (g *Group) Close() error { return groupError(g.g.Close()) }

// bad fails an operation that has bad arguments. The process leaves the group.
func (g *Group) bad(ctx context.Context, op, what string) error {
	return groupError(g.g.Refuse(ctx, op, fmt.Errorf("%w: %s", ErrBadArgument, what)))
}
