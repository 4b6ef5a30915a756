package proc

import (
	"context"
	"encoding/binary"

	"github.com/weftnet/weft/internal/limits"
)

// Parts of different lengths are exchanged like equal ones (exchange.go). In addition, the member
// in the middle tells the length of each member's part, and thereby where the part begins in its
// region:
//
//	handle 40  length of rank 0's part 8  length of rank 1's part 8 …
//
// Each member finds its length there. A member with a different length fails and leaves the
// group. The others learn its name from the barrier at the end, so no member waits for bytes that
// do not come.

const (
	lengthBytes = 8
	seatBytes   = 16 // offset and length of a part of an all-to-all
)

// table is the announcement of the member in the middle.
type table []byte

func (g *Group) newTable() table { return make(table, handleBytes+lengthBytes*len(g.roster)) }

func (t table) length(rank int) uint64 {
	return binary.LittleEndian.Uint64(t[handleBytes+lengthBytes*rank:])
}

// offset returns where the part of a member begins.
func (t table) offset(rank int) (sum uint64) {
	for i := range rank {
		sum += t.length(i)
	}
	return sum
}

// set fills in a table.
func (t table) set(h Handle, f form, parts [][]byte) {
	h.put(t)
	f.put(t)
	for i, b := range parts {
		binary.LittleEndian.PutUint64(t[handleBytes+lengthBytes*i:], uint64(len(b)))
	}
}

// total returns the number of bytes of some parts.
func total(parts [][]byte) (n int) {
	for _, b := range parts {
		n += len(b)
	}
	return n
}

// checkParts checks that there is a part for each member, and that this member's part has the
// right length.
func (g *Group) checkParts(op string, parts [][]byte, own []byte) error {
	n := len(g.roster)
	switch {
	case len(parts) != n:
		return g.bad(op, "%d parts for %d members", len(parts), n)
	case len(parts[g.rank]) != len(own):
		return g.bad(op, "this member's part has %d bytes, and its place among those of all %d", len(own),
			len(parts[g.rank]))
	case total(parts) > limits.MaxRegion:
		return g.bad(op, "parts of %d bytes together, at most %d", total(parts), uint64(limits.MaxRegion))
	}
	return nil
}

// lookAtParts is look for several pieces of memory.
func (g *Group) lookAtParts(op string, read, written [][]byte) error {
	if g.p.registered.Load() == nil {
		return nil
	}
	for _, b := range read {
		if err := g.look(op, b, nil); err != nil {
			return err
		}
	}
	for _, b := range written {
		if err := g.look(op, nil, b); err != nil {
			return err
		}
	}
	return nil
}

// showTable tells all members a region of root with room for parts, and the lengths of the parts.
// Only the root's parts count. If members do different things, showTable fails at all of them.
func (g *Group) showTable(ctx context.Context, op string, f form, root int,
	parts [][]byte) (t table, h Handle, mem []byte, err error) {
	t = g.newTable()
	if g.rank == root {
		r, err := g.region(total(parts))
		if err != nil {
			return nil, h, nil, g.unfit(op, err)
		}
		mem = r.mem[:total(parts)]
		t.set(r.Handle(), f, parts)
	}
	if err := g.showAll(ctx, op, f, root, t); err != nil {
		return nil, h, nil, err
	}
	h.get(t)
	return t, h, mem, nil
}

// checkOwn compares the length of this member's part with the length that the root announced.
func (g *Group) checkOwn(op string, root int, t table, own []byte) error {
	if want := t.length(g.rank); want != uint64(len(own)) {
		return g.bad(op, "this member's part has %d bytes, and %v, the root, has %d for it", len(own),
			g.roster[root].Name, want)
	}
	return nil
}

// GatherParts copies part of every member to the member with rank root. There, all has one slice
// for each member, as long as that member's part. At the other members, all is ignored.
func (g *Group) GatherParts(ctx context.Context, root int, part []byte, all [][]byte) error {
	const op = "gather"
	if err := g.begin(ctx, op); err != nil {
		return err
	}
	defer g.done()
	if err := g.checkRoot(op, root); err != nil {
		return err
	}
	if g.rank != root {
		all = nil
	} else if err := g.checkParts(op, all, part); err != nil {
		return err
	}
	if err := g.lookAtParts(op, [][]byte{part}, all); err != nil {
		return err
	}
	_, mem, err := g.gatherParts(ctx, op, formGatherParts, root, part, all)
	if err == nil && g.rank == root {
		spread(all, mem)
	}
	return err
}

// gatherParts returns the root's table. At the root, it also returns the memory with all parts,
// one after the other.
func (g *Group) gatherParts(ctx context.Context, op string, f form, root int, part []byte,
	all [][]byte) (table, []byte, error) {
	t, h, mem, err := g.showTable(ctx, op, f, root, all)
	if err == nil {
		err = g.checkOwn(op, root, t, part)
	}
	// This also applies to a member of an all-gather that is not the root.
	if err == nil && all != nil {
		err = g.checkAll(op, root, t, all)
	}
	if err == nil {
		err = g.putOwn(ctx, op, root, h, mem, t.offset(g.rank), part)
	}
	return t, mem, err
}

