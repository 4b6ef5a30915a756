package proc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Group is this process's membership in a group (QNIX-54). Its operations are collective: each member calls the same ones
// in the same order, one at a time. The NICs do them; a process that waits is woken once.
//
//	Join ──► Barrier, Broadcast, Reduce, Gather … ──► Close
//	              │ a member has left or ended
//	              └──► every call fails with ErrGroupBroken ──► Shrink: the same group without it
type Group struct {
	p      *Process
	name   string
	epoch  uint32
	number uint32 // by which the NIC knows the membership
	rank   int
	roster []Dest
	piece  int // bytes of one reduction
	busy   atomic.Bool
	midway bool    // of the operation under way: the others wait for the rest of it
	shared *Region // where others put what is gathered; kept for the next time

	handles []byte // of the regions of all members, as they were told last, while shared stays; else nil
}

// GroupError says which operation of which group failed, and why. If a member has left or ended, Dead is its name.
type GroupError struct {
	Op    string // "join", "barrier", "broadcast", "reduce", "gather", "shrink", "leave" …
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

// Join makes this process a member of a group of size members, and returns when all have joined. The group's name has 1
// to 24 bytes of a–z, 0–9, '.', '_', '-'. ErrGroupSize: others expect another size, or all are there already;
// ErrGroupJoined: this process is a member; ErrGroupBroken: a member went while the group gathered.
func (p *Process) Join(ctx context.Context, name string, size int) (*Group, error) {
	if err := ctx.Err(); err != nil {
		return nil, &GroupError{Op: "join", Group: name, Err: err}
	}
	if size < 1 || size > limits.GroupMembers {
		return nil, &GroupError{Op: "join", Group: name, Err: fmt.Errorf("%w: size %d, want 1 to %d", ErrBadArgument, size, limits.GroupMembers)}
	}
	key, err := vni.MakeName(name, 0)
	if err != nil {
		return nil, &GroupError{Op: "join", Group: name, Err: fmt.Errorf("%w: a group's name has 1 to %d bytes of a-z, 0-9, '.', '_' or '-'", ErrBadArgument, limits.NameBytes)}
	}
	g, err := p.join(ctx, key, size, 0, size)
	if errors.Is(err, ErrNoMemory) {
		return nil, &GroupError{Op: "join", Group: name, Err: fmt.Errorf("%w: the process is in %d groups, which is the most", ErrNoMemory, limits.Groups)}
	} else if err != nil {
		return nil, &GroupError{Op: "join", Group: name, Err: reason(err)}
	}
	g.name = name
	return g, nil
}

// AppGroup lists the processes that live and are of the same application as this one (QNIX-55), by index.
func (p *Process) AppGroup(ctx context.Context) ([]vni.Name, error) {
	if err := ctx.Err(); err != nil {
		return nil, &OpError{Op: "application's group", Err: err}
	}
	if p.closed.Load() {
		return nil, &OpError{Op: "application's group", Err: ErrClosed}
	}
	all, err := p.opts.Names(ctx)
	if err != nil {
		return nil, &OpError{Op: "application's group", Err: err}
	}
	all = slices.DeleteFunc(all, func(n vni.Name) bool { return n.App != p.id.Name.App })
	slices.SortFunc(all, vni.Name.Compare)
	return all, nil
}

// join asks the NIC for a membership of a group of at most n. base is that of a group that shrinks to it.
func (p *Process) join(ctx context.Context, key vni.Name, size int, base uint32, n int) (*Group, error) {
	roster := make([]byte, n*vni.RosterBytes)
	r := request{what: "join", code: vni.CodeJoinGroup, group: base, size: uint32(size)}
	r.send = vni.SendContext{Receiver: key}
	r.to(roster)
	if err := p.begin(ctx, nil, &r); err != nil {
		return nil, err
	}
	m, err := p.end(ctx, r.op)
	if err != nil {
		return nil, misfit(err, m.Tag, size)
	}
	g := &Group{p: p, epoch: key.Index, number: m.Gen, rank: int(m.Tag >> 32), piece: int(m.NIC)}
	le := binary.LittleEndian
	for i := range min(int(uint32(m.Tag)), n) {
		b := roster[i*vni.RosterBytes:]
		d := Dest{NIC: le.Uint64(b[32:]), Slot: le.Uint16(b[40:]), Gen: le.Uint32(b[28:])}
		copy(d.Name.App[:], b)
		d.Name.Index = le.Uint32(b[24:])
		g.roster = append(g.roster, d)
	}
	return g, nil
}

// reason is why an operation failed, without which it was.
func reason(err error) error {
	var o *OpError
	if errors.As(err, &o) {
		return o.Err
	}
	return err
}

// misfit says of a group that has no place for a process which sizes are meant. sizes is as vni.GroupSizes has it.
func misfit(err error, sizes uint64, asked int) error {
	if !errors.Is(err, ErrGroupSize) || sizes == 0 {
		return err
	}
	size, there := int(sizes>>32), int(uint32(sizes))
	if size == asked {
		return fmt.Errorf("%w: all %d members are there", ErrGroupSize, there)
	}
	return fmt.Errorf("%w: this process expects %d members, and the %d that are there expect %d", ErrGroupSize, asked, there, size)
}

// Name is the group's name.
func (g *Group) Name() string { return g.name }

// Epoch is how often the group has shrunk.
func (g *Group) Epoch() int { return int(g.epoch) }

// Rank is this process's place among the members, which are in the order of their names.
func (g *Group) Rank() int { return g.rank }

// Size is how many members the group has.
func (g *Group) Size() int { return len(g.roster) }

// Member is the member with a rank.
func (g *Group) Member(rank int) Dest { return g.roster[rank] }

// begin makes sure that one operation of the group is under way at a time, and that the memory which it uses stays until done.
func (g *Group) begin(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return g.fail(op, Message{}, err)
	}
	if !g.busy.CompareAndSwap(false, true) {
		return g.fail(op, Message{}, errGroupBusy)
	}
	if !g.p.enter() {
		g.busy.Store(false)
		return g.fail(op, Message{}, ErrClosed)
	}
	if g.p.closed.Load() {
		g.done()
		return g.fail(op, Message{}, ErrClosed)
	}
	g.midway = false
	return nil
}

