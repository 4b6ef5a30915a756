package proc

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/vni"
)

// Group is this process's membership in a group (QNIX-54). Its operations are collective: each
// member calls the same operations in the same order. The NICs carry them out. A waiting process
// is woken only once.
//
//	Join ──► Barrier, Broadcast, Reduce, Gather … ──► Close
//	  │           │ a member has left or ended
//	  │           └──► every call fails with ErrGroupBroken ──► Shrink: the same group without it
//	  └──► Split: parts of the group
type Group struct {
	p      *Process
	name   string
	key    vni.Name // name or origin of the group, and its epoch; known to the NICs
	number uint32   // by which the NIC knows the membership
	rank   int
	roster []Dest
	piece  int    // bytes of one reduction
	splits uint64 // splits of the group, as far as its members know

	turns turns

	// For the operation that has the turn.
	midway  bool    // the others wait for the rest of it
	shared  *Region // the others put gathered bytes here; kept for the next time
	handles []byte  // regions of all members, as last announced; nil without shared
}

// GroupError reports which operation of which group failed, and the cause. If a member has left
// or ended, Dead is its name.
type GroupError struct {
	// Op is "join", "barrier", "broadcast", "reduce", "all-reduce", "gather", "split", "shrink",
	// "leave" and so on.
	Op    string
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

// Name returns the group's name.
func (g *Group) Name() string { return g.name }

// Epoch returns how often the group has shrunk.
func (g *Group) Epoch() int { return int(vni.Epoch(&g.key)) }

// Rank returns this process's place among the members, which are in the order of their names.
func (g *Group) Rank() int { return g.rank }

// Size returns the number of members.
func (g *Group) Size() int { return len(g.roster) }

// Member returns the member with a rank.
func (g *Group) Member(rank int) Dest { return g.roster[rank] }

// begin takes the turn for an operation. It also ensures that the memory of the operation stays
// until done.
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

// enter is begin for an operation that already has the turn.
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

// reason returns the cause of an operation's error, without the operation.
func reason(err error) error {
	var o *OpError
	if errors.As(err, &o) {
		return o.Err
	}
	return err
}

// notBegun leaves the group if other members may have begun an operation that will not end. A
// step of the operation could not begin. Either it was not the first step, or the cause is an
// argument or memory, which the others do not know. If only ctx ended, at the first step, the
// process stays in the group.
func (g *Group) notBegun(ctx context.Context, others bool) {
	if others || ctx.Err() == nil {
		g.quit()
	}
}

// unfit fails an operation that this process cannot enter because of its arguments or a lack of
// memory. Other members may have entered it and would wait for ever, so the process leaves the
// group.
func (g *Group) unfit(op string, why error) error {
	g.quit()
	return g.fail(op, Message{}, why)
}

// bad is unfit for an invalid argument.
func (g *Group) bad(op, format string, args ...any) error {
	return g.unfit(op, fmt.Errorf("%w: %s", ErrBadArgument, fmt.Sprintf(format, args...)))
}

// Refuse is unfit for a caller that checked the arguments itself.
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

// look returns an error if an operation cannot read or write the memory that it needs. It is
// called before the operation is entered. No request names memory that is copied here, so no
// later check covers it.
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
