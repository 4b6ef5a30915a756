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
// The group's name has 1 to 24 bytes of a–z, 0–9, '.', '_', '-'. ErrGroupSize: other members
// expect another size, or the group is complete. ErrGroupJoined: this process is already a
// member. ErrGroupBroken: a member left or ended while the group gathered.
func (p *Process) Join(ctx context.Context, name string, size int) (*Group, error) {
	if err := ctx.Err(); err != nil {
		return nil, &GroupError{Op: "join", Group: name, Err: err}
	}
	if size < 1 || size > limits.GroupMembers {
		return nil, &GroupError{Op: "join", Group: name,
			Err: fmt.Errorf("%w: size %d, expected 1 to %d", ErrBadArgument, size, limits.GroupMembers)}
	}
	key, err := vni.MakeName(name, 0)
	if err != nil {
		return nil, &GroupError{Op: "join", Group: name,
			Err: fmt.Errorf("%w: a group's name has 1 to %d bytes of a-z, 0-9, '.', '_' or '-'", ErrBadArgument,
				limits.NameBytes)}
	}
	g, _, err := p.join(ctx, key, size, 0, size)
	if errors.Is(err, ErrNoMemory) {
		return nil, &GroupError{Op: "join", Group: name,
			Err: fmt.Errorf("%w: the process is in %d groups, which is the most", ErrNoMemory, limits.Groups)}
	} else if err != nil {
		return nil, &GroupError{Op: "join", Group: name, Err: reason(err)}
	}
	g.name = name
	return g, nil
}

// AppGroup returns the names of the live processes of this process's application (QNIX-55), in
// the order of their indices.
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

// join asks the NIC for a membership of a group of at most n members. base is the number of the
// group that shrinks to the new group, or of which the new group is a part. If the join fails, m
// describes the failure.
func (p *Process) join(ctx context.Context, key vni.Name, size int, base uint32,
	n int) (g *Group, m Message, err error) {
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

// misfit adds the sizes to the error of a group that has no place for a process. sizes has the
// form of vni.GroupSizes.
func misfit(err error, sizes uint64, asked int) error {
	if !errors.Is(err, ErrGroupSize) || sizes == 0 {
		return err
	}
	size, there := int(sizes>>32), int(uint32(sizes))
	if size == asked {
		return fmt.Errorf("%w: all %d members are there", ErrGroupSize, there)
	}
	return fmt.Errorf("%w: this process expects %d members, and the %d that are there expect %d", ErrGroupSize, asked,
		there, size)
}

// quit leaves the group without waiting for other members.
func (g *Group) quit() {
	r := request{what: "leave", code: vni.CodeLeave, group: g.number}
	ctx, cancel := g.p.patience()
	defer cancel()
	if err := g.p.begin(ctx, nil, &r); err == nil {
		// An error means that it has left already, or that the NIC is gone.
		_ = r.op.finish(new(Message), g.p.promptly(ctx, r.op))
		r.op.release()
	}
}

// Shrink makes a new group of the remaining members, in a new epoch, and closes this one. Every
// surviving member must call it. It returns when they agree on the remaining members. If a join
// fails because one more member is lost, it begins again in the next epoch, and waits for the
// same members. One of these may already have the new group. The NIC keeps that member's seat in
// the old group until no join can fail, so the others wait for it.
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
		// Another member was lost meanwhile, or not all members knew yet that one was lost. Try
		// again in the next epoch.
		if !errors.Is(err, ErrGroupBroken) && !errors.Is(err, ErrGroupMismatch) {
			return nil, g.fail("shrink", Message{}, err)
		}
	}
	return nil, g.unfit("shrink", fmt.Errorf("%w: the group has shrunk %d times, which is the most", ErrNoMemory,
		g.Epoch()))
}

// Close ends the membership, and every operation that was started before and is not done. It does
// not wait for an operation that is started meanwhile. An operation that this process has
// completed also completes at the others; later ones fail.
func (g *Group) Close() error {
	if err := g.turns.end(g.p); err != nil {
		return g.fail("leave", Message{}, err)
	}
	if g.enter("leave") != nil { // it left when its process ended
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