var errGroupBusy = fmt.Errorf("%w: another operation of the group is under way in this process", ErrBadArgument)

func (g *Group) done() {
	g.busy.Store(false)
	g.p.leave()
}

func (g *Group) fail(op string, m Message, err error) error {
	e := &GroupError{Op: op, Group: g.name, Err: reason(err)}
	if errors.Is(err, ErrGroupBroken) && m.Tag < uint64(len(g.roster)) {
		e.Dead = g.roster[m.Tag].Name
	}
	return e
}

// Barrier returns when every member has entered it (QNIX-8). If ctx ends first, this process leaves the group, and the
// others' barriers fail: one that has entered a collective operation cannot take that back. That is so of all of them.
func (g *Group) Barrier(ctx context.Context) error {
	if err := g.begin(ctx, "barrier"); err != nil {
		return err
	}
	defer g.done()
	return g.barrier(ctx, "barrier")
}

func (g *Group) barrier(ctx context.Context, op string) error {
	r := request{what: op, code: vni.CodeBarrier, group: g.number, size: uint32(len(g.roster))}
	if err := g.p.begin(ctx, nil, &r); err != nil {
		g.notBegun(ctx, g.midway)
		return g.fail(op, Message{}, err)
	}
	if m, err := g.p.end(ctx, r.op); err != nil {
		return g.fail(op, m, err)
	}
	return nil
}

// notBegun leaves the group if others may have begun what will not be ended: a step of an operation could not begin, and either it was not the first, or
// its arguments or memory are why, of which the others do not know. ctx alone, at the first step, leaves the process in the group.
func (g *Group) notBegun(ctx context.Context, others bool) {
	if others || ctx.Err() == nil {
		g.quit()
	}
}

// unfit fails an operation that this process cannot enter with its arguments, or for want of memory. The others may have entered it, and would wait for
// good: the process leaves the group.
func (g *Group) unfit(op string, why error) error {
	g.quit()
	return g.fail(op, Message{}, why)
}

// Refuse is unfit of a caller that has looked at arguments itself.
func (g *Group) Refuse(ctx context.Context, op string, why error) error {
	if err := g.begin(ctx, op); err != nil {
		return err
	}
	defer g.done()
	return g.unfit(op, why)
}

// Broadcast copies buf of the member with rank root into buf of all others, which must be of the same length. It returns
// at the root when every member's NIC has the bytes, elsewhere when they are in buf. ErrTruncated: the root's are more; ErrGroupMismatch: they are fewer.
func (g *Group) Broadcast(ctx context.Context, root int, buf []byte) error {
	if err := g.begin(ctx, "broadcast"); err != nil {
		return err
	}
	defer g.done()
	return g.broadcast(ctx, "broadcast", root, buf)
}