// checkAll compares the lengths of all parts that this member expects with those that the root
// announced.
func (g *Group) checkAll(op string, root int, t table, all [][]byte) error {
	for i, b := range all {
		if want := t.length(i); want != uint64(len(b)) {
			return g.bad(op, "%d bytes for the part of %v, and %v has %d for it", len(b), g.roster[i].Name,
				g.roster[root].Name, want)
		}
	}
	return nil
}

// spread copies bytes to parts, one after the other.
func spread(parts [][]byte, from []byte) {
	for _, b := range parts {
		from = from[copy(b, from):]
	}
}

// AllGatherParts is GatherParts whose result every member gets.
func (g *Group) AllGatherParts(ctx context.Context, part []byte, all [][]byte) error {
	const op, root = "all-gather", 0
	if err := g.begin(ctx, op); err != nil {
		return err
	}
	defer g.done()
	if err := g.checkParts(op, all, part); err != nil {
		return err
	}
	if err := g.lookAtParts(op, [][]byte{part}, all); err != nil {
		return err
	}
	_, mem, err := g.gatherParts(ctx, op, formAllGatherParts, root, part, all)
	if err != nil {
		return err
	}
	if g.rank != root {
		mem = make([]byte, total(all))
	}
	if err := g.broadcast(ctx, op, root, mem); err != nil {
		return err
	}
	spread(all, mem)
	return nil
}

// ScatterParts copies to each member the part of its rank in all of the member with rank root. At
// the other members, all is ignored.
func (g *Group) ScatterParts(ctx context.Context, root int, all [][]byte, part []byte) error {
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
	} else if err := g.checkParts(op, all, part); err != nil {
		return err
	}
	if err := g.lookAtParts(op, all, [][]byte{part}); err != nil {
		return err
	}
	if g.rank == root {
		r, err := g.region(total(all))
		if err != nil {
			return g.unfit(op, err)
		}
		copyParts(r.mem, all)
	}
	t, h, mem, err := g.showTable(ctx, op, formScatterParts, root, all)
	if err == nil {
		err = g.checkOwn(op, root, t, part)
	}
	if err != nil {
		return err
	}
	return g.getOwn(ctx, op, root, h, mem, t.offset(g.rank), part)
}

// AllToAllParts copies from[j] of every member i to to[i] of member j. Both must have the same
// length.
func (g *Group) AllToAllParts(ctx context.Context, from, to [][]byte) error {
	const op = "all-to-all"
	if err := g.begin(ctx, op); err != nil {
		return err
	}
	defer g.done()
	if len(from) != len(g.roster) {
		return g.bad(op, "%d parts for %d members", len(from), len(g.roster))
	}
	if err := g.checkParts(op, to, from[g.rank]); err != nil {
		return err
	}
	if err := g.lookAtParts(op, from, to); err != nil {
		return err
	}
	seats := seatBytes * len(g.roster)
	// This is not the region that gathers use, which is announced and used up in between.
	r, err := g.p.allocInner(seats + total(to))
	if err != nil {
		return g.unfit(op, err)
	}
	err = g.exchangeParts(ctx, op, r, from, to)
	if err == nil {
		copy(to[g.rank], from[g.rank])
		at := r.mem[seats:]
		for i, b := range to {
			if i != g.rank {
				copy(b, at)
			}
			at = at[len(b):]
		}
	}
	if cerr := r.Close(); err == nil && cerr != nil {
		return g.fail(op, Message{}, cerr)
	}
	return err
}

// exchangeParts puts each part of from into the region of its member. Before that, each member
// tells each other member the place of its part in the region, and the expected length:
//
//	seat of rank 0: offset 8, length 8 ── seat of rank 1 … ── part of rank 0 ── part of rank 1 …
func (g *Group) exchangeParts(ctx context.Context, op string, r *Region, from, to [][]byte) error {
	handles, err := g.tellOf(ctx, op, formAllToAllParts, r)
	if err != nil {
		return err
	}
	n, le := len(g.roster), binary.LittleEndian
	told, at := make([]byte, n*seatBytes), n*seatBytes
	for i, b := range to {
		le.PutUint64(told[i*seatBytes:], uint64(at))
		le.PutUint64(told[i*seatBytes+8:], uint64(len(b)))
		at += len(b)
	}
	seat := func(b []byte, rank int) []byte { return b[rank*seatBytes:][:seatBytes] }
	if err := g.putEach(ctx, handles, func(to int) (uint64, []byte) {
		return uint64(g.rank * seatBytes), seat(told, to)
	}); err != nil {
		return g.missed(ctx, op, err)
	}
	if err := g.barrier(ctx, op); err != nil {
		return err
	}
	for i, b := range from {
		if want := le.Uint64(seat(r.mem, i)[8:]); i != g.rank && want != uint64(len(b)) {
			return g.bad(op, "%d bytes for %v, which expects %d", len(b), g.roster[i].Name, want)
		}
	}
	if err := g.putEach(ctx, handles, func(to int) (uint64, []byte) {
		return le.Uint64(seat(r.mem, to)), from[to]
	}); err != nil {
		return g.missed(ctx, op, err)
	}
	return g.barrier(ctx, op)
}
