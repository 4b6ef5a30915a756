package coll

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

func TestNewsOfMembersIsTakenInItsOrder(t *testing.T) {
	e := newEngine(t, 1)
	pr := e.peers[2]
	for _, c := range []struct {
		record []byte
		live   int // seats of the peer afterwards
	}{
		{news(wire.TableLeave, 2, "a", 1, 1, 3), 0}, // before its join: waits
		// the second join of the same process waits too
		{news(wire.TableJoin, 3, "a", 1, 2, 3), 0},
		{news(wire.TableJoin, 1, "a", 1, 1, 3), 1},  // now all three count, and the last one stays
		{news(wire.TableJoin, 1, "a", 1, 1, 3), 1},  // told twice: ignored
		{news(wire.TableLeave, 4, "b", 2, 9, 3), 1}, // of one that has never joined
		{news(wire.TableJoin, 5, "b", 2, 10, 3), 2},
		{news(wire.TableLeave, 6, "a", 1, 2, 0), 1},
	} {
		e.News(pr, c.record)
		n := 0
		for _, g := range e.list {
			n += len(g.seats)
		}
		if n != c.live || e.Len() > 1 {
			t.Fatalf("change %d: %d seats in %d groups; expected %d", binary.LittleEndian.Uint32(c.record[80:]), n, e.Len(), c.live)
		}
	}
	before := e.counts[vni.DropFormat]
	e.News(pr, news(wire.TableJoin, 7+2*limits.SeatsPerNIC, "c", 3, 11, 3))
	e.News(pr, news(wire.TableJoin, 7, "c", 3, 11, 3)[:seatLen-1])
	if e.counts[vni.DropFormat] != before+2 || len(pr.news.early) != 0 {
		t.Errorf("a change that cannot be one is kept: %d", len(pr.news.early))
	}
	pr.news.taken = limits.SeatsPerNIC // over time: most have gone
	e.News(pr, news(wire.TableJoin, 7, "c", 3, 11, 3))
	if pr.news.taken != 2 || len(e.list[0].seats) != 2 {
		t.Errorf("%d seats, %d counted; expected 2", len(e.list[0].seats), pr.news.taken)
	}
}

// A process has one seat in a group, whatever its NIC tells.
func TestAProcessHasOneSeatInAGroup(t *testing.T) {
	e := newEngine(t, 1)
	pr := e.peers[2]
	for number := range uint32(3) {
		e.News(pr, news(wire.TableJoin, number+1, "a", 1, number+1, 3))
	}
	if n := len(e.list[0].seats); n != 1 || e.Len() != 1 || e.counts[vni.DropFormat] != 2 || pr.news.taken != 1 {
		t.Errorf("a process that has joined three times has %d seats in %d groups, %d counted; %d records dropped", n, e.Len(), pr.news.taken, e.counts[vni.DropFormat])
	}
}

func TestASeatWhoseNICWasAwayForAWhileIsBack(t *testing.T) {
	e := newEngine(t, 2)
	newTeam(e, 0, 2)
	g, pr := e.list[0], e.peers[2]
	if !g.complete {
		t.Fatal("the group is not complete")
	}
	e.Down(pr, false)
	if !g.broken || !g.seats[0].gone {
		t.Fatalf("after the loss: broken %v, gone %v", g.broken, g.seats[0].gone)
	}
	e.News(pr, news(wire.TableJoin, 1, "p0", 1, 1, 2)) // of the new session
	if g.broken || g.seats[0].gone || e.Len() != 1 {
		t.Errorf("after its return: broken %v, gone %v, %d groups", g.broken, g.seats[0].gone, e.Len())
	}
}

// A member here has been told that its group is broken. So the group stays broken for it, even if
// the lost member reappears.
func TestASeatIsNotTakenBackBesideMembersThatWereToldOfItsLoss(t *testing.T) {
	e := pair(t)
	g, pr := e.member(0).g, e.peers[2]
	lost := slices.IndexFunc(g.seats, func(s seat) bool { return s.NIC == 2 })
	e.Down(pr, false)
	if lost < 0 || !g.broken || !g.seats[lost].gone || len(g.local) != 1 {
		t.Fatalf("after the loss: broken %v, gone %v, %d members here", g.broken, g.seats[lost].gone, len(g.local))
	}
	e.News(pr, news(wire.TableJoin, 1, "p0", 1, 1, 2)) // of the new session
	if !g.broken || !g.seats[lost].gone {
		t.Errorf("after its return: broken %v, gone %v; expected both to stay", g.broken, g.seats[lost].gone)
	}
	if r := e.start(0, vni.CodeBarrier, 1, nil); !r.done || r.c.Status != vni.StatusGroupBroken {
		t.Errorf("an operation behind it: done %v, status %v; expected that it fails", r.done, r.c.Status)
	}
}