func (g *Group) broadcast(ctx context.Context, op string, root int, buf []byte) error {
	if err := g.checkRoot(op, root); err != nil {
		return err
	}
	return g.cut(ctx, op, len(buf), limits.BroadcastBytes, func(r *request, at, n int) [][]byte {
		r.code, r.send.Tag = vni.CodeBroadcast, uint64(root)
		if g.rank != root {
			r.to(buf[at : at+n])
			return nil
		}
		r.length = uint64(n)
		return [][]byte{buf[at : at+n]}
	})
}

func (g *Group) checkRoot(op string, root int) error {
	if root < 0 || root >= len(g.roster) {
		return g.unfit(op, fmt.Errorf("%w: root %d, want 0 to %d", ErrBadArgument, root, len(g.roster)-1))
	}
	return nil
}

// cut does an operation on length bytes as several on at most most bytes each, some of them at a time. fill completes the
// request for the n bytes at at, and returns those that go out.
func (g *Group) cut(ctx context.Context, op string, length, most int, fill func(r *request, at, n int) [][]byte) error {
	var under [limits.CollectivesUnderWay]*Op
	var failed error
	begun, ended := 0, 0
	end := func() (bool, error) {
		if ended == begun {
			return false, nil
		}
		o, n := under[ended%len(under)], min(most, length-ended*most)
		ended++
		m, err := g.p.end(ctx, o)
		if err == nil && m.Full != uint64(n) { // of a broadcast; what else is of different lengths fails
			err = fmt.Errorf("%w: a broadcast of %d bytes, where this process expects %d", ErrGroupMismatch, m.Full, n)
		}
		if err != nil && failed == nil {
			failed = g.fail(op, m, err)
		}
		return true, failed
	}
	for at := 0; failed == nil && (at < length || begun == 0); at += most {
		if begun-ended == len(under) {
			if _, err := end(); err != nil {
				break
			}
		}
		r := request{what: op, group: g.number}
		parts := fill(&r, at, min(most, length-at))
		if err := g.p.beginBeside(ctx, parts, &r, end); err != nil {
			if failed == nil {
				failed = g.fail(op, Message{}, err)
				g.notBegun(ctx, g.midway || begun > 0)
			}
			break
		}
		under[begun%len(under)] = r.op
		begun++
	}
	for ended < begun {
		_, _ = end()
	}
	return failed
}

// quit leaves the group without waiting for other members.
func (g *Group) quit() {
	r := request{what: "leave", code: vni.CodeLeave, group: g.number}
	ctx, cancel := g.p.patience()
	defer cancel()
	if err := g.p.begin(ctx, nil, &r); err == nil {
		_ = r.op.finish(new(Message), g.p.promptly(ctx, r.op)) // it has left already, or the NIC is gone
		r.op.release()
	}
}

// Shrink makes a new group of the members that are left, in a new epoch, and closes this one. Every surviving member must
// call it. It returns when they agree on which of them are left.
func (g *Group) Shrink(ctx context.Context) (*Group, error) {
	if err := g.begin(ctx, "shrink"); err != nil {
		return nil, err
	}
	defer g.done()
	key, err := vni.MakeName(g.name, g.epoch)
	if err != nil {
		return nil, g.fail("shrink", Message{}, err)
	}
	for {
		key.Index++
		n, err := g.p.join(ctx, key, 0, g.number, len(g.roster))
		if err == nil {
			n.name = g.name
			return n, g.close()
		}
		// Another member has gone meanwhile, or not all knew yet that one had: once more, in the next epoch.
		if !errors.Is(err, ErrGroupBroken) && !errors.Is(err, ErrGroupMismatch) {
			return nil, g.fail("shrink", Message{}, err)
		}
	}
}

// Close ends the membership. Operations that this process has completed complete at the others too; later ones fail.
func (g *Group) Close() error {
	switch err := g.begin(context.Background(), "leave"); {
	case errors.Is(err, ErrClosed): // it has left with its process
		return nil
	case err != nil:
		return err
	}
	defer g.done()
	return g.close()
}

func (g *Group) close() error {
	g.quit()
	if r := g.shared; r != nil {
		g.shared = nil
		return r.Close()
	}
	return nil
}
