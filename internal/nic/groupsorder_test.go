package nic

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/coll"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// A process joins, cancels and joins again, on a network where records overtake one another.
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
			l := f.engines[1].groups.Groups()
			return len(l) == 1 && len(l[0].Members) == 1 && f.engines[0].Quiet()
		})
		two := b.startJoin("pair", 0, 2, 0, make([]byte, len(roster)))
		a.wantStatus(one, vni.StatusOK)
		b.wantStatus(two, vni.StatusOK)
		a.exit()
		b.exit()
		f.until(5*time.Second, "all is forgotten", func() bool {
			return f.engines[0].groups.Len()+f.engines[1].groups.Len()+f.engines[2].groups.Len() == 0
		})
	}
}

// The stranger's NIC does not know the members: its pairs with their NICs have told it nothing
// yet.
func TestAJoinToAFullGroupIsRefusedByItsMembersNICs(t *testing.T) {
	f := newFabric(t, 4, fault.Config{Seed: 3, Loss: 0.1})
	g := newTeam(f, 3)
	x := f.process(3, "x/0")
	e := f.engines[3]
	// As if their joins were still on the way.
	e.groups = coll.New(coll.Config{NIC: 4, MTU: 1472, Counts: e.counts}, forGroups{(*services)(e)})
	for _, pr := range e.peers.list {
		e.groups.Up(&pr.groups)
	}
	x.wantStatus(x.startJoin("team", 0, 3, 0, make([]byte, 3*vni.RosterBytes)), vni.StatusGroupSize)
	g.each(func(i int, p *tester) int { return p.barrier(g.numbers[i], 3) }, g.ok)
	f.until(time.Second, "the stranger's NIC forgets its join", func() bool { return e.groups.Len() == 0 })
	for i, e := range f.engines[:3] {
		if n := e.groups.Len(); n != 1 {
			t.Errorf("NIC %d knows %d groups", i, n)
		}
	}
}
