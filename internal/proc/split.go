package proc

import (
	"context"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// A split of a group takes three steps:
//
//	colors are gathered ──► the members of one color join its part ──► barrier of the whole ──► each has its part
//
// A part's key is made of the address of its leader, which is its member with the lowest name, and
// of how many groups that process has split before (vni.PartKey): no two parts ever have the same.
// If a member of the whole goes before the barrier, the split fails at the others, and they leave
// the parts.

// choice is what a member tells of a split.
//
//	0  color  8
//	8  splits  8   that its process has entered
//	16 number  8   of splits of the group that it knows of
const choiceBytes = 24

// Split makes groups of the members that give the same color, and returns the one of this process;
// nil if its color is negative.
func (g *Group) Split(ctx context.Context, color int) (*Group, error) {
	const op = "split"
	if err := g.begin(ctx, op); err != nil {
		return nil, err
	}
	defer g.done()
	count := g.p.splits.Add(1) - 1
	if count >= vni.PartsCounted {
		g.p.splits.Store(vni.PartsCounted)
		return nil, g.unfit(op, fmt.Errorf("%w: the process has split %d groups, which is the most", ErrNoMemory, vni.PartsCounted))
	}
	le := binary.LittleEndian
	var own [choiceBytes]byte
	le.PutUint64(own[:], uint64(color))
	le.PutUint64(own[8:], uint64(count))
	le.PutUint64(own[16:], g.splits)
	all := make([]byte, choiceBytes*len(g.roster))
	if err := g.allGather(ctx, op, formSplit, own[:], all); err != nil {
		return nil, err
	}
	leader, size := -1, 0
	for i := range g.roster {
		b := all[i*choiceBytes:]
		g.splits = max(g.splits, le.Uint64(b[16:]))
		if int64(le.Uint64(b)) == int64(color) {
			if size++; leader < 0 {
				leader = i
			}
		}
	}
	g.splits++
	n, err := g.joinPart(ctx, op, color, leader, size, uint32(le.Uint64(all[leader*choiceBytes+8:])))
	if err != nil {
		return nil, err
	}
	if err := g.barrier(ctx, op); err != nil {
		if n != nil {
			_ = n.close() // it has no region yet
		}
		return nil, err
	}
	return n, nil
}

// joinPart joins the part of a color, which has so many members; nil if the color is negative.
func (g *Group) joinPart(ctx context.Context, op string, color, leader, size int, count uint32) (*Group, error) {
	if color < 0 {
		return nil, nil
	}
	d := &g.roster[leader]
	key := vni.PartKey(vni.Address{NIC: d.NIC, Slot: d.Slot, Gen: d.Gen}, count)
	n, _, err := g.p.join(ctx, key, size, g.number, size)
	switch {
	case err == nil:
		n.name = partName(g.name, g.splits, color)
		return n, nil
	case errors.Is(err, ErrGroupBroken):
		// A member of the part may have left it because one of another part has gone, and may be
		// known here sooner. The barrier names the one that has broken the whole; it lets no member
		// through, since one that knows it does not enter.
		if err := g.barrier(ctx, op); err != nil {
			return nil, err
		}
	case errors.Is(err, ErrNoMemory):
		err = fmt.Errorf("%w: the process is in %d groups, which is the most", ErrNoMemory, limits.Groups)
	}
	return nil, g.unfit(op, err)
}

// partName names the part of a group that a split, which is the number-th, has made of a color. A
// group that was joined has no slash in its name, so that no part is called like one. What is too
// long keeps its beginning.
func partName(whole string, number uint64, color int) string {
	name := fmt.Sprintf("%s/%d.%d", whole, number, color)
	if len(name) <= limits.PartNameBytes {
		return name
	}
	h := fnv.New128a()
	h.Write([]byte(name))
	sum := "~" + base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil))
	return name[:limits.PartNameBytes-len(sum)] + sum
}
