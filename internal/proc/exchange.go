package proc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/limits"
)

// Gather, scatter and all-to-all move different bytes between each pair of members, so a NIC in
// between could not save anything. They use other operations: the member in the middle tells the
// others the handle of a region. The others PUT into it or GET from it, and a barrier reports
// that all is done.

// The message of a member about its region holds the handle. It holds the operation at byte 20,
// and one more word at byte 32: the length of a part.
const handleBytes = 40

// form is the use that members make of the regions that they announce. It shows members that they
// do different things, since the announcements of all forms have the same length. Members may run
// different builds, so a number keeps its meaning.
type form uint32

const (
	formGather form = iota + 1
	formGatherParts
	formAllGather
	formAllGatherParts
	formScatter
	formScatterParts
	formAllToAll
	formAllToAllParts
	formReduce // of vectors in parts, after an agreement
	formReduceFunc
	formAllReduceFunc
	formSplit
)

func (f form) put(b []byte)       { binary.LittleEndian.PutUint32(b[20:], uint32(f)) }
func (f form) isIn(b []byte) bool { return binary.LittleEndian.Uint32(b[20:]) == uint32(f) }

func (h *Handle) put(b []byte) {
	le := binary.LittleEndian
	le.PutUint64(b, h.NIC)
	le.PutUint32(b[8:], uint32(h.Slot))
	le.PutUint32(b[12:], h.Gen)
	le.PutUint32(b[16:], h.Region)
	le.PutUint64(b[24:], h.Key)
}

func (h *Handle) get(b []byte) {
	le := binary.LittleEndian
	*h = Handle{NIC: le.Uint64(b), Slot: uint16(le.Uint32(b[8:])), Gen: le.Uint32(b[12:]), Region: le.Uint32(b[16:]),
		Key: le.Uint64(b[24:])}
}

// region returns memory of n bytes that others may PUT into or GET from.
func (g *Group) region(n int) (*Region, error) {
	if r := g.shared; r != nil {
		if len(r.mem) >= n {
			return r, nil
		}
		g.shared, g.handles = nil, nil
		if err := r.Close(); err != nil {
			return nil, err
		}
	}
	r, err := g.p.allocInner(max(n, limits.PageBytes))
	g.shared = r
	return r, err
}

// show tells all members the handle of a region of root with n bytes, and one more word. It
// returns the root's handle and word. If members do different things, it fails at all of them.
func (g *Group) show(ctx context.Context, op string, f form, root, n int,
	word uint64) (h Handle, mem []byte, theirs uint64, err error) {
	var b [handleBytes]byte
	if g.rank == root {
		r, err := g.region(n)
		if err != nil {
			return h, nil, 0, g.unfit(op, err)
		}
		h, mem = r.Handle(), r.mem[:n]
		h.put(b[:])
		f.put(b[:])
		binary.LittleEndian.PutUint64(b[32:], word)
	}
	if err := g.showAll(ctx, op, f, root, b[:]); err != nil {
		return h, nil, 0, err
	}
	h.get(b[:])
	return h, mem, binary.LittleEndian.Uint64(b[32:]), nil
}

// showAll broadcasts the root's announcement, which begins with a handle and the form. If a
// member expects another form or another length, the operation fails at all members.
func (g *Group) showAll(ctx context.Context, op string, f form, root int, b []byte) error {
	switch err := g.broadcast(ctx, op, root, b); {
	case errors.Is(err, ErrTruncated), errors.Is(err, ErrGroupMismatch):
		return g.disagree(ctx, op)
	case err != nil:
		return err
	}
	g.midway = true
	if !f.isIn(b) {
		return g.disagree(ctx, op)
	}
	return nil
}

// showParts is show for parts of equal length. A member with another length notices it here. The
// root learns of it from the barrier at the end.
func (g *Group) showParts(ctx context.Context, op string, f form, root, part int) (h Handle, mem []byte, err error) {
	h, mem, theirs, err := g.show(ctx, op, f, root, part*len(g.roster), uint64(part))
	if err == nil && theirs != uint64(part) {
		err = g.bad(op, "parts of %d bytes, those of the root have %d", part, theirs)
	}
	return h, mem, err
}

// putOwn puts this member's bytes into root's region, which is described by h and mem. It returns
// when all members have done so.
func (g *Group) putOwn(ctx context.Context, op string, root int, h Handle, mem []byte, offset uint64, b []byte) error {
	if g.rank == root {
		copy(mem[offset:], b)
	} else if len(b) > 0 {
		if err := g.p.Put(ctx, h, offset, b); err != nil {
			return g.missed(ctx, op, err)
		}
	}
	return g.barrier(ctx, op)
}

// getOwn is the opposite of putOwn: it reads this member's bytes from root's region.
func (g *Group) getOwn(ctx context.Context, op string, root int, h Handle, mem []byte, offset uint64, b []byte) error {
	if g.rank == root {
		copy(b, mem[offset:])
	} else if len(b) > 0 {
		if err := g.p.Get(ctx, h, offset, b); err != nil {
			return g.missed(ctx, op, err)
		}
	}
	return g.barrier(ctx, op)
}

// Gather copies part of every member to the member with rank root, into all, in the order of
// ranks. All parts must have the same length. At the other members, all is ignored.
func (g *Group) Gather(ctx context.Context, root int, part, all []byte) error {
	if err := g.begin(ctx, "gather"); err != nil {
		return err
	}
	defer g.done()
	if err := g.checkRoot("gather", root); err != nil {
		return err
	}
	if g.rank != root {
		all = nil
	} else if len(all) != len(part)*len(g.roster) {
		return g.badLength("gather", len(all), len(part))
	}
	if err := g.look("gather", part, all); err != nil {
		return err
	}
	return g.gather(ctx, "gather", formGather, root, part, all)
}

