package coll

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// QNIX-54. Seats are taken in any order, and told again; they stand in that of the names.
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
