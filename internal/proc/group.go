package proc

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/vni"
)

// Group is this process's membership in a group (QNIX-54). Its operations are collective: each
// member calls the same ones in the same order. The NICs do them; a process that waits is woken
// once.
//
//	Join ──► Barrier, Broadcast, Reduce, Gather … ──► Close
//	  │           │ a member has left or ended
//	  │           └──► every call fails with ErrGroupBroken ──► Shrink: the same group without it
//	  └──► Split: parts of the group
type Group struct {
	p      *Process
	name   string
	key    vni.Name // by which NICs know the group: its name or its origin, and its epoch
	number uint32   // by which the NIC knows the membership
	rank   int
	roster []Dest
	piece  int    // bytes of one reduction
	splits uint64 // how often the group has been split, as far as its members know

	turns turns

	// Of the operation that has the turn.
	midway  bool    // the others wait for the rest of it
	shared  *Region // where others put what is gathered; kept for the next time
	handles []byte  // of the regions of all members, as they were told last, while shared stays; else nil
}

// GroupError says which operation of which group failed, and why. If a member has left or ended,
// Dead is its name.
type GroupError struct {
	Op    string // "join", "barrier", "broadcast", "reduce", "all-reduce", "gather", "split", "shrink", "leave" …
	Group string
	Dead  vni.Name
	Err   error
}

func (e *GroupError) Error() string {
	s := "weft: " + e.Op + " in group " + e.Group + ": "
	if !e.Dead.IsZero() {
		s += e.Dead.String() + " has left or ended: "
	}
	return s + e.Err.Error()
}

func (e *GroupError) Unwrap() error { return e.Err }

// Name is the group's name.
func (g *Group) Name() string { return g.name }

// Epoch is how often the group has shrunk.
func (g *Group) Epoch() int { return int(vni.Epoch(&g.key)) }

// Rank is this process's place among the members, which are in the order of their names.
func (g *Group) Rank() int { return g.rank }

// Size is how many members the group has.
func (g *Group) Size() int { return len(g.roster) }

// Member is the member with a rank.
func (g *Group) Member(rank int) Dest { return g.roster[rank] }

// begin takes the turn for an operation, and makes sure that the memory which it uses stays until
// done.
func (g *Group) begin(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return g.fail(op, Message{}, err)
	}
	if err := g.turns.take(ctx, g.p); err != nil {
		return g.fail(op, Message{}, err)
	}
	if err := g.enter(op); err != nil {
		g.turns.pass()
		return err
	}
	return nil
}

// enter is begin of an operation that has the turn.
func (g *Group) enter(op string) error {
	if !g.p.enter() {
		return g.fail(op, Message{}, ErrClosed)
	}
	if g.p.closed.Load() {
		g.p.leave()
		return g.fail(op, Message{}, ErrClosed)
	}
	g.midway = false
	return nil
}

func (g *Group) done() {
	g.p.leave()
	g.turns.pass()
}

func (g *Group) fail(op string, m Message, err error) error {
	e := &GroupError{Op: op, Group: g.name, Err: reason(err)}
	if errors.Is(err, ErrGroupBroken) && m.Tag < uint64(len(g.roster)) {
		e.Dead = g.roster[m.Tag].Name
	}
	return e
}

// reason is why an operation failed, without which it was.
func reason(err error) error {
	var o *OpError
	if errors.As(err, &o) {
		return o.Err
	}
	return err
}

// notBegun leaves the group if others may have begun what will not be ended: a step of an operation
// could not begin, and either it was not the first, or its arguments or memory are why, of which
// the others do not know. ctx alone, at the first step, leaves the process in the group.
func (g *Group) notBegun(ctx context.Context, others bool) {
	if others || ctx.Err() == nil {
		g.quit()
	}
}

// unfit fails an operation that this process cannot enter with its arguments, or for want of
// memory. The others may have entered it, and would wait for good: the process leaves the group.
func (g *Group) unfit(op string, why error) error {
	g.quit()
	return g.fail(op, Message{}, why)
}

// bad is unfit because of an argument.
func (g *Group) bad(op, format string, args ...any) error {
	return g.unfit(op, fmt.Errorf("%w: %s", ErrBadArgument, fmt.Sprintf(format, args...)))
}

// Refuse is unfit of a caller that has looked at arguments itself.
func (g *Group) Refuse(ctx context.Context, op string, why error) error {
	if err := g.begin(ctx, op); err != nil {
		return err
	}
	defer g.done()
	return g.unfit(op, why)
}

func (g *Group) checkRoot(op string, root int) error {
	if root < 0 || root >= len(g.roster) {
		return g.bad(op, "root %d, expected 0 to %d", root, len(g.roster)-1)
	}
	return nil
}

// look says why memory cannot be read, or written, as an operation needs it. It is asked before the
// operation is entered: what is copied here no request names, so that nothing looks at it later.
func (g *Group) look(op string, read, written []byte) error {
	l := g.p.registered.Load()
	if l == nil {
		return nil
	}
	err := l.look(read, false)
	if err == nil {
		err = l.look(written, true)
	}
	if err != nil {
		return g.unfit(op, err)
	}
	return nil
}