func (g *Group) gather(ctx context.Context, op string, f form, root int, part, all []byte) error {
	h, mem, err := g.showParts(ctx, op, f, root, len(part))
	if err != nil {
		return err
	}
	if err := g.putOwn(ctx, op, root, h, mem, uint64(g.rank*len(part)), part); err != nil {
		return err
	}
	if g.rank == root {
		copy(all, mem)
	}
	return nil
}

func (g *Group) badLength(op string, all, part int) error {
	return g.bad(op, "%d bytes for %d members of %d bytes each", all, len(g.roster), part)
}

// AllGather is Gather whose result every member gets.
func (g *Group) AllGather(ctx context.Context, part, all []byte) error {
	if err := g.begin(ctx, "all-gather"); err != nil {
		return err
	}
	defer g.done()
	if len(all) != len(part)*len(g.roster) {
		return g.badLength("all-gather", len(all), len(part))
	}
	if err := g.look("all-gather", part, all); err != nil {
		return err
	}
	return g.allGather(ctx, "all-gather", formAllGather, part, all)
}

func (g *Group) allGather(ctx context.Context, op string, f form, part, all []byte) error {
	if err := g.gather(ctx, op, f, 0, part, all); err != nil {
		return err
	}
	return g.broadcast(ctx, op, 0, all)
}

// Scatter cuts all of the member with rank root into equal parts, and copies to each member the
// part of its rank. At the other members, all is ignored.
func (g *Group) Scatter(ctx context.Context, root int, all, part []byte) error {
	const op = "scatter"
	if err := g.begin(ctx, op); err != nil {
		return err
	}
	defer g.done()
	if err := g.checkRoot(op, root); err != nil {
		return err
	}
	if g.rank != root {
		all = nil
	} else if len(all) != len(part)*len(g.roster) {
		return g.badLength(op, len(all), len(part))
	}
	if err := g.look(op, all, part); err != nil {
		return err
	}
	if g.rank == root {
		r, err := g.region(len(all))
		if err != nil {
			return g.unfit(op, err)
		}
		copy(r.mem, all)
	}
	h, mem, err := g.showParts(ctx, op, formScatter, root, len(part))
	if err != nil {
		return err
	}
	return g.getOwn(ctx, op, root, h, mem, uint64(g.rank*len(part)), part)
}

// AllToAll copies part j of every member i to part i of member j. from and to each have one part
// for each member, and all parts have the same length.
func (g *Group) AllToAll(ctx context.Context, from, to []byte) error {
	const op = "all-to-all"
	if err := g.begin(ctx, op); err != nil {
		return err
	}
	defer g.done()
	n := len(g.roster)
	if len(from) != len(to) || len(from)%n != 0 {
		return g.badLength(op, len(from), len(to)/n)
	}
	if err := g.look(op, from, to); err != nil {
		return err
	}
	// This is not the region that gathers use, which is announced and used up in between.
	r, err := g.p.allocInner(max(len(to), 1))
	if err != nil {
		return g.unfit(op, err)
	}
	err = g.exchange(ctx, op, r, from, len(to)/n)
	if err == nil {
		copy(to, r.mem)
	}
	if cerr := r.Close(); err == nil && cerr != nil {
		return g.fail(op, Message{}, cerr)
	}
	return err
}

// exchange puts each part of from into the regions of all members.
func (g *Group) exchange(ctx context.Context, op string, r *Region, from []byte, part int) error {
	n := len(g.roster)
	var own [handleBytes]byte
	h := r.Handle()
	h.put(own[:])
	binary.LittleEndian.PutUint64(own[32:], uint64(part))
	handles := make([]byte, n*handleBytes)
	if err := g.allGather(ctx, op, formAllToAll, own[:], handles); err != nil {
		return err
	}
	for i := range n {
		to := (g.rank + i) % n // start with different members, to spread the load
		b := handles[to*handleBytes:]
		h.get(b)
		bytes := from[to*part : (to+1)*part]
		var err error
		switch theirs := binary.LittleEndian.Uint64(b[32:]); {
		case theirs != uint64(part):
			err = fmt.Errorf("%w: parts of %d bytes, those of %v have %d", ErrBadArgument, part, g.roster[to].Name,
				theirs)
		case to == g.rank:
			copy(r.mem[to*part:], bytes)
		case part > 0:
			err = g.p.Put(ctx, h, uint64(g.rank*part), bytes)
		}
		if err != nil {
			return g.missed(ctx, op, err)
		}
	}
	return g.barrier(ctx, op)
}

// missed fails an operation whose bytes could not be put into the region of another member, or
// read from it. If a member's region cannot be reached, the member has left or ended, or will
// soon. It does not enter the barrier, so the barrier reports to all that the group is broken,
// and by which member. Any other failure belongs to this process, which leaves the group.
func (g *Group) missed(ctx context.Context, op string, why error) error {
	for _, gone := range []error{ErrRegion, ErrProcessGone, ErrStaleGeneration, ErrUnreachable, ErrSessionLost} {
		if errors.Is(why, gone) {
			if err := g.barrier(ctx, op); err != nil {
				return err
			}
			break
		}
	}
	g.quit()
	return g.fail(op, Message{}, why)
}
