package names

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A claim was made on the other side of a partition if a NIC that is back from there tells it in
// its first table, in time.
func TestOnlyTheFirstTableOfANICThatIsBackHasClaimsOfAPartition(t *testing.T) { // decision 15
	for what, c := range map[string]struct {
		p    Peer
		part byte
		want bool
	}{
		"as it should be":           {Peer{back: true, syncBy: 10}, partFirst, true},
		"a newcomer":                {Peer{syncBy: 10}, partFirst, false},
		"a later claim":             {Peer{back: true, syncBy: 10}, partNone, false},
		"a claim that was promised": {Peer{back: true, syncBy: 10}, partPromised, false},
		"behind the first table":    {Peer{back: true, told: true, syncBy: 10}, partFirst, false},
		"too late":                  {Peer{back: true, syncBy: 9}, partFirst, false},
	} {
		if got := c.p.parted(c.part, 10); got != c.want {
			t.Errorf("%s: made on the other side: %v", what, got)
		}
	}
}

// If a NIC that is back tells a claim again, the claim keeps the time at which it was first seen,
// as long as the name is the same.
func TestAClaimThatIsToldAgainKeepsItsTime(t *testing.T) { // decision 15
	for _, same := range []bool{true, false} {
		f := newFabric(t, 2)
		n := f.nics[0]
		r := told{op: wire.TableClaim, slot: 1, gen: 1, number: 1, name: n.homed()}
		n.takes(2, r.record())
		at := vni.Address{NIC: 2, Slot: 1, Gen: 1}
		first := n.byAddr[at].since
		n.byAddr[at].stale = true
		n.elect(r.name)
		f.now += 1000
		if !same {
			r.name.Index += 7
		}
		n.takes(2, r.record())
		if e := n.byAddr[at]; !e.Live() || e.Name != r.name || (e.since == first) != same {
			t.Errorf("same name %v: it was seen at %v, first at %v; live %v", same, e.since, first, e.Live())
		}
		if err := n.consistent(); err != nil || n.owned[2] != 1 {
			t.Errorf("same name %v: %v; %d entries", same, err, n.owned[2])
		}
	}
	f := newFabric(t, 2) // this NIC has confirmed the claim before it is told
	n := f.nics[0]
	r := told{op: wire.TableAsk, slot: 1, gen: 1, number: 1, name: n.homed()}
	n.takes(2, r.record())
	first := n.all[0].since
	f.now += 1000
	r.op = wire.TableClaim
	n.takes(2, r.record())
	if e := n.byAddr[vni.Address{NIC: 2, Slot: 1, Gen: 1}]; !e.Live() || e.since != first || len(n.open) != 0 {
		t.Errorf("a claim that was asked for is seen at %v, first at %v; %d are open", e.since, first, len(n.open))
	}
}

// A NIC that has said goodbye was not on the other side of a partition, however long it was away.
// One that was lost was.
func TestANICThatHasSaidGoodbyeComesBackAsANewcomer(t *testing.T) { // decision 15
	for _, goodbye := range []bool{false, true} {
		f := newFabric(t, 2)
		n := f.nics[0]
		p := n.Peer(2)
		f.run(time.Second)
		p.goes(goodbye)
		p.goes(!goodbye) // the following attempts at a session say nothing
		if p.comesBack(f.now.Add(time.Hour), n.cfg.UnreachableAfter); p.back == goodbye {
			t.Errorf("said goodbye %v: it comes back from a partition: %v", goodbye, p.back)
		}
	}
}

// A NIC that is not the home of a name judges no claim to it.
func TestOnlyTheHomeJudgesAContest(t *testing.T) { // decision 15
	f := newFabric(t, 3)
	n, verdicts := f.nics[0], 0
	name := f.nics[1].homed()
	for _, other := range f.nics[1:] {
		other.keep = func(p *Peer, op byte) bool {
			if op == wire.TableLost && p.NIC() == 1 {
				verdicts++
			}
			return true
		}
	}
	n.takes(2, told{op: wire.TableClaim, slot: 1, gen: 1, number: 1, name: name}.record())
	n.takes(3, told{op: wire.TableClaim, slot: 1, gen: 1, number: 1, name: name}.record())
	f.run(5 * time.Second)
	if verdicts != 0 || len(n.contests) != 1 || n.cfg.Counts[vni.NICNameConflicts] != 0 {
		t.Errorf("a NIC that is not the home has told %d verdicts; %d contests", verdicts, len(n.contests))
	}
}

