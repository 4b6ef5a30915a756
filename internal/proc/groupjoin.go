package proc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Join makes this process a member of a group of size members, and returns when all have joined.
// The group's name has 1 to 24 bytes of a–z, 0–9, '.', '_', '-'. ErrGroupSize: others expect
// another size, or all are there already; ErrGroupJoined: this process is a member; ErrGroupBroken:
// a member went while the group gathered.
func (p *Process) Join(ctx context.Context, name string, size int) (*Group, error) {
	if err := ctx.Err(); err != nil {
		return nil, &GroupError{Op: "join", Group: name, Err: err}
	}
	if size < 1 || size > limits.GroupMembers {
		return nil, &GroupError{Op: "join", Group: name, Err: fmt.Errorf("%w: size %d, expected 1 to %d", ErrBadArgument, size, limits.GroupMembers)}
	}
	key, err := vni.MakeName(name, 0)
	if err != nil {
		return nil, &GroupError{Op: "join", Group: name, Err: fmt.Errorf("%w: a group's name has 1 to %d bytes of a-z, 0-9, '.', '_' or '-'", ErrBadArgument, limits.NameBytes)}
	}
	g, _, err := p.join(ctx, key, size, 0, size)
	if errors.Is(err, ErrNoMemory) {
		return nil, &GroupError{Op: "join", Group: name, Err: fmt.Errorf("%w: the process is in %d groups, which is the most", ErrNoMemory, limits.Groups)}
	} else if err != nil {
		return nil, &GroupError{Op: "join", Group: name, Err: reason(err)}
	}
	g.name = name
	return g, nil
}

// AppGroup lists the processes that live and are of the same application as this one (QNIX-55), by
// index.
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

// join asks the NIC for a membership of a group of at most n. base is that of a group that shrinks
// to it, or that it is a part of. If the join fails, m tells of it.
func (p *Process) join(ctx context.Context, key vni.Name, size int, base uint32, n int) (g *Group, m Message, err error) {
	roster := make([]byte, n*vni.RosterBytes)
	r := request{what: "join", code: vni.CodeJoinGroup, group: base, size: uint32(size)}
	r.send = vni.SendContext{Receiver: key}
	r.to(roster)
	if err := p.begin(ctx, nil, &r); err != nil {
		return nil, m, err
	}
	if m, err = p.end(ctx, r.op); err != nil {
		return nil, m, misfit(err, m.Tag, size)
	}
	g = &Group{p: p, key: key, number: m.Gen, rank: int(m.Tag >> 32), piece: int(m.NIC)}
	le := binary.LittleEndian
	for i := range min(int(uint32(m.Tag)), n) {
		b := roster[i*vni.RosterBytes:]
		d := Dest{NIC: le.Uint64(b[32:]), Slot: le.Uint16(b[40:]), Gen: le.Uint32(b[28:])}
		copy(d.Name.App[:], b)
		d.Name.Index = le.Uint32(b[24:])
		g.roster = append(g.roster, d)
	}
	return g, m, nil
}

// misfit says of a group that has no place for a process which sizes are meant. sizes is as
// vni.GroupSizes has it.
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

// Shrink makes a new group of the members that are left, in a new epoch, and closes this one. Every
// surviving member must call it. It returns when they agree on which of them are left. A join that
// fails because one more member goes begins again in the next epoch, and waits for the same members.
// One of these may have this new group already. The NIC keeps that member's seat in the old group
// until no join can fail, so that it is waited for.
func (g *Group) Shrink(ctx context.Context) (*Group, error) {
	if err := g.begin(ctx, "shrink"); err != nil {
		return nil, err
	}
	defer g.done()
	key, ok := vni.NextEpoch(g.key)
	for ; ok; key, ok = vni.NextEpoch(key) {
		n, _, err := g.p.join(ctx, key, 0, g.number, len(g.roster))
		if err == nil {
			n.name, n.splits = g.name, g.splits
			return n, g.close()
		}
		// Another member has gone meanwhile, or not all knew yet that one had: once more, in the
		// next epoch.
		if !errors.Is(err, ErrGroupBroken) && !errors.Is(err, ErrGroupMismatch) {
			return nil, g.fail("shrink", Message{}, err)
		}
	}
	return nil, g.unfit("shrink", fmt.Errorf("%w: the group has shrunk %d times, which is the most", ErrNoMemory, g.Epoch()))
}

// Close ends the membership, and every operation that was started before and is not done. It does
// not wait for one that is started meanwhile. Operations that this process has completed complete
// at the others too; later ones fail.
func (g *Group) Close() error {
	if err := g.turns.end(g.p); err != nil {
		return g.fail("leave", Message{}, err)
	}
	if g.enter("leave") != nil { // it has left with its process
		g.turns.pass()
		return nil
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
