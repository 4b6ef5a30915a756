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
// order, with arguments that fit each other. The NICs carry them out and wake no process in
// between.
//
// # Failures
//
// If a member leaves or ends, the operations that it has not completed fail at every other member
// with [ErrGroupBroken], and [GroupError].Dead names it. All later operations fail too.
// [Group.Shrink] makes the same group without that member.
//
// A member that cannot take part leaves the group, since the others would wait for it. It leaves if
// the context of an operation ends after the operation has begun, if its arguments do not fit
// ([ErrBadArgument]), or if it lacks memory ([ErrNoMemory]). If the context has ended before the
// operation begins, the operation fails and the process stays in the group.
//
// If members call different operations, name different roots, or reduce vectors of different
// lengths, types or operators, the operation fails at all of them with [ErrGroupMismatch]. So do
// all later operations until Shrink.
//
// A group takes no new members. To replace a member that has ended, the others close the group, and
// all join it again. A process that joins early waits for them.
//
// # Order
//
// In one process the operations of a group run one after the other, in the order in which they were
// called or started; see [GroupOp]. A call waits for the operations that were started before it. A
// second call at the same time fails with [ErrBadArgument] and does nothing. Operations of
// different groups are independent.
type Group struct {
	g *proc.Group
	p *Process
}

// GroupError says which operation of which group failed, and why.
type GroupError struct {
	Op    string // such as "join", "barrier" or "all-reduce"
	Group string // the group's name
	Dead  Name   // the member that has left or ended; AnyProcess if the reason is another
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

// groupError gives an error of a group its public form.
func groupError(err error) error {
	if e, ok := err.(*proc.GroupError); ok {
		return &GroupError{Op: e.Op, Group: e.Group, Dead: nameOf(e.Dead), Err: e.Err}
	}
	return err
}

// newGroup returns the public form of a group that an operation has made, if it has made one.
func newGroup(p *Process, g *proc.Group, err error) (*Group, error) {
	if g == nil {
		return nil, groupError(err)
	}
	return &Group{g, p}, groupError(err)
}

// Join makes this process a member of a group of size members, 1 to 4096, and waits until all have
// joined. A group's name has 1 to 24 bytes of a–z, 0–9, '.', '_' and '-'. By convention, the group
// of all processes of an application has the application's name.
//
// The group does not know who will join, so Join waits until all are there or ctx ends. It fails
// with [ErrGroupSize] if other members expect another size or the group is full, with
// [ErrGroupJoined] if this process is in the group already, and with [ErrNoMemory] if it is in 64
// groups. A failed Join does not disturb the other members.
func (p *Process) Join(ctx context.Context, group string, size int) (*Group, error) {
	g, err := p.p.Join(ctx, group, size)
	return newGroup(p, g, err)
}

// Name returns the group's name. The name of a part that [Group.Split] has made shows its origin:
// "solvers/1.3" is the part of color 3 of the first split of "solvers".
func (g *Group) Name() string { return g.g.Name() }

// String returns the group's name, epoch, size and this process's rank, as in "solvers (epoch 0,
// rank 2 of 8)".
func (g *Group) String() string {
	return fmt.Sprintf("%s (epoch %d, rank %d of %d)", g.Name(), g.Epoch(), g.Rank(), g.Size())
}

// Epoch returns how often the group has shrunk.
func (g *Group) Epoch() int { return g.g.Epoch() }

// Rank returns this process's rank, 0 to Size−1. Members are ranked by their names.
func (g *Group) Rank() int { return g.g.Rank() }

// Size returns the number of members.
func (g *Group) Size() int { return g.g.Size() }

// Member returns the name of the member with a rank, 0 to Size−1.
func (g *Group) Member(rank int) Name { return nameOf(g.g.Member(rank).Name) }

// Shrink makes a new group of the members that are left, with the same name and a later epoch, and
// closes this group. Every member that is left must call it. It returns when they agree on who is
// left.
func (g *Group) Shrink(ctx context.Context) (*Group, error) {
	n, err := g.g.Shrink(ctx)
	return newGroup(g.p, n, err)
}

// Split divides the group: members that give the same color form a new group. Every member must
// call it. It returns when all parts have formed. A member with a negative color is in no part and
// gets nil without an error. This group stays open, and so does each part when this group is
// closed.
//
// If a member leaves or ends before that, Split fails at the others with [ErrGroupBroken], and they
// leave their parts. Where Split had returned already, the part is broken then. If a process is in
// 64 groups already, it fails with [ErrNoMemory] and leaves this group.
func (g *Group) Split(ctx context.Context, color int) (*Group, error) {
	n, err := g.g.Split(ctx, color)
	return newGroup(g.p, n, err)
}

// Close leaves the group. Operations that this process has completed complete at the other members
// too; others fail there. Operations that were started and are not done end with [ErrNoGroup]. If a
// call is in flight, Close fails with [ErrBadArgument].
func (g *Group) Close() error { return groupError(g.g.Close()) }

// bad fails an operation because of its arguments.
func (g *Group) bad(ctx context.Context, op, what string) error {
	return groupError(g.g.Refuse(ctx, op, fmt.Errorf("%w: %s", ErrBadArgument, what)))
}
