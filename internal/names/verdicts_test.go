package names

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// verdict returns the record that a name belongs to the process at winner.
func verdict(slot uint16, gen uint32, winner vni.Address) []byte {
	b := make([]byte, lostLen)
	b[0] = wire.TableLost
	le.PutUint16(b[2:], slot)
	le.PutUint32(b[4:], gen)
	putAddress(b[8:], winner)
	return b
}

// A verdict is about a live process here that has lost to another NIC's process. Any other is
// dropped and counted.
func TestAVerdictIsAboutALiveProcessHere(t *testing.T) { // decision 15
	f := newFabric(t, 3)
	n, home := f.nics[0], f.nics[1]
	p := n.claim(1, home.homed())
	f.until("the claim ends", p.over)
	winner := vni.Address{NIC: 3, Slot: 4, Gen: 1}
	for what, b := range map[string][]byte{"no process": verdict(2, 1, winner), "an earlier process": verdict(1, 2, winner), "a winner here": verdict(1, 1, vni.Address{NIC: 1, Slot: 9, Gen: 1})} {
		before := n.cfg.Counts[vni.DropFormat]
		if n.takes(2, b); n.cfg.Counts[vni.DropFormat] != before+1 || p.lostTo != (vni.Address{}) {
			t.Errorf("a verdict with %s: %d dropped, lost to %v", what, n.cfg.Counts[vni.DropFormat]-before, p.lostTo)
		}
	}
	for what, b := range map[string][]byte{"a winner of no claim": verdict(1, 1, winner)} {
		n.takes(2, b)
		if f.run(time.Second); p.lostTo != (vni.Address{}) {
			t.Errorf("a verdict with %s: lost to %v", what, p.lostTo)
		}
	}
	other := p.name
	other.Index += 50
	// of another name
	n.takes(3, told{op: wire.TableClaim, slot: 4, gen: 1, number: 1, name: other}.record())
	if f.run(time.Second); p.lostTo != (vni.Address{}) {
		t.Errorf("a winner that claims another name: lost to %v", p.lostTo)
	}
	f.found(p.name, p.at)
}

// The home tells the loser of a contest once for each winner, and counts the conflict.
func TestTheHomeTellsTheLoserOnce(t *testing.T) { // decision 15
	f := newFabric(t, 3)
	home := f.nics[0]
	name := home.homed()
	lost := 0
	f.nics[2].keep = func(_ *Peer, op byte) bool {
		if op == wire.TableLost {
			lost++
		}
		return true
	}
	home.takes(2, told{op: wire.TableClaim, slot: 1, gen: 1, number: 1, name: name}.record())
	f.run(time.Millisecond)
	home.takes(3, told{op: wire.TableClaim, slot: 1, gen: 1, number: 1, name: name}.record())
	f.run(time.Second)
	for range 3 {
		home.changed = true
		f.run(time.Second)
	}
	if lost != 1 || home.cfg.Counts[vni.NICNameConflicts] != 1 || len(home.contests) != 1 {
		t.Errorf("the loser is told %d times, %d conflicts are counted, %d contests", lost, home.cfg.Counts[vni.NICNameConflicts], len(home.contests))
	}
	home.takes(3, told{op: wire.TableEnd, slot: 1, gen: 1, number: 1, name: name}.record())
	f.run(time.Second)
	if a, ok := home.Lookup(name); !ok || a.NIC != 2 || len(home.contests) != 0 {
		t.Errorf("the name leads to %v, %v; %d contests", a, ok, len(home.contests))
	}
}

// The home gives a newer process of a rank the time to prove itself, and then judges.
func TestANewerProcessHasItsTimeToProveItself(t *testing.T) { // decision 15
	f := newFabric(t, 3)
	home := f.nics[0]
	name := home.homed()
	var judged time.Duration
	began := f.now
	f.nics[2].keep = func(_ *Peer, op byte) bool {
		if op == wire.TableLost && judged == 0 {
			judged = f.now.Sub(began)
		}
		return true
	}
	home.takes(2, told{op: wire.TableClaim, slot: 1, gen: 1, number: 1, life: 10, name: name}.record())
	home.byAddr[vni.Address{NIC: 2, Slot: 1, Gen: 1}].since -= 5
	home.takes(3, told{op: wire.TableClaim, slot: 1, gen: 1, number: 1, life: 11, name: name}.record())
	f.run(2 * limits.ConfirmWithin)
	if judged < limits.ConfirmWithin || judged > limits.ConfirmWithin+50*time.Millisecond {
		t.Errorf("it is judged after %v, expected %v", judged, limits.ConfirmWithin)
	}
}

