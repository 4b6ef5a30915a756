package nic

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// news is a join or leave as a peer would tell it.
func news(op byte, change uint32, name string, slot uint16, number, size uint32) []byte {
	b := make([]byte, seatLen)
	s := seat{address: address{slot: slot, gen: 7}, number: number, size: size, piece: 1400}
	copy(s.name.App[:], name)
	var key vni.Name
	copy(key.App[:], "team")
	putSeat(b, op, &s, key, 0)
	binary.LittleEndian.PutUint32(b[80:], change)
	return b
}

func TestNewsOfMembersIsTakenInItsOrder(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	e := f.engines[0]
	pr := e.nodes.list[0]
	told := pr.seats.heard
	for _, c := range []struct {
		record []byte
		live   int // seats of the peer afterwards
	}{
		{news(tableLeave, told+2, "a", 1, 1, 3), 0}, // before its join: waits
		{news(tableJoin, told+3, "a", 1, 2, 3), 0},  // and so does the second join of the same process
		{news(tableJoin, told+1, "a", 1, 1, 3), 1},  // now all three count, and the last one stays
		{news(tableJoin, told+1, "a", 1, 1, 3), 1},  // told twice: no
		{news(tableLeave, told+4, "b", 2, 9, 3), 1}, // of one that has never been
		{news(tableJoin, told+5, "b", 2, 10, 3), 2},
		{news(tableLeave, told+6, "a", 1, 2, 0), 1},
	} {
		e.seatRecord(pr, c.record)
		n := 0
		for _, g := range e.groups.list {
			n += len(g.seats)
		}
		if n != c.live || len(e.groups.list) > 1 {
			t.Fatalf("change %d: %d seats in %d groups; expected %d", binary.LittleEndian.Uint32(c.record[80:])-told, n, len(e.groups.list), c.live)
		}
	}
	before := e.counts[vni.DropFormat]
	e.seatRecord(pr, news(tableJoin, told+7+2*limits.SeatsPerNIC, "c", 3, 11, 3))
	if e.counts[vni.DropFormat] != before+1 || len(pr.seats.early) != 0 {
		t.Errorf("a change that cannot be one is kept: %d", len(pr.seats.early))
	}
	pr.seats.taken = limits.SeatsPerNIC // over the time: most have gone
	e.seatRecord(pr, news(tableJoin, told+7, "c", 3, 11, 3))
	if pr.seats.taken != 2 || len(e.groups.list[0].seats) != 2 {
		t.Errorf("%d seats, %d counted; expected 2", len(e.groups.list[0].seats), pr.seats.taken)
	}
}

// A process that joins, thinks better of it and joins again, on a network where records overtake one another.
func TestAJoinAfterACancelledOneIsKnownEverywhere(t *testing.T) {
	for seed := range uint64(10) {
		f := newFabric(t, 3, fault.Config{Seed: seed*7 + 1, Loss: 0.2, Reorder: 0.4})
		a, b := f.process(0, "a/0"), f.process(1, "b/0")
		roster := make([]byte, 2*vni.RosterBytes)
		for range 5 {
			c := a.startJoin("pair", 0, 2, 0, roster)
			f.step()
			a.post(vni.Command{Code: vni.CodeCancel, Context: uint16(c)})
			a.wantStatus(c, vni.StatusCancelled)
		}
		one := a.startJoin("pair", 0, 2, 0, roster)
		f.until(5*time.Second, "the last join is known", func() bool {
			l := f.engines[1].groups.list
			return len(l) == 1 && len(l[0].seats) == 1 && l[0].seats[0].number == f.engines[0].groups.number
		})
		two := b.startJoin("pair", 0, 2, 0, make([]byte, len(roster)))
		a.wantStatus(one, vni.StatusOK)
		b.wantStatus(two, vni.StatusOK)
		a.exit()
		b.exit()
		f.until(5*time.Second, "all is forgotten", func() bool {
			return len(f.engines[0].groups.list)+len(f.engines[1].groups.list)+len(f.engines[2].groups.list) == 0
		})
	}
}