// A table is complete before its promised records have arrived. Sends to unknown names wait for
// those, too.
func TestATableIsSyncedWhenWhatItPromisedHasCome(t *testing.T) {
	f := newFabric(t, 2)
	n := f.nics[0]
	p := n.Peer(2)
	p.told, p.synced, p.first, p.promised, p.firstDue = false, false, 0, 0, -1
	sync := make([]byte, syncLen)
	sync[0], sync[8] = wire.TableSync, 2
	n.takes(2, sync)
	for i := range 2 {
		if !p.told || p.synced {
			t.Errorf("with %d of 2 claims that were promised: told %v, synced %v", i, p.told, p.synced)
		}
		r := told{op: wire.TableClaim, part: partPromised, slot: uint16(i + 1), gen: 1, number: uint32(i + 1), name: n.homed()}
		r.name.Index += uint32(100 + i)
		n.takes(2, r.record())
	}
	if !p.told || !p.synced {
		t.Errorf("with both: told %v, synced %v", p.told, p.synced)
	}
}

// A NIC is lost by silence, and a process of another NIC takes its name. The NIC restarts, and a
// process there claims the name before it meets the others. In its new life the NIC is a newcomer:
// the name stays with the present holder, though the NIC has the lower id.
func TestANICInANewLifeDoesNotTakeItsNameBack(t *testing.T) { // decision 15
	for _, home := range []int{0, 2} {
		f := newFabric(t, 3)
		n, dead, heir := f.nics[0], f.nics[1], f.nics[2]
		name := f.nics[home].homed()
		first := dead.claim(1, name)
		f.until("the first claim ends", first.over)
		f.run(time.Millisecond)
		f.kill(dead)
		n.loses(n.Peer(2))
		heir.loses(heir.Peer(2))
		holder := heir.claim(1, name)
		f.until("the next claim ends", holder.over)
		if !first.held || !holder.held {
			t.Fatalf("home %d: the first held %v, the next %v (%v)", home+1, first.held, holder.held, holder.why)
		}
		f.cut = func(a, _ uint64) bool { return a == 2 }
		back := f.addLife(2, dead.port, 2)
		late := back.claim(2, name)
		f.until("the claim holds apart from the others", func() bool { return late.held })
		f.cut = nil
		f.until("the NIC is back", func() bool {
			p, q := n.Peer(2), heir.Peer(2)
			return p != nil && q != nil && p.Synced() && q.Synced()
		})
		f.run(2 * time.Second)
		if holder.lostTo != (vni.Address{}) || late.lostTo != holder.at {
			t.Errorf("home %d: the holder has lost the name to %v, and the NIC that is back to %v; expected %v and %v",
				home+1, holder.lostTo, late.lostTo, vni.Address{}, holder.at)
		}
		f.found(name, holder.at)
	}
}

// A NIC that comes up while a claim is open is promised its outcome. If the claim does not hold,
// the NIC is told of its end. Otherwise sends to unknown names would wait there.
func TestTheEndOfAClaimIsToldWhereItsOutcomeWasPromised(t *testing.T) { // decision 15
	answer := func(verdict byte) func(n *node, p *proc) {
		return func(n *node, p *proc) {
			n.takes(2, []byte{wire.TableAnswer, verdict, byte(p.at.Slot), 0, byte(p.at.Gen), answerLen - 1: 0})
		}
	}
	for what, ends := range map[string]func(n *node, p *proc){
		"its process ends":  func(n *node, p *proc) { n.End(p.at) },
		"it is refused":     answer(askRefused),
		"it is not allowed": answer(askForbidden),
	} {
		f := newFabric(t, 2)
		n, home := f.nics[0], f.nics[1]
		home.keep = func(_ *Peer, op byte) bool { return op != wire.TableAsk }
		p := n.claim(1, homedInTurn(2, 1, 3))
		f.until("the home is asked", func() bool { return len(home.kept) > 0 })
		late := f.add(3)
		f.until("the new NIC has the table", func() bool { q := late.Peer(1); return q != nil && q.told })
		if p.over() || late.Peer(1).Synced() {
			t.Fatalf("%s: the claim has ended %v, and the new NIC knows all: %v", what, p.over(), late.Peer(1).Synced())
		}
		ends(n, p)
		f.run(100 * time.Millisecond)
		if ended, _ := late.Ended(p.at); !late.Peer(1).Synced() || !ended {
			t.Errorf("%s: the new NIC knows all: %v, and the end of the process: %v",
				what, late.Peer(1).Synced(), ended)
		}
	}
}
