package coll

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// QNIX-54. Seats are accepted in any order, and more than once. They are sorted by name.
func TestTheSeatsOfAGroupAreInTheOrderOfTheirNames(t *testing.T) {
	e := newEngine(t, 5)
	for k, nic := range []uint64{4, 2, 6, 3, 5} {
		e.News(e.peers[nic], news(wire.TableJoin, 1, fmt.Sprint("p", nic), 1, uint32(10+k), 5))
	}
	l := e.Groups()
	if len(l) != 1 || l[0].State != "complete" || l[0].Size != 5 || l[0].Name != "team" {
		t.Fatalf("the groups are %+v", l)
	}
	for i, m := range l[0].Members {
		if want := (vni.Address{NIC: uint64(2 + i), Slot: 1, Gen: 7}); m.Address != want || m.Name.Application() != fmt.Sprint("p", 2+i) {
			t.Errorf("member %d is %v at %v; expected %v", i, m.Name, m.Address, want)
		}
	}
	e.News(e.peers[3], news(wire.TableLeave, 2, "p3", 1, 13, 5))
	if l = e.Groups(); l[0].State != "broken" || l[0].Size != 5 || len(l[0].Members) != 4 ||
		slices.ContainsFunc(l[0].Members, func(m Member) bool { return m.NIC == 3 }) {
		t.Errorf("after a leave: %+v", l)
	}
}

// Two processes of one rank may live for a while. The group waits until one of them has gone.
func TestAGroupNeverHasTwoMembersOfOneName(t *testing.T) {
	for _, older := range []bool{false, true} { // which of the two goes
		e := newEngine(t, 4)
		e.News(e.peers[2], news(wire.TableJoin, 1, "p0", 1, 10, 3))
		e.News(e.peers[3], news(wire.TableJoin, 1, "p1", 1, 11, 3))
		e.News(e.peers[4], news(wire.TableJoin, 1, "p1", 1, 12, 3)) // of the newer process
		if l := e.Groups(); len(l) != 1 || l[0].State == "complete" {
			t.Fatalf("with three seats of two names: %+v", l)
		}
		e.News(e.peers[5], news(wire.TableJoin, 1, "p2", 1, 13, 3))
		if l := e.Groups(); len(l) != 1 || l[0].State == "complete" {
			t.Fatalf("with four seats of three names: %+v", l)
		}
		gone, stays := uint64(3), uint64(4)
		if !older {
			gone, stays = stays, gone
		}
		e.News(e.peers[gone], news(wire.TableLeave, 2, "p1", 1, uint32(8+gone), 3))
		l := e.Groups()
		if len(l) != 1 || l[0].State != "complete" || l[0].Size != 3 || l[0].Members[1].NIC != stays {
			t.Errorf("after the end of one: %+v; expected a complete group with the process on NIC %d", l, stays)
		}
	}
}

func TestAJoinFindsRoomAmongTwins(t *testing.T) {
	e := newEngine(t, 3)
	e.News(e.peers[2], news(wire.TableJoin, 1, "a", 1, 10, 3))
	e.News(e.peers[3], news(wire.TableJoin, 1, "b", 1, 11, 3))
	e.News(e.peers[4], news(wire.TableJoin, 1, "b", 1, 12, 3))
	r := &request{memory: make([]byte, 3*vni.RosterBytes)}
	e.Command(process(0), r, vni.Command{Code: vni.CodeJoinGroup, Size: 3}, &vni.SendContext{Receiver: teamKey})
	if r.done {
		t.Fatalf("a third member beside twins ends with %v", r.c.Status)
	}
	e.News(e.peers[3], news(wire.TableLeave, 2, "b", 1, 11, 3))
	if l := e.Groups(); len(l) != 1 || l[0].State != "complete" || l[0].Size != 3 {
		t.Errorf("after the end of one twin: %+v", l)
	}
}
