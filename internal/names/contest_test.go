package names

import (
	"cmp"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// divided makes a fabric of three NICs. Two processes claim a name homed at the NIC home, on the
// two sides of a partition: NIC far is cut off, and claims first or second. Then the fabric
// heals.
func divided(t *testing.T, home, near, far int, farFirst bool, keep func(f *fabric)) (f *fabric, of map[int]*proc) {
	f = newFabric(t, 3)
	return f, f.divide(f.nics[home].homed(), near, far, farFirst, keep)
}

// divide is divided for a fabric and a name.
func (f *fabric) divide(name vni.Name, near, far int, farFirst bool, keep func(f *fabric)) (of map[int]*proc) {
	f.cut = func(a, _ uint64) bool { return a == uint64(far+1) }
	order := []int{near, far}
	if farFirst {
		order = []int{far, near}
	}
	of = make(map[int]*proc)
	for _, i := range order {
		of[i] = f.nics[i].claim(1, name)
		f.until("the claim holds on its side", func() bool { return of[i].held })
	}
	f.until("the NIC that is cut off is given up", func() bool {
		for _, n := range f.nics {
			if n.id != uint64(far+1) && n.Peer(uint64(far+1)).Up() || n.id == uint64(far+1) && (n.peers[0].Up() || n.peers[1].Up()) {
				return false
			}
		}
		return true
	})
	if keep != nil {
		keep(f)
	}
	f.cut = nil
	return of
}

func TestAfterAPartitionTheLowerNICIDKeepsTheName(t *testing.T) { // decision 15
	for home := range 3 {
		for far := range 3 {
			for _, farFirst := range []bool{false, true} {
				near := (far + 1 + home) % 3
				if near == far {
					near = (far + 1) % 3
				}
				f, of := divided(t, home, near, far, farFirst, nil)
				// an attempt to reach a lost NIC comes after 4 s at the latest
				f.run(15 * time.Second)
				winner, loser := of[min(near, far)], of[max(near, far)]
				if winner.lostTo != (vni.Address{}) || loser.lostTo != winner.at {
					t.Errorf("home %d, NIC %d cut off, first %v: the lower has lost to %v, the higher to %v",
						home+1, far+1, farFirst, winner.lostTo, loser.lostTo)
				}
				f.found(winner.name, winner.at)
			}
		}
	}
}

func TestAVerdictMayOvertakeTheClaimThatWins(t *testing.T) { // decision 15
	for _, overtake := range []bool{false, true} {
		f, of := divided(t, 0, 0, 2, true, func(f *fabric) {
			f.nics[2].keep = func(_ *Peer, op byte) bool { return op != wire.TableClaim && op != wire.TableLost }
		})
		loser := f.nics[2]
		f.until("claim and verdict are there", func() bool { return len(loser.kept) == 2 })
		loser.release(overtake)
		f.run(time.Second)
		if of[2].lostTo != of[0].at || of[0].lostTo != (vni.Address{}) {
			t.Errorf("overtake %v: NIC 3 has lost the name to %v, NIC 1 to %v", overtake, of[2].lostTo, of[0].lostTo)
		}
		f.found(of[0].name, of[0].at)
	}
}

// The home of a name may die before it judges a contest. The next home judges, be it the NIC of the
// winner or that of the loser.
func TestTheNextHomeJudgesWhatTheFirstDidNot(t *testing.T) { // decision 15
	for next := range uint64(2) {
		f := newFabric(t, 3)
		of := f.meet(homedInTurn(3, next+1, 2-next))
		f.kill(f.nics[2])
		f.until("NIC 2 has lost the name", func() bool { return of[1].lostTo == of[0].at })
		if of[0].lostTo != (vni.Address{}) {
			t.Errorf("with NIC %d as the next home, NIC 1 has lost the name to %v", next+1, of[0].lostTo)
		}
	}
}

// A NIC that comes may be the new home of a contested name. The others obey it.
func TestANewHomeJudgesWhatTheFirstDidNot(t *testing.T) { // decision 15
	f := newFabric(t, 3)
	of := f.meet(homedInTurn(4, 3, 2, 1))
	f.add(4)
	f.until("NIC 2 has lost the name", func() bool { return of[1].lostTo == of[0].at })
	if of[0].lostTo != (vni.Address{}) {
		t.Errorf("NIC 1 has lost the name to %v", of[0].lostTo)
	}
}

// meet lets claims of NICs 1 and 2 to a name meet after a partition. Its home, NIC 3, hears of
// neither.
func (f *fabric) meet(name vni.Name) (of map[int]*proc) {
	of = f.divide(name, 0, 1, false, func(*fabric) {
		f.nics[2].keep = func(_ *Peer, op byte) bool { return op != wire.TableClaim }
	})
	f.until("the claims meet", func() bool {
		return !slices.ContainsFunc(f.nics[:2], func(n *node) bool { return len(n.contests) == 0 })
	})
	return of
}

// homedInTurn finds a name whose home is the first NIC that is up of these.
func homedInTurn(ids ...uint64) vni.Name {
	name := vni.Name{Index: 1}
	copy(name.App[:], "app")
	weight := func(id uint64) uint64 {
		t := Table{cfg: Config{NIC: id}}
		return t.nearestTo(name).weight
	}
	for !slices.IsSortedFunc(ids, func(a, b uint64) int { return cmp.Compare(weight(b), weight(a)) }) {
		name.Index++
	}
	return name
}

// A short loss of the session is no partition: the name stays with the process that the home saw
// first.
func TestAShortLossOfASessionMovesNoName(t *testing.T) { // decision 15
	for _, id := range []int{0, 2} {
		f := newFabric(t, 3)
		owner, home := f.nics[id], f.nics[1]
		p := owner.claim(1, home.homed())
		f.until("the claim ends", p.over)
		f.run(time.Millisecond)
		home.Table.Down(home.Peer(owner.id), false)
		home.Table.Up(home.Peer(owner.id))
		thief := f.nics[2-id]
		if !home.Take(home.Peer(thief.id), claimOf(p.name, 0)) || !home.Take(home.Peer(owner.id), claimAt(p.name, p.at.Slot, 0)) {
			t.Fatal("the claim is no record of names")
		}
		f.run(time.Second)
		if p.lostTo != (vni.Address{}) {
			t.Errorf("NIC %d has lost the name to %v", owner.id, p.lostTo)
		}
	}
}

// claimOf returns the claim of a process at slot 9, with the age in nanoseconds that older NICs
// wrote.
func claimOf(name vni.Name, age uint64) []byte { return claimAt(name, 9, age) }

func claimAt(name vni.Name, slot uint16, age uint64) []byte {
	b := make([]byte, claimLen)
	b[0], b[1], b[4] = wire.TableClaim, partFirst, 1
	le.PutUint16(b[2:], slot)
	le.PutUint64(b[8:], age)
	le.PutUint32(b[16:], name.Index)
	copy(b[20:], name.App[:])
	return b
}

// This attack worked once: a NIC claims a name in the first table of a new session, and writes
// that it has had the name for long.
func TestANameIsNotStolenByAnOldAge(t *testing.T) { // decision 15
	for _, thief := range []int{0, 2} { // with a lower and a higher id than the owner, NIC 2
		for _, age := range []uint64{0, uint64(time.Hour), 1<<62 - 1, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
			f := newFabric(t, 3)
			owner, home, bad := f.nics[1], f.nics[2-thief], f.nics[thief]
			p := owner.claim(1, home.homed())
			f.until("the claim ends", p.over)
			f.run(time.Millisecond)
			for _, n := range []*node{owner, home} {
				n.Table.Down(n.Peer(bad.id), false) // the thief reopens its session, at once
				n.Table.Up(n.Peer(bad.id))
				if !n.Take(n.Peer(bad.id), claimOf(p.name, age)) {
					t.Fatal("the claim is no record of names")
				}
			}
			f.run(time.Second)
			if p.lostTo != (vni.Address{}) {
				t.Errorf("NIC 2 has lost its name to a claim of NIC %d with age %d", bad.id, age)
			}
			for _, n := range []*node{owner, home} {
				if at, ok := n.Lookup(p.name); !ok || at != p.at {
					t.Errorf("age %d: NIC %d finds the name at %v, %v", age, n.id, at, ok)
				}
				if n.cfg.Counts[vni.NICNameConflicts] == 0 {
					t.Errorf("age %d: NIC %d has counted no conflict", age, n.id)
				}
			}
		}
	}
}

// The same steps must show the defect that believes the age.
func TestANameIsStolenByAnOldAgeIfTheAgeIsBelieved(t *testing.T) {
	f := newFabric(t, 3)
	owner, home := f.nics[1], f.nics[2]
	p := owner.claim(1, home.homed())
	f.until("the claim ends", p.over)
	f.run(time.Millisecond)
	for _, n := range []*node{owner, home} {
		n.cfg.Defect = mutate.AgeBelieved
		if !n.Take(n.Peer(1), claimOf(p.name, uint64(time.Hour))) {
			t.Fatal("the claim is no record of names")
		}
	}
	f.until("the owner has lost its name", func() bool { return p.lostTo.NIC == 1 })
}

func TestAVerdictCountsOnlyIfItIsTheHomes(t *testing.T) { // decision 15
	f := newFabric(t, 3)
	owner, home := f.nics[2], f.nics[1]
	p := owner.claim(1, home.homed())
	f.until("the claim ends", p.over)
	thief := owner.Peer(1)
	verdict := make([]byte, lostLen)
	verdict[0], verdict[2], verdict[4] = wire.TableLost, 1, 1
	putAddress(verdict[8:], vni.Address{NIC: 1, Slot: 9, Gen: 1})
	if !owner.Take(thief, claimOf(p.name, 0)) || !owner.Take(thief, verdict) {
		t.Fatal("these are no records of names")
	}
	f.run(time.Second)
	if p.lostTo != (vni.Address{}) {
		t.Errorf("the verdict of a NIC that is not the home was taken: lost to %v", p.lostTo)
	}
}

func TestANameThatTheCertificateForbidsIsRefusedAndCounted(t *testing.T) {
	f := newFabric(t, 3)
	name := f.nics[2].homed()
	may := func(nic uint64, application string) bool { return nic != 1 || application != "app" }
	for _, n := range f.nics[1:] {
		n.cfg.MayClaim = may
	}
	p := f.nics[0].claim(1, name) // its own NIC does not know that it may not
	f.until("the claim ends", p.over)
	if !errors.Is(p.why, ErrForbidden) {
		t.Fatalf("the home does not forbid the name: held %v, %v", p.held, p.why)
	}
	if !f.nics[1].Take(f.nics[1].Peer(1), claimOf(name, 0)) {
		t.Fatal("the claim is no record of names")
	}
	for _, n := range f.nics[1:] {
		if n.cfg.Counts[vni.NICNamesForbidden] == 0 {
			t.Errorf("NIC %d has counted no refusal", n.id)
		}
	}
	f.unknown(name)
	f.nics[0].cfg.MayClaim = may
	if p = f.nics[0].claim(2, name); !errors.Is(p.why, ErrForbidden) {
		t.Errorf("the NIC does not forbid its own process: held %v, %v", p.held, p.why)
	}
	if p = f.nics[1].claim(1, name); !p.over() {
		f.until("another NIC gets the name", p.over)
	}
	if !p.held {
		t.Errorf("a NIC that may is refused: %v", p.why)
	}
}
