package coll

import (
	"encoding/binary"
	"testing"

	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// contribute passes a contribution of the peer, whose rank is 1, to the first operation after the
// join.
func (g *team) contribute(op uint8, payload []byte) {
	p := wire.Piece{GroupHeader: wire.GroupHeader{Group: g.numbers[0], Operation: 1, Rank: 1}, Length: uint32(len(payload)), What: pieceContribution, Operator: op}
	g.Piece(g.peers[2], p, payload)
	g.Run()
}

// A contribution with an unknown operator, or with a part of an element, is ignored completely.
func TestContributionsThatCannotBeCombinedAreDropped(t *testing.T) {
	for what, c := range map[string]struct {
		op    uint8
		bytes int
	}{
		"operator 0":                     {0, 8},
		"the operator behind the last":   {uint8(vni.Agree) + 1, 8},
		"an operator of another release": {0x7f, 8},
		"half an element of 8 bytes":     {uint8(vni.SumInt64), 12},
		"half an element of 4 bytes":     {uint8(vni.SumInt32), 6},
	} {
		g := pair(t)
		before := g.counts[vni.DropFormat]
		g.contribute(c.op|wantedByAll, make([]byte, c.bytes))
		if n := g.counts[vni.DropFormat] - before; n != 1 {
			t.Errorf("%s: %d records dropped, expected one", what, n)
		}
		if g.buffers != 0 || g.member(0).state != memberOpen {
			t.Errorf("%s: %d buffers in use, the member is in state %d", what, g.buffers, g.member(0).state)
		}
	}
}

// A member contributes once. A second contribution would replace that of another member, and leak
// its memory.
func TestAContributionCountsOnce(t *testing.T) {
	g := trio(t)
	mine, theirs := make([]byte, 8), make([]byte, 8)
	binary.LittleEndian.PutUint64(theirs, 7)
	r := g.start(0, vni.CodeReduce, uint64(vni.SumUint64)<<32, mine)
	before := g.counts[vni.DropFormat]
	for range 3 {
		g.contribute(uint8(vni.SumUint64), theirs)
	}
	if n := g.counts[vni.DropFormat] - before; r.done || g.buffers != 1 || n != 2 {
		t.Fatalf("one of two has contributed three times: the reduction has ended %v, %d buffers in use, %d dropped", r.done, g.buffers, n)
	}
	p := wire.Piece{GroupHeader: wire.GroupHeader{Group: g.numbers[0], Operation: 1, Rank: 2}, Length: 8, What: pieceContribution, Operator: uint8(vni.SumUint64)}
	g.Piece(g.peers[3], p, theirs)
	if g.Run(); !r.done || r.c.Status != vni.StatusOK || binary.LittleEndian.Uint64(mine) != 14 {
		t.Errorf("ended %v, with %v: the sum is %d, expected 14", r.done, r.c.Status, binary.LittleEndian.Uint64(mine))
	}
	g.wantIdle()
}

func TestAProcessReducesWholeElementsOfItsOperator(t *testing.T) {
	for _, c := range []struct {
		op    vni.Operator
		bytes int
		want  vni.Status
	}{
		{vni.SumUint32, 12, vni.StatusOK},
		{vni.SumUint32, 6, vni.StatusBadArgument},
		{vni.SumUint64, 12, vni.StatusBadArgument},
		{vni.Agree + 1, 8, vni.StatusBadArgument},
	} {
		g := pair(t)
		mine, theirs := make([]byte, c.bytes), make([]byte, c.bytes)
		if c.bytes == 12 { // an odd number of elements of 4 bytes
			binary.LittleEndian.PutUint32(mine[8:], 5)
			binary.LittleEndian.PutUint32(theirs[8:], 1<<32-2)
		}
		r := g.start(0, vni.CodeReduce, uint64(c.op)<<32, mine)
		if c.want == vni.StatusOK {
			g.contribute(uint8(c.op), theirs)
		}
		if !r.done || r.c.Status != c.want {
			t.Errorf("operator %d on %d bytes: ended %v, with %v; expected %v", c.op, c.bytes, r.done, r.c.Status, c.want)
		}
		if c.want == vni.StatusOK && binary.LittleEndian.Uint32(mine[8:]) != 3 {
			t.Errorf("the last of three elements is %d", binary.LittleEndian.Uint32(mine[8:]))
		}
	}
}
