package coll

import (
	"encoding/binary"
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// News that no NIC can tell is dropped, and leaves no group.
func TestNewsThatCannotBeIsDropped(t *testing.T) {
	le := binary.LittleEndian
	for what, c := range map[string]struct {
		change func(b []byte)
		taken  bool
	}{
		"as it is":                      {func([]byte) {}, true},
		"slot 0":                        {func(b []byte) { le.PutUint16(b[2:], 0) }, false},
		"number 0":                      {func(b []byte) { le.PutUint32(b[8:], 0) }, false},
		"the largest size":              {func(b []byte) { le.PutUint32(b[12:], limits.GroupMembers) }, true},
		"a size that is too large":      {func(b []byte) { le.PutUint32(b[12:], limits.GroupMembers+1) }, false},
		"no name of the group":          {func(b []byte) { clear(b[20:44]) }, false},
		"a name with a gap":             {func(b []byte) { b[43] = 'x' }, false},
		"the smallest piece":            {func(b []byte) { le.PutUint32(b[44:], leastPiece) }, true},
		"a piece that is too small":     {func(b []byte) { le.PutUint32(b[44:], leastPiece-1) }, false},
		"no name of the process":        {func(b []byte) { clear(b[52:76]) }, false},
		"a position outside each torus": {func(b []byte) { (wire.Position{X: 5, Y: 1, Width: 2, Height: 2}).Put(b[84:]) }, false},
	} {
		e := newEngine(t, 1)
		b := news(wire.TableJoin, 1, "a", 1, 1, 3)
		c.change(b)
		e.News(e.peers[2], b)
		if dropped := e.counts[vni.DropFormat]; (dropped == 0) != c.taken || e.Len() > 0 != c.taken {
			t.Errorf("%s: %d dropped, %d groups; taken should be %v", what, dropped, e.Len(), c.taken)
		}
		e.News(e.peers[2], news(wire.TableLeave, 2, "a", 1, 1, 0)) // the next is still accepted
		if e.peers[2].news.heard != 2 {
			t.Errorf("%s: the next change is not taken", what)
		}
	}
}

// A piece of a broadcast has one of the places that the data has, and its length.
func TestAPieceThatHasNoPlaceIsDropped(t *testing.T) {
	const length = 5000
	piece := int(newTeam(newEngine(t, 1), 1, 1).member(0).g.piece)
	for what, c := range map[string]struct {
		offset, length, bytes int
		dropped               uint64
	}{
		"the first one":             {0, length, piece, 0},
		"the last one":              {3 * piece, length, length - 3*piece, 0},
		"a short one":               {0, length, piece - 1, 1},
		"a long one":                {0, length, piece + 1, 1},
		"of another length":         {0, length + 1, piece, 1},
		"between two places":        {8, length, piece, 1},
		"behind the end":            {4 * piece, length, piece, 1},
		"the last one, that is cut": {3 * piece, length, length - 3*piece - 1, 1},
	} {
		g := pair(t)
		if int(length) <= 3*piece || int(length) > 4*piece {
			t.Fatalf("pieces have %d bytes", piece)
		}
		g.hear(signalOffer, 1, 1, 1<<32|length)
		p := wire.Piece{GroupHeader: wire.GroupHeader{Group: g.numbers[0], Operation: 1, Rank: 1}, Root: 1, Offset: uint32(c.offset), Length: uint32(c.length), What: pieceBroadcast}
		before := g.counts[vni.DropFormat]
		for k := range uint64(2) { // the second time it is a duplicate
			g.Piece(g.peers[2], p, make([]byte, c.bytes))
			if n, want := g.counts[vni.DropFormat]-before, k+c.dropped; n != want {
				t.Errorf("%s, time %d: %d dropped, expected %d", what, k+1, n, want)
			}
		}
		if have := len(g.member(0).ops[1].order); have != 1-int(c.dropped) || g.buffers != 1 {
			t.Errorf("%s: %d pieces are here, in %d buffers", what, have, g.buffers)
		}
		g.Gone(g.local[0])
		g.wantIdle()
	}
}

// Short data arrives without an offer: only short data, and not at its own root.
func TestDataThatWasNotOfferedIsShort(t *testing.T) {
	for what, c := range map[string]struct {
		root, bytes int
		taken       bool
	}{"one piece": {1, 8, true}, "more than one": {1, 5000, false}, "of the member that hears it": {0, 8, false}, "of no member": {2, 8, false}} {
		g := pair(t)
		p := wire.Piece{GroupHeader: wire.GroupHeader{Group: g.numbers[0], Operation: 1, Rank: 1}, Root: uint32(c.root), Length: uint32(c.bytes), What: pieceBroadcast}
		before := g.counts[vni.DropFormat]
		g.Piece(g.peers[2], p, make([]byte, min(c.bytes, g.member(0).g.piece)))
		if taken := g.buffers == 1; taken != c.taken || (g.counts[vni.DropFormat] == before) != c.taken {
			t.Errorf("%s: taken %v, %d dropped", what, taken, g.counts[vni.DropFormat]-before)
		}
		g.Gone(g.local[0])
		g.wantIdle()
	}
}

// A contribution fits one piece, and states its length.
func TestAContributionFitsOnePiece(t *testing.T) {
	piece := newTeam(newEngine(t, 1), 1, 1).member(0).g.piece
	for _, c := range []struct {
		bytes, says int
		taken       bool
	}{{piece, piece, true}, {piece + 8, piece + 8, false}, {8, 16, false}, {16, 8, false}} {
		g := pair(t)
		p := wire.Piece{GroupHeader: wire.GroupHeader{Group: g.numbers[0], Operation: 1, Rank: 1}, Length: uint32(c.says), What: pieceContribution, Operator: uint8(vni.SumUint64)}
		g.Piece(g.peers[2], p, make([]byte, c.bytes))
		if taken := g.buffers == 1; taken != c.taken || (g.counts[vni.DropFormat] == 0) != c.taken {
			t.Errorf("%d bytes that say to be %d: taken %v, %d dropped", c.bytes, c.says, taken, g.counts[vni.DropFormat])
		}
		g.Gone(g.local[0])
		g.wantIdle()
	}
}

// The arguments of an operation are checked before it begins. A refused operation takes no
// number.
func TestAnOperationWithABadArgumentDoesNotBegin(t *testing.T) { // QNIX-54
	g := pair(t)
	m := g.member(0)
	sum := uint64(vni.SumUint64) << 32
	for what, c := range map[string]struct {
		code   vni.Code
		tag    uint64
		length int
	}{
		"a broadcast of a rank behind the last":   {vni.CodeBroadcast, 2, 8},
		"a broadcast of every rank":               {vni.CodeBroadcast, vni.AllRanks, 8},
		"a broadcast that is too long":            {vni.CodeBroadcast, 0, limits.BroadcastBytes + 1},
		"a reduction at a rank behind the last":   {vni.CodeReduce, sum | 2, 8},
		"a reduction longer than a piece":         {vni.CodeReduce, sum, m.g.piece + 8},
		"a reduction by no operator":              {vni.CodeReduce, 0, 8},
		"a reduction of half an element":          {vni.CodeReduce, sum, 12},
		"a reduction by an operator that is none": {vni.CodeReduce, uint64(vni.Agree+1) << 32, 8},
	} {
		if r := g.start(0, c.code, c.tag, make([]byte, c.length)); !r.done || r.c.Status != vni.StatusBadArgument || m.next != 1 || len(m.ops) != 0 {
			t.Errorf("%s: ended %v, with %v; the next operation is %d", what, r.done, r.c.Status, m.next)
		}
	}
	other := &request{}
	g.Command(g.local[0], other, vni.Command{Code: vni.CodeBarrier, Group: g.numbers[0], Size: 3}, &vni.SendContext{})
	if other.c.Status != vni.StatusGroupSize || m.next != 1 {
		t.Errorf("a barrier of another size ends with %v", other.c.Status)
	}
	none := &request{}
	g.Command(g.local[0], none, vni.Command{Code: vni.CodeBarrier, Group: 99, Size: 2}, &vni.SendContext{})
	if none.c.Status != vni.StatusNoGroup {
		t.Errorf("a barrier of no group ends with %v", none.c.Status)
	}
	unsized := &request{memory: make([]byte, 8)} // only a barrier states the size
	g.Command(g.local[0], unsized, vni.Command{Code: vni.CodeBroadcast, Group: g.numbers[0]}, &vni.SendContext{Len: 8})
	if unsized.done || m.next != 2 {
		t.Errorf("a broadcast has ended with %v", unsized.c.Status)
	}
	for what, c := range map[string]struct {
		code  vni.Code
		group uint32
		tag   uint64
		want  bool
	}{
		"a join":                     {vni.CodeJoinGroup, 0, 0, true},
		"the root's broadcast":       {vni.CodeBroadcast, g.numbers[0], 0, false},
		"another's broadcast":        {vni.CodeBroadcast, g.numbers[0], 1, true},
		"the root's reduction":       {vni.CodeReduce, g.numbers[0], sum, true},
		"another's reduction":        {vni.CodeReduce, g.numbers[0], sum | 1, false},
		"a reduction for all":        {vni.CodeReduce, g.numbers[0], sum | vni.AllRanks, true},
		"a barrier":                  {vni.CodeBarrier, g.numbers[0], 0, false},
		"a reduction in no group":    {vni.CodeReduce, 99, sum | vni.AllRanks, false},
		"another's bcast in no grp.": {vni.CodeBroadcast, 99, 1, false},
	} {
		if got := g.local[0].Writes(vni.Command{Code: c.code, Group: c.group}, c.tag); got != c.want {
			t.Errorf("%s writes to the process's memory: %v", what, got)
		}
	}
	g.Gone(g.local[0])
	g.wantIdle()
}

// Other members' records must agree with the operation as this member knows it. Otherwise the
// group breaks, since it would wait for ever.
func TestWhatDoesNotFitAnOperationBreaksTheGroup(t *testing.T) { // QNIX-54
	long := uint64(1<<32 | 5000)
	contribution := func(g *team) { g.contribute(uint8(vni.SumUint64), make([]byte, 8)) }
	offer := func(g *team) { g.hear(signalOffer, 1, 1, long) }
	round := func(g *team) { g.hear(signalRound, 1, 1, 0) }
	short := func(g *team) { g.broadcast(1, 8) }
	begin := func(code vni.Code, tag uint64) func(g *team) {
		return func(g *team) { g.start(0, code, tag, make([]byte, 8)) }
	}
	sum := uint64(vni.SumUint64) << 32
	for what, c := range map[string][2]func(g *team){
		"an offer after a round":                  {round, offer},
		"a second offer":                          {offer, offer},
		"an offer after a contribution":           {contribution, offer},
		"an offer of another root":                {begin(vni.CodeBroadcast, 0), offer},
		"a round after an offer":                  {offer, round},
		"a round after a contribution":            {contribution, round},
		"a contribution after an offer":           {offer, contribution},
		"a contribution after data":               {short, contribution},
		"data after a contribution":               {contribution, short},
		"data of another root":                    {begin(vni.CodeBroadcast, 0), short},
		"a contribution to a barrier":             {begin(vni.CodeBarrier, 0), contribution},
		"a contribution of another length":        {begin(vni.CodeReduce, sum), func(g *team) { g.contribute(uint8(vni.SumUint64), make([]byte, 16)) }},
		"a contribution by another operator":      {begin(vni.CodeReduce, sum), func(g *team) { g.contribute(uint8(vni.MaxUint64), make([]byte, 8)) }},
		"a contribution whose result all want":    {begin(vni.CodeReduce, sum), func(g *team) { g.contribute(uint8(vni.SumUint64)|wantedByAll, make([]byte, 8)) }},
		"the process's barrier after an offer":    {offer, begin(vni.CodeBarrier, 0)},
		"the process's other root after an offer": {offer, begin(vni.CodeBroadcast, 0)},
		"the process's longer reduction":          {contribution, func(g *team) { g.start(0, vni.CodeReduce, sum, make([]byte, 16)) }},
	} {
		g := pair(t)
		c[0](g)
		if g.member(0).state != memberOpen {
			t.Errorf("%s: the first alone breaks the group", what)
		}
		g.peers[2].signals = nil
		c[1](g)
		signals := g.peers[2].signals
		if m := g.member(0); m.state != memberBroken || !m.wrong || len(m.ops) != 0 || len(signals) == 0 || signals[len(signals)-1].What != signalMismatch || signals[len(signals)-1].Value != m.g.sum {
			t.Errorf("%s: the member is in state %d, wrong %v, %d operations; it tells %+v", what, m.state, m.wrong, len(m.ops), signals)
		}
		if r := g.start(0, vni.CodeBarrier, 0, nil); r.c.Status != vni.StatusGroupMismatch {
			t.Errorf("%s: the next operation ends with %v", what, r.c.Status)
		}
		g.Gone(g.local[0])
		g.wantIdle()
	}
}
