package names

import (
	"testing"

	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// homedIn returns a name that has its home at each of these NICs in turn: the first is the home
// among all of them, the second if the first is away, and so on.
func homedIn(order ...uint64) vni.Name {
	name := vni.Name{Index: 1}
	copy(name.App[:], "app")
next:
	for ; ; name.Index++ {
		sum := (&Table{}).nearestTo(name).sum
		for i := 1; i < len(order); i++ {
			if mix(sum^order[i]) >= mix(sum^order[i-1]) {
				continue next
			}
		}
		return name
	}
}

// If the home of a contested name is lost, the next home judges the contest.
func TestTheNextHomeJudgesAContest(t *testing.T) { // decision 15
	f := newFabric(t, 4)
	n, loser := f.nics[0], f.nics[3]
	name := homedIn(3, 1, 2, 4)
	lost := 0
	loser.keep = func(_ *Peer, op byte) bool {
		if op == wire.TableLost {
			lost++
		}
		return true
	}
	n.takes(2, told{op: wire.TableClaim, slot: 1, gen: 1, number: 1, name: name}.record())
	f.step()
	n.takes(4, told{op: wire.TableClaim, slot: 1, gen: 1, number: 1, name: name}.record())
	f.step()
	if len(n.contests) != 1 || n.contests[0].near.home != n.Peer(3) {
		t.Fatalf("%d contests; expected one, before NIC 3", len(n.contests))
	}
	f.kill(f.nics[2])
	n.Peer(3).Watch(1)
	f.until("the home is lost", func() bool { return !n.Peer(3).Up() })
	n.Peer(3).Watch(-1)
	f.until("NIC 1 judges", func() bool { return lost > 0 })
	if lost != 1 {
		t.Errorf("the loser is told %d times", lost)
	}
}

// If a NIC comes and is the home of a contested name, its verdict counts, and no longer that of
// the home before.
func TestANICThatComesJudgesAContest(t *testing.T) { // decision 15
	for _, comes := range []bool{false, true} {
		f := newFabric(t, 3)
		n := f.nics[0]
		name := homedIn(9, 3, 1, 2)
		p := n.claim(1, name)
		f.until("the claim ends", p.over)
		n.takes(2, told{op: wire.TableClaim, slot: 4, gen: 1, number: 1, name: name}.record())
		f.step()
		if len(n.contests) != 1 || n.contests[0].near.home != n.Peer(3) {
			t.Fatalf("%d contests; expected one, before NIC 3", len(n.contests))
		}
		winner := vni.Address{NIC: 2, Slot: 4, Gen: 1}
		judge := uint64(3)
		if comes {
			f.add(9)
			f.until("NIC 9 is up", func() bool { q := n.Peer(9); return q != nil && q.Up() })
			if n.takes(3, verdict(1, 1, winner)); n.Home(name) != n.Peer(9) {
				t.Fatal("NIC 9 is not the home")
			}
			f.step()
			if p.lostTo != (vni.Address{}) {
				t.Errorf("the verdict of the home before counts: lost to %v", p.lostTo)
			}
			judge = 9
		}
		n.takes(judge, verdict(1, 1, winner))
		if f.step(); p.lostTo != winner {
			t.Errorf("NIC 9 comes %v: the verdict of the home does not count: lost to %v", comes, p.lostTo)
		}
	}
}
