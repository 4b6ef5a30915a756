package names

import (
	"errors"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// life returns the Life of a process of a rank of one job.
func life(incarnation uint64) vni.Life {
	return vni.Life{Incarnation: incarnation, Key: [32]byte{1, 2, 3}}
}

func TestANewerProcessOfARankTakesTheNameOver(t *testing.T) {
	for home := range 3 {
		for older := range 3 {
			for newer := range 3 {
				f := newFabric(t, 3)
				name := f.nics[home].homed()
				a := f.nics[older].claimAs(1, name, life(10))
				f.until("the older process has the name", func() bool { return a.held })
				b := f.nics[newer].claimAs(2, name, life(11))
				f.until("the newer claim is over", b.over)
				if !b.held || a.lostTo != b.at {
					t.Errorf("home %d, older %d, newer %d: held %v, %v; the older has lost to %v", home+1, older+1, newer+1, b.held, b.why, a.lostTo)
				}
				f.run(time.Second)
				f.found(name, b.at)
				if b.lostTo != (vni.Address{}) {
					t.Errorf("home %d, older %d, newer %d: the newer has lost to %v", home+1, older+1, newer+1, b.lostTo)
				}
			}
		}
	}
}

func TestAnOlderProcessOfARankIsToldThatThereIsANewerOne(t *testing.T) {
	for home := range 3 {
		for older := range 3 {
			for newer := range 3 {
				f := newFabric(t, 3)
				name := f.nics[home].homed()
				b := f.nics[newer].claimAs(2, name, life(11))
				f.until("the newer process has the name", func() bool { return b.held })
				a := f.nics[older].claimAs(1, name, life(10))
				f.until("the older claim is over", a.over)
				if a.held || !errors.Is(a.why, ErrSuperseded) || b.lostTo != (vni.Address{}) {
					t.Errorf("home %d, older %d, newer %d: held %v, %v; the newer has lost to %v", home+1, older+1, newer+1, a.held, a.why, b.lostTo)
				}
				f.run(time.Second)
				f.found(name, b.at)
			}
		}
	}
}

func TestANameIsNotGivenUpWithoutAProof(t *testing.T) {
	other := life(11)
	other.Key[0]++
	for what, c := range map[string]struct {
		of, by    vni.Life
		forbidden uint64 // proofs that the holder's NIC refuses
	}{
		"another key":           {life(10), other, 1},
		"no key":                {life(10), vni.Life{Incarnation: 11}, 0},
		"no key at the holder":  {vni.Life{Incarnation: 10}, life(11), 0},
		"the same incarnation":  {life(11), life(11), 0},
		"a process of no rank":  {life(10), vni.Life{}, 0},
		"a holder of no rank":   {vni.Life{}, life(11), 0},
		"no key, and no number": {vni.Life{}, vni.Life{}, 0},
	} {
		for home := range 3 {
			for by := range 2 {
				f := newFabric(t, 3)
				name := f.nics[home].homed()
				a := f.nics[0].claimAs(1, name, c.of)
				f.until("the first has the name", func() bool { return a.held })
				b := f.nics[by].claimAs(2, name, c.by)
				f.until("the second claim is over", b.over)
				if !errors.Is(b.why, ErrTaken) || a.lostTo != (vni.Address{}) {
					t.Errorf("%s, home %d: the claim ends with %v, and the first has lost to %v", what, home+1, b.why, a.lostTo)
				}
				if n := f.nics[0].cfg.Counts[vni.NICNamesForbidden]; n != c.forbidden {
					t.Errorf("%s, home %d: %d proofs are counted as refused; expected %d", what, home+1, n, c.forbidden)
				}
				f.run(time.Second)
				f.found(name, a.at)
			}
		}
	}
}

func TestOfTwoClaimsAtTheSameMomentTheNewerProcessWins(t *testing.T) {
	for home := range 3 {
		for _, newerFirst := range []bool{false, true} {
			f := newFabric(t, 3)
			name := f.nics[home].homed()
			var a, b *proc
			if newerFirst {
				b = f.nics[1].claimAs(2, name, life(11))
			}
			a = f.nics[0].claimAs(1, name, life(10))
			if b == nil {
				b = f.nics[1].claimAs(2, name, life(11))
			}
			f.until("both claims are over", func() bool { return a.over() && b.over() })
			f.run(time.Second)
			if !b.held || b.lostTo != (vni.Address{}) || a.held && a.lostTo != b.at {
				t.Errorf("home %d, newer first %v: newer held %v, lost to %v; older held %v (%v), lost to %v",
					home+1, newerFirst, b.held, b.lostTo, a.held, a.why, a.lostTo)
			}
			f.found(name, b.at)
		}
	}
}

func TestAfterAPartitionTheNewerProcessOfARankKeepsTheName(t *testing.T) {
	for home := range 3 {
		for far := range 3 {
			for _, newerFar := range []bool{false, true} {
				near := (far + 1) % 3
				f := newFabric(t, 3)
				name := f.nics[home].homed()
				f.cut = func(a, _ uint64) bool { return a == uint64(far+1) }
				of := map[bool]*proc{}
				for _, isFar := range []bool{!newerFar, newerFar} { // the older first
					nic, incarnation := near, uint64(10)
					if isFar {
						nic = far
					}
					if isFar == newerFar {
						incarnation = 11
					}
					of[isFar] = f.nics[nic].claimAs(1, name, life(incarnation))
					f.until("the claim holds on its side", func() bool { return of[isFar].held })
				}
				f.run(20 * time.Second) // both sides have forgotten each other's names
				f.cut = nil
				f.run(15 * time.Second)
				newer, older := of[newerFar], of[!newerFar]
				if newer.lostTo != (vni.Address{}) || older.lostTo != newer.at {
					t.Errorf("home %d, NIC %d cut off, newer there %v: the newer has lost to %v, the older to %v",
						home+1, far+1, newerFar, newer.lostTo, older.lostTo)
				}
				f.found(name, newer.at)
			}
		}
	}
}

// A NIC that comes with a claim of a higher incarnation and without a proof is an ordinary
// newcomer. The home of a name is believed about the name, so the liar is not the home here.
func TestAHighIncarnationWithoutAProofTakesNoName(t *testing.T) {
	for _, home := range []int{0, 2} {
		f := newFabric(t, 3)
		name := f.nics[home].homed()
		a := f.nics[0].claimAs(1, name, life(10))
		f.until("the first has the name", func() bool { return a.held })
		f.run(time.Second)
		liar := f.nics[1]
		b := &proc{at: vni.Address{NIC: liar.id, Slot: 2, Gen: 1}, name: name}
		liar.procs[2] = b
		n := &Entry{Name: name, Address: b.at, number: 99, since: 0, state: claimHeld, incarnation: 1 << 60}
		liar.put(n)
		liar.tellAll(1, n) // although no home has granted it
		f.run(15 * time.Second)
		if a.lostTo != (vni.Address{}) || b.lostTo != a.at {
			t.Errorf("home %d: the first has lost to %v, the liar to %v", home+1, a.lostTo, b.lostTo)
		}
	}
}

// Only the NIC that was asked for a name may refuse to give it up. Any other could keep a program
// from restarting.
func TestANameIsKeptOnlyByTheNICThatWasAskedForIt(t *testing.T) {
	f := newFabric(t, 3)
	name := f.nics[0].homed()
	a := f.nics[1].claimAs(1, name, life(10))
	f.until("the older process has the name", func() bool { return a.held })
	f.nics[1].keep = func(_ *Peer, op byte) bool { return op != wire.TableYield }
	b := f.nics[0].claimAs(2, name, life(11))
	f.until("the older one's NIC is asked for the name", func() bool { return len(f.nics[1].kept) == 1 })
	answer := make([]byte, yieldLen)
	for _, verdict := range []byte{yieldTaken, yieldSuperseded} {
		for what, holder := range map[string]vni.Address{"its own process": {Slot: 1, Gen: 1}, "another process": {Slot: 9, Gen: 1}} {
			putYield(answer, verdict, b.at, holder, 12)
			if !f.nics[0].Take(f.nics[0].Peer(3), answer) || b.over() {
				t.Fatalf("answer %d of a NIC that was not asked, about %s, was taken: %v", verdict, what, b.why)
			}
		}
		putYield(answer, verdict, b.at, vni.Address{Slot: 1, Gen: 2}, 12)
		if !f.nics[0].Take(f.nics[0].Peer(2), answer) || b.over() {
			t.Fatalf("answer %d about an earlier process at the slot was taken: %v", verdict, b.why)
		}
	}
	f.nics[1].release(false)
	f.until("the newer claim is over", b.over)
	if !b.held || a.lostTo != b.at {
		t.Errorf("held %v, %v; the older has lost to %v", b.held, b.why, a.lostTo)
	}
	putYield(answer, yieldTaken, b.at, a.at, 12)
	if f.nics[0].Take(f.nics[0].Peer(2), answer); b.why != nil {
		t.Errorf("a late refusal was taken: %v", b.why)
	}
	f.run(time.Second)
	f.found(name, b.at)
}

// A newer process of a rank takes over a name that the older one has only asked for. The older
// one is told so, once.
func TestANewerProcessTakesOverAnOpenClaim(t *testing.T) {
	for _, same := range []bool{false, true} { // on one NIC
		f := newFabric(t, 3)
		home := f.nics[2]
		home.keep = func(_ *Peer, op byte) bool { return op != wire.TableAsk }
		name := home.homed()
		older := f.nics[0].claimAs(1, name, life(10))
		f.run(10 * time.Millisecond)
		at := f.nics[1]
		if same {
			at = f.nics[0]
		}
		newer := at.claimAs(2, name, life(11))
		f.run(10 * time.Millisecond)
		home.release(false)
		f.until("both claims are over", func() bool { return older.over() && (newer.over()) })
		f.run(limits.NameKeep + time.Second)
		if !newer.held || newer.lostTo != (vni.Address{}) || older.held && older.lostTo != newer.at || !older.held && !errors.Is(older.why, ErrSuperseded) {
			t.Errorf("same NIC %v: the newer holds %v (%v); the older held %v, %v, lost to %v", same, newer.held, newer.why, older.held, older.why, older.lostTo)
		}
		f.found(name, newer.at)
		for _, n := range f.nics {
			if all, open := n.Len(); all != 1 || open != 0 {
				t.Errorf("same NIC %v: NIC %d keeps %d names and %d open claims", same, n.id, all, open)
			}
		}
		f.wantSettled()
	}
}
