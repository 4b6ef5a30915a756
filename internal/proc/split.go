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
//	gather the colors ──► the members of one color join its part ──► barrier of the whole
//	                                                                   └──► each has its part
//
// A part's key consists of the address of its leader and the number of groups that the leader has
// split before (vni.PartKey). The leader is the member with the lowest name. So no two parts ever
// have the same key. If a member of the whole is lost before the barrier, the split fails at the
// others, and they leave the parts.

// choice is a member's message about a split.
//
//	0  color  8
//	8  splits  8   splits that its process has entered
//	16 number  8   splits of the group that it knows
const choiceBytes = 24

// Split creates groups of the members that give the same color. It returns the group of this
// process, or nil if its color is negative.
func (g *Group) Split(ctx context.Context, color int) (*Group, error) {
	const op = "split"
	if err := g.begin(ctx, op); err != nil {
		return nil, err
	}
	defer g.done()
	count := g.p.splits.Add(1) - 1
	if count >= vni.PartsCounted {
		g.p.splits.Store(vni.PartsCounted)
		return nil, g.unfit(op, fmt.Errorf("%w: the process has split %d groups, which is the most", ErrNoMemory,
			vni.PartsCounted))
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

// joinPart joins the part of a color, which has size members. It returns nil if the color is
// negative.
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
		// A member of the part may have left because a member of another part was lost. The
		// former may be known here earlier than the latter. The barrier names the member that
		// broke the whole. It lets no member through, since a member that knows of the loss does
		// not enter.
		if err := g.barrier(ctx, op); err != nil {
			return nil, err
		}
	case errors.Is(err, ErrNoMemory):
		err = fmt.Errorf("%w: the process is in %d groups, which is the most", ErrNoMemory, limits.Groups)
	}
	return nil, g.unfit(op, err)
}

// partName returns the name of the part for a color, made by a group's split with the given
// number. A group that was joined has no slash in its name, so no part has the name of such a
// group. A name that is too long is cut at its end.
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