// A request for a name counts if its process may have the name and it is about a process that
// lives here. Others are dropped.
func TestARequestForANameIsAboutALiveProcess(t *testing.T) {
	f := newFabric(t, 3)
	n := f.nics[0]
	p := n.claimAs(1, n.homed(), life(10))
	f.until("the claim ends", p.over)
	ask := func(slot uint16, claimant uint16) []byte {
		b := make([]byte, yieldLen)
		by := vni.Address{NIC: 2, Slot: claimant, Gen: 1}
		putYield(b, yieldAsked, by, vni.Address{NIC: 1, Slot: slot, Gen: 1}, 11)
		key := [32]byte{1, 2, 3}
		proof := prove(&key, p.name, p.at, by, 11)
		copy(b[28:], proof[:])
		return b
	}
	forbidden := func() uint64 { return n.cfg.Counts[vni.NICNamesForbidden] }
	if n.takes(2, ask(2, 5)); forbidden() != 0 || p.lostTo != (vni.Address{}) {
		t.Error("a request about no process is counted, or taken")
	}
	if n.takes(2, ask(1, 0)); forbidden() != 1 || p.lostTo != (vni.Address{}) {
		t.Errorf("a request of slot 0: %d counted, lost to %v", forbidden(), p.lostTo)
	}
	n.cfg.MayClaim = func(nic uint64, _ string) bool { return nic != 2 }
	if n.takes(2, ask(1, 5)); forbidden() != 2 || p.lostTo != (vni.Address{}) {
		t.Errorf("a request of a NIC that may not have the name: %d counted, lost to %v", forbidden(), p.lostTo)
	}
	n.cfg.MayClaim = nil
	if n.takes(2, ask(1, 5)); p.lostTo != (vni.Address{NIC: 2, Slot: 5, Gen: 1}) {
		t.Errorf("a request with a proof: lost to %v", p.lostTo)
	}
	if n.takes(2, ask(1, 6)); forbidden() != 2 || p.lostTo.Slot != 5 {
		t.Errorf("a request about a process that has lost its name: %d counted, lost to %v", forbidden(), p.lostTo)
	}
	f.run(limits.NameKeep + time.Second)
	if all, open := n.Len(); all+open != 0 {
		t.Errorf("%d names, %d open claims are left", all, open)
	}
}

// A forbidden name is refused in every record of a NIC, and leaves nothing. Its end is not
// counted.
func TestAForbiddenNameLeavesNothing(t *testing.T) {
	f := newFabric(t, 2)
	n := f.nics[0]
	n.cfg.MayClaim = func(nic uint64, _ string) bool { return nic != 2 }
	for op, counted := range map[byte]uint64{wire.TableClaim: 1, wire.TableAsk: 1, wire.TableEnd: 0} {
		before := n.cfg.Counts[vni.NICNamesForbidden]
		n.takes(2, told{op: op, slot: 1, gen: 1, number: 1, name: n.homed()}.record())
		if all, open := n.Len(); all+open != 0 || n.cfg.Counts[vni.NICNamesForbidden]-before != counted {
			t.Errorf("record %d: %d names, %d open claims, %d counted", op, all, open, n.cfg.Counts[vni.NICNamesForbidden]-before)
		}
	}
	n.Peer(2).told, n.Peer(2).synced, n.Peer(2).first, n.Peer(2).firstDue, n.Peer(2).promisedDue = false, false, 0, 2, 0
	for range 2 { // it still belongs to the first table
		n.takes(2, told{op: wire.TableClaim, part: partFirst, slot: 1, gen: 1, number: 1, name: n.homed()}.record())
	}
	if !n.Peer(2).told || !n.Peer(2).synced {
		t.Error("a table with forbidden names is never complete")
	}
}

