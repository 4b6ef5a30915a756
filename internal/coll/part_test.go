package coll

import (
	"testing"

	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// joinPart posts the join of a part of a team by a member.
func (g *team) joinPart(i int, key vni.Name, size uint32) *request {
	r := &request{memory: make([]byte, 4*vni.RosterBytes)}
	g.Command(g.local[i], r, vni.Command{Code: vni.CodeJoinGroup, Group: g.numbers[i], Size: size}, &vni.SendContext{Receiver: key})
	g.Run()
	return r
}

var partKey = vni.PartKey(vni.Address{NIC: 1, Slot: 1, Gen: 7}, 0)

// The peer's process is in the whole, and would be in the part. It goes before it has joined the
// part.
func TestTheJoinOfAPartEndsWhenAMemberOfTheWholeGoes(t *testing.T) {
	g := pair(t)
	r := g.joinPart(0, partKey, 2)
	if r.done {
		t.Fatalf("a part of two has one member, and its join has ended with %v", r.c.Status)
	}
	pr := g.peers[2]
	g.News(pr, news(wire.TableLeave, pr.news.heard+1, "p0", 1, 1, 2))
	if gone := (vni.Address{NIC: r.c.NIC, Slot: r.c.Slot, Gen: r.c.Gen}); !r.done || r.c.Status != vni.StatusGroupBroken || gone != (vni.Address{NIC: 2, Slot: 1, Gen: 7}) {
		t.Errorf("the join has ended: %v, with %v because of %v", r.done, r.c.Status, gone)
	}
	if later := g.joinPart(0, partKey, 2); !later.done || later.c.Status != vni.StatusGroupBroken {
		t.Errorf("a join of a part of the broken group has ended: %v, with %v", later.done, later.c.Status)
	}
	g.Gone(g.local[0])
	if g.wantIdle(); len(g.members) != 0 {
		t.Errorf("%d members", len(g.members))
	}
}

func TestAPartIsJoinedByMembersOfTheWholeAndByItsOwnKind(t *testing.T) {
	named, shrunk := teamKey, partKey
	shrunk.Index++
	for what, c := range map[string]struct {
		group uint32 // 0: not the whole's number
		key   vni.Name
		size  uint32
		want  vni.Status
	}{
		"of no group":           {0, partKey, 2, vni.StatusBadArgument},
		"more than the whole":   {1, partKey, 3, vni.StatusBadArgument},
		"by a name":             {1, named, 2, vni.StatusBadArgument},
		"of a later epoch":      {1, shrunk, 2, vni.StatusBadArgument},
		"of a group of another": {99, partKey, 2, vni.StatusNoGroup},
	} {
		g := pair(t)
		r := &request{memory: make([]byte, 4*vni.RosterBytes)}
		number := c.group
		if number == 1 {
			number = g.numbers[0]
		}
		g.Command(g.local[0], r, vni.Command{Code: vni.CodeJoinGroup, Group: number, Size: c.size}, &vni.SendContext{Receiver: c.key})
		if !r.done || r.c.Status != c.want {
			t.Errorf("a part %s: ended %v, with %v; expected %v", what, r.done, r.c.Status, c.want)
		}
	}
}

// twoAndOne returns a started team of two processes here and one at the peer.
func twoAndOne(t *testing.T) *team {
	g := newTeam(newEngine(t, 1), 2, 1)
	for i := range 2 {
		if g.member(i).join != nil { // the peer takes part in operation 0
			g.Signal(g.peers[2], wire.Signal{GroupHeader: wire.GroupHeader{Group: g.numbers[i], Rank: 2}, What: signalRound, Value: g.member(i).g.sum})
			g.Signal(g.peers[2], wire.Signal{GroupHeader: wire.GroupHeader{Group: g.numbers[i], Rank: 2}, What: signalRound, Round: 1, Value: g.member(i).g.sum})
			g.Run()
		}
	}
	return g
}

// The whole is watched while a part is joined, and no longer.
func TestAJoinOfAPartWatchesTheWholeUntilItEnds(t *testing.T) {
	g := twoAndOne(t)
	first := g.joinPart(0, partKey, 2)
	m := g.local[0].members[1]
	if first.done || len(m.watched) == 0 || !watched(g.peers[2]) {
		t.Fatalf("the first join has ended: %v; it watches %d peers", first.done, len(m.watched))
	}
	if second := g.joinPart(1, partKey, 2); !first.done || !second.done || first.c.Status != vni.StatusOK || second.c.Status != vni.StatusOK {
		t.Fatalf("the joins have ended: %v and %v, with %v and %v", first.done, second.done, first.c.Status, second.c.Status)
	}
	if len(m.watched) != 0 || m.whole != nil {
		t.Errorf("a join that has ended watches %d peers", len(m.watched))
	}
	g.wantIdle()
}