// The stranger's NIC does not know the members: its pair with theirs has told it nothing yet.
func TestAJoinToAFullGroupIsRefusedByItsMembersNICs(t *testing.T) {
	f := newFabric(t, 4, fault.Config{Seed: 3, Loss: 0.1})
	g := newTeam(f, 3)
	x := f.process(3, "x/0")
	t3 := &f.engines[3].groups
	t3.list, t3.byKey = nil, map[vni.Name]*group{} // as if their joins were still on the way
	x.wantStatus(x.startJoin("team", 0, 3, 0, make([]byte, 3*vni.RosterBytes)), vni.StatusGroupSize)
	g.each(func(i int, p *tester) int { return p.barrier(g.numbers[i], 3) }, g.ok)
	f.until(time.Second, "the stranger's NIC forgets its join", func() bool { return len(t3.list) == 0 })
	for i, e := range f.engines[:3] {
		if len(e.groups.list) != 1 {
			t.Errorf("NIC %d knows %d groups", i, len(e.groups.list))
		}
	}
}

func TestASeatWhoseNICWasAwayForAWhileIsBack(t *testing.T) {
	f := newFabric(t, 3, fault.Config{})
	newTeam(f, 2) // on the first two NICs
	e := f.engines[2]
	f.until(time.Second, "the third knows the group", func() bool { return len(e.groups.list) == 1 && e.groups.list[0].complete })
	g := e.groups.list[0]
	e.now = f.now
	e.losePeerSeats(e.peerOf(1), false)
	if !g.broken || !g.seats[0].gone {
		t.Fatalf("after the loss: broken %v, gone %v", g.broken, g.seats[0].gone)
	}
	b := make([]byte, seatLen)
	putSeat(b, tableJoin, &f.engines[0].groups.list[0].local[0].own, g.key, 0)
	binary.LittleEndian.PutUint32(b[80:], 1) // of the new session
	e.seatRecord(e.peerOf(1), b)
	if g.broken || g.seats[0].gone || len(e.groups.list) != 1 {
		t.Errorf("after its return: broken %v, gone %v, %d groups", g.broken, g.seats[0].gone, len(e.groups.list))
	}
}

func TestNumbersGoOnBehindTheLast(t *testing.T) {
	f := newFabric(t, 3, fault.Config{Seed: 5, Loss: 0.1})
	g := newTeam(f, 5)
	for i, p := range g.members {
		p.e.groups.members[g.numbers[i]].next = 1<<32 - 3
	}
	for range 6 {
		g.each(func(i int, p *tester) int { return p.barrier(g.numbers[i], 5) }, g.ok)
		g.each(func(i int, p *tester) int { return p.broadcast(g.numbers[i], 2, make([]byte, 5000)) }, g.ok)
	}
	if n := g.members[0].e.groups.members[g.numbers[0]].next; n == 0 || n > 100 {
		t.Errorf("the next operation is %d; the test has not gone behind the last number", n)
	}
	e := g.members[0].e
	e.groups.number = 1<<32 - 1
	first := e.groups.members[1]
	if e.groups.nextNumber(); first == nil || e.groups.number == 0 || e.groups.members[e.groups.number] != nil {
		t.Errorf("the next member has number %d, which is taken", e.groups.number)
	}
}

func TestTheOldestBroadcastFindsTransitMemory(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	g := newTeam(f, 2)
	p := g.members[0]
	m := p.e.groups.members[g.numbers[0]]
	p.e.now = f.now
	granted := func(number uint32) bool { c := m.ops[number]; return c != nil && c.held }
	for _, c := range []struct {
		number  uint32
		granted bool
	}{{7, true}, {8, true}, {9, false}, {5, true}, {6, false}} {
		p.e.offerHeard(m, 1, wire.Signal{GroupHeader: wire.GroupHeader{Operation: c.number, Rank: 1}, What: signalOffer, Value: 1<<32 | limits.BroadcastBytes})
		if granted(c.number) != c.granted {
			t.Fatalf("broadcast %d: granted %v", c.number, !c.granted)
		}
	}
	p.e.freeColl(m.ops[7])
	p.e.freeColl(m.ops[8])
	if !granted(6) || granted(9) {
		t.Errorf("with memory for one more: 6 has it %v, 9 has it %v", granted(6), granted(9))
	}
}