// For claims that were seen at the same time, the lower NIC's stands. A claim whose NIC is away
// stands behind all others.
func TestANameStandsForTheClaimThatWasSeenFirst(t *testing.T) { // decision 15
	for what, c := range map[string]struct {
		change func(a, b *Entry) // of NICs 2 and 3
		want   uint64
	}{
		"both at once":                    {func(a, b *Entry) { a.since, b.since = 5, 5 }, 2},
		"the lower later":                 {func(a, b *Entry) { a.since, b.since = 6, 5 }, 3},
		"the lower earlier":               {func(a, b *Entry) { a.since, b.since = 5, 6 }, 2},
		"the earlier out of reach":        {func(a, b *Entry) { a.since, b.since, a.stale = 5, 6, true }, 3},
		"both out of reach":               {func(a, b *Entry) { a.since, b.since, a.stale, b.stale = 5, 6, true, true }, 2},
		"the earlier ended":               {func(a, b *Entry) { a.since, b.since, a.dead = 5, 6, true }, 3},
		"the earlier not held":            {func(a, b *Entry) { a.since, b.since, a.state = 5, 6, claimAsked }, 3},
		"the later ended and out of rch.": {func(a, b *Entry) { a.since, b.since, b.dead, b.stale = 5, 6, true, true }, 2},
	} {
		f := newFabric(t, 3)
		n := f.nics[0]
		name := n.homed()
		n.takes(3, told{op: wire.TableClaim, slot: 1, gen: 1, number: 1, name: name}.record())
		n.takes(2, told{op: wire.TableClaim, slot: 1, gen: 1, number: 1, name: name}.record())
		c.change(n.byAddr[vni.Address{NIC: 2, Slot: 1, Gen: 1}], n.byAddr[vni.Address{NIC: 3, Slot: 1, Gen: 1}])
		n.elect(name)
		if got := n.Find(&name); got == nil || got.NIC != c.want {
			t.Errorf("%s: the name stands for %v; expected NIC %d", what, got, c.want)
		}
	}
}

// Answers about no process here, and from NICs that were not asked, end nothing.
func TestAnAnswerAboutNoProcessEndsNothing(t *testing.T) {
	f := newFabric(t, 2)
	n := f.nics[0]
	p := n.claimAs(1, n.homed(), life(10))
	f.until("the claim ends", p.over)
	for _, kind := range []byte{yieldTaken, yieldSuperseded, 7} {
		for slot := range uint16(3) { // 1 has its name, and asks for none
			b := make([]byte, yieldLen)
			putYield(b, kind, vni.Address{NIC: 1, Slot: slot, Gen: 1}, vni.Address{NIC: 2, Slot: 4, Gen: 1}, 99)
			n.takes(2, b)
		}
	}
	for _, kind := range []byte{askRefused, askGranted, askForbidden, 7} {
		for slot := range uint16(3) {
			b := make([]byte, answerLen)
			b[0], b[1], b[2], b[4] = wire.TableAnswer, kind, byte(slot), 1
			n.takes(2, b)
		}
	}
	if f.run(time.Second); p.why != nil || p.lostTo != (vni.Address{}) {
		t.Errorf("the process is refused, %v, or has lost to %v", p.why, p.lostTo)
	}
	f.found(p.name, p.at)
	f.wantSettled()
}

// If two claims meet after a partition, the newer process's claim is first, else the lower NIC's,
// whichever was seen first.
func TestClaimsThatMeetAfterAPartitionAreRanked(t *testing.T) { // decision 15
	for what, c := range map[string]struct {
		nic           uint64 // of the new claim; the other is of NIC 3
		life, other   uint64
		since         int // before the other, or behind it
		first, ranked bool
	}{
		"a lower NIC":                        {2, 0, 0, 5, true, true},
		"a higher NIC":                       {4, 0, 0, -5, false, true},
		"a higher NIC, seen later":           {4, 0, 0, 5, false, true},
		"a lower NIC, of an older process":   {2, 10, 11, -5, false, true},
		"a higher NIC, of a newer process":   {4, 11, 10, 5, true, true},
		"a lower NIC, of a process as new":   {2, 10, 10, 5, true, true},
		"a higher NIC, the other of no rank": {4, 11, 0, -5, false, true},
		"a lower NIC, of no rank":            {2, 0, 11, 5, true, true},
		"the same NIC":                       {3, 11, 10, 5, false, false},
	} {
		f := newFabric(t, 4)
		n := f.nics[0]
		name := n.homed()
		n.takes(3, told{op: wire.TableClaim, slot: 1, gen: 1, number: 1, life: c.other, name: name}.record())
		o := n.Find(&name)
		e := &Entry{Name: name, Address: vni.Address{NIC: c.nic, Slot: 2, Gen: 1}, since: o.since + clock.Time(c.since), incarnation: c.life}
		before := e.since
		n.rank(e)
		if first := e.since < o.since; c.ranked && first != c.first || !c.ranked && e.since != before {
			t.Errorf("%s: seen %v before the other, which is %v", what, first, o.since)
		}
		// no claim to be ranked by
		for _, gone := range []func(){func() { o.stale = true }, func() { delete(n.byName, name) }} {
			gone()
			e.since = before
			if n.rank(e); e.since != before {
				t.Errorf("%s: it is ranked by a claim that does not hold", what)
			}
		}
	}
}
