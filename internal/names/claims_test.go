package names

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// step is a record of NIC 2 and its result at NIC 1.
type step struct {
	r    told
	live uint16 // slot to which the name then leads; 0: nowhere
	all  int    // entries of NIC 2
}

// A NIC's records about its processes count by its own numbers, in any order of arrival.
func TestWhatANICTellsOfItsProcessesCountsByItsNumbers(t *testing.T) { // QNIX-53
	const claim, end = wire.TableClaim, wire.TableEnd
	for what, steps := range map[string][]step{
		"a claim and its end":           {{told{op: claim, slot: 1, number: 1}, 1, 1}, {told{op: end, slot: 1, number: 1}, 0, 1}},
		"an end and its claim":          {{told{op: end, slot: 1, number: 1}, 0, 1}, {told{op: claim, slot: 1, number: 1}, 0, 1}},
		"a claim twice":                 {{told{op: claim, slot: 1, number: 1}, 1, 1}, {told{op: claim, slot: 1, number: 1}, 1, 1}},
		"a later claim without an end":  {{told{op: claim, slot: 1, number: 1}, 1, 1}, {told{op: claim, slot: 2, number: 2}, 2, 2}},
		"an earlier claim comes late":   {{told{op: claim, slot: 2, number: 2}, 2, 1}, {told{op: claim, slot: 1, number: 1}, 2, 2}},
		"numbers that go round":         {{told{op: claim, slot: 1, number: 1<<32 - 1}, 1, 1}, {told{op: claim, slot: 2, number: 0}, 2, 2}},
		"the end of an earlier process": {{told{op: claim, slot: 2, number: 2}, 2, 1}, {told{op: end, slot: 1, number: 1}, 2, 2}},
		"an end twice":                  {{told{op: claim, slot: 1, number: 1}, 1, 1}, {told{op: end, slot: 1, number: 1}, 0, 1}, {told{op: end, slot: 1, number: 1}, 0, 1}},
	} {
		f := newFabric(t, 2)
		n := f.nics[0]
		name := n.homed()
		for i, s := range steps {
			s.r.name, s.r.gen = name, 1
			n.takes(2, s.r.record())
			a, ok := n.Lookup(name)
			if ok != (s.live != 0) || ok && a != (vni.Address{NIC: 2, Slot: s.live, Gen: 1}) || n.owned[2] != s.all {
				t.Errorf("%s: after record %d the name leads to %v, %v; %d entries; expected slot %d and %d", what, i+1, a, ok, n.owned[2], s.live, s.all)
			}
			if err := n.consistent(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		if n.cfg.Counts[vni.NICNameConflicts] != 0 {
			t.Errorf("%s: a conflict is counted without a process here", what)
		}
	}
}

// Names that no process may have, and impossible processes, are dropped and leave nothing.
func TestAClaimThatCannotBeIsDropped(t *testing.T) {
	f := newFabric(t, 2)
	n := f.nics[0]
	good := n.homed()
	for what, r := range map[string]told{
		"slot 0":              {slot: 0, name: good},
		"no name":             {slot: 1},
		"the name of a NIC":   {slot: 1, name: Control},
		"the name of a prog.": {slot: 1, name: vni.Name{App: Programs.App, Index: 7}},
	} {
		for _, op := range []byte{wire.TableClaim, wire.TableEnd, wire.TableAsk} {
			before := n.cfg.Counts[vni.DropFormat]
			r.op, r.gen = op, 1
			n.takes(2, r.record())
			if all, open := n.Len(); all+open != 0 || n.cfg.Counts[vni.DropFormat] != before+1 {
				t.Errorf("%s, record %d: %d names, %d open claims, %d dropped", what, op, all, open, n.cfg.Counts[vni.DropFormat]-before)
			}
		}
	}
}

// The home answers each question once, and forgets a claim that it refuses.
func TestTheHomeAnswersEachQuestion(t *testing.T) { // decision 15
	for what, c := range map[string]struct {
		before []told // records of NIC 2
		ask    told   // of NIC 3
		want   int    // verdict; -1: none
	}{
		"a free name":                 {nil, told{slot: 3, number: 1}, askGranted},
		"a name that another has":     {[]told{{op: wire.TableClaim, slot: 1, number: 1}}, told{slot: 3, number: 1}, askRefused},
		"a name whose process ended":  {[]told{{op: wire.TableClaim, slot: 1, number: 1}, {op: wire.TableEnd, slot: 1, number: 1}}, told{slot: 3, number: 1}, askGranted},
		"a name that another asked":   {[]told{{op: wire.TableAsk, slot: 1, number: 1}}, told{slot: 3, number: 1}, askRefused},
		"a name that another gave up": {[]told{{op: wire.TableAsk, slot: 1, number: 1}, {op: wire.TableEnd, slot: 1, number: 1}}, told{slot: 3, number: 1}, askGranted},
	} {
		f := newFabric(t, 3)
		n := f.nics[0]
		name := n.homed()
		var verdicts []int
		f.nics[2].keep = func(_ *Peer, op byte) bool { return op != wire.TableAnswer }
		for _, r := range c.before {
			r.name, r.gen = name, 1
			n.takes(2, r.record())
		}
		c.ask.op, c.ask.name, c.ask.gen = wire.TableAsk, name, 1
		n.takes(3, c.ask.record())
		f.run(3 * limits.GatherWithin)
		for _, e := range n.claims[name] {
			if e.NIC == 3 {
				verdicts = append(verdicts, map[claimState]int{claimGranted: askGranted}[e.state])
			}
		}
		if kept := len(f.nics[2].kept); kept != 1 || (len(verdicts) == 1) != (c.want == askGranted) || len(n.open) != 0 {
			t.Errorf("%s: %d answers, states %v, %d open; expected verdict %d", what, kept, verdicts, len(n.open), c.want)
		}
		n.takes(3, c.ask.record()) // it has asked another NIC in between
		f.run(3 * limits.GatherWithin)
		if kept := len(f.nics[2].kept); kept != 2 {
			t.Errorf("%s: the second question has %d answers", what, kept-1)
		}
		end := c.ask
		end.op = wire.TableEnd
		n.takes(3, end.record())
		n.takes(3, c.ask.record())
		if f.run(3 * limits.GatherWithin); len(f.nics[2].kept) != 2 {
			t.Errorf("%s: a claim that has ended is answered", what)
		}
	}
}

// A process that ends while its claim is open leaves nothing at the NICs that were asked.
func TestAClaimThatEndsEarlyLeavesNothing(t *testing.T) {
	for home := range 3 {
		f := newFabric(t, 3)
		n := f.nics[0]
		name := f.nics[home].homed()
		for _, other := range f.nics[1:] {
			other.keep = func(_ *Peer, op byte) bool { return op != wire.TableAsk && op != wire.TableEnd }
		}
		p := n.claim(1, name)
		f.run(10 * time.Millisecond)
		n.End(p.at)
		n.End(p.at) // of a process that has none
		f.run(10 * time.Millisecond)
		for _, other := range f.nics[1:] {
			other.release(home == 1) // the end may overtake the question
		}
		f.run(limits.NameKeep + time.Second)
		f.unknown(name)
		for _, m := range f.nics {
			if all, open := m.Len(); all+open != 0 {
				t.Errorf("home %d: NIC %d keeps %d names and %d open claims", home+1, m.id, all, open)
			}
		}
		f.wantSettled()
	}
}

// The refusal of a claim names the process that has the name. It is counted, and leaves nothing
// behind.
func TestARefusalNamesTheProcessThatHasTheName(t *testing.T) { // decision 15
	for home := range 3 {
		f := newFabric(t, 3)
		name := f.nics[home].homed()
		first := f.nics[1].claim(7, name)
		f.until("the first has the name", func() bool { return first.held })
		f.run(time.Second)
		for by, slot := range []uint16{4, 5, 6} {
			began := f.now
			second := f.nics[by].claim(slot, name)
			f.until("the second claim ends", second.over)
			if took := f.now.Sub(began); took > limits.GatherWithin/4 {
				t.Errorf("home %d: NIC %d is refused after %v, though the name is known", home+1, by+1, took)
			}
			if want := fmt.Sprintf("%v is the process at slot 7 of NIC 0:0:0:0:0:0:0:2", name); !errors.Is(second.why, ErrTaken) || second.why.Error() != ErrTaken.Error()+": "+want {
				t.Errorf("home %d, by NIC %d: %v; expected that %s", home+1, by+1, second.why, want)
			}
			if n := f.nics[by].cfg.Counts[vni.NICNamesRefused]; n != 1 {
				t.Errorf("home %d: NIC %d has counted %d refusals", home+1, by+1, n)
			}
		}
		f.run(limits.NameKeep + time.Second)
		for _, n := range f.nics {
			if all, open := n.Len(); all != 1 || open != 0 {
				t.Errorf("home %d: NIC %d keeps %d names and %d open claims", home+1, n.id, all, open)
			}
			if n.id != 2 && n.Processes(n.Peer(2)) != 1 {
				t.Errorf("home %d: NIC %d counts %d processes of NIC 2", home+1, n.id, n.Processes(n.Peer(2)))
			}
		}
		f.found(name, first.at)
		f.wantSettled()
	}
}

// A claim waits for a NIC that has come up and withholds its table, but not for long. The same
// holds for sends to unknown names.
func TestAClaimWaitsABoundedTimeForATable(t *testing.T) {
	for _, op := range []byte{wire.TableSync, 0} {
		f := newFabric(t, 1)
		n := f.nics[0]
		n.keep = func(_ *Peer, got byte) bool { return got != op }
		b := f.add(2)
		f.until("it is up", func() bool { p := n.Peer(2); return p != nil && p.Up() })
		began := f.now
		p := n.claim(1, n.homed())
		name := n.homed()
		name.Index += 99
		if _, due := n.Due(name); !due && op == wire.TableSync {
			t.Error("a send to an unknown name does not wait for a table")
		}
		f.until("the claim ends", p.over)
		if took := f.now.Sub(began); !p.held || (took > limits.GatherWithin/2) != (op == wire.TableSync) || took > limits.GatherWithin+10*time.Millisecond {
			t.Errorf("a table that never ends %v: held %v after %v", op == wire.TableSync, p.held, took)
		}
		f.until("sends wait no more", func() bool { _, due := n.Due(name); return !due })
		if took := f.now.Sub(began); took > limits.UnreachableAfter+10*time.Millisecond {
			t.Errorf("a send waits for %v", took)
		}
		if f.run(time.Second); b.Peer(1) == nil {
			t.Error("the NIC is lost")
		}
	}
}

// A NIC that failed is no longer awaited: a claim ends at once.
func TestAClaimDoesNotWaitForANICThatIsLost(t *testing.T) {
	f := newFabric(t, 2)
	n := f.nics[1] // it was told of the other, and calls it
	f.kill(f.nics[0])
	n.Peer(1).Watch(1)
	f.until("the other is given up", func() bool { return !n.Peer(1).Up() })
	n.Peer(1).Watch(-1)
	for slot := range uint16(3) {
		name := n.homed()
		name.Index += uint32(slot)
		began := f.now
		p := n.claim(slot+1, name)
		f.until("the claim ends", p.over)
		if took := f.now.Sub(began); !p.held || took > 10*time.Millisecond {
			t.Errorf("claim %d: held %v after %v", slot, p.held, took)
		}
		f.run(time.Second)
	}
	if n.cfg.Counts[vni.NICNamesUnconfirmed] != 0 {
		t.Errorf("%d claims are counted as not confirmed", n.cfg.Counts[vni.NICNamesUnconfirmed])
	}
}

// If the home withholds its answer, the claim waits for its full patience. Then it holds, and is
// counted.
func TestAClaimHoldsWhenItsHomeDoesNotAnswer(t *testing.T) {
	f := newFabric(t, 2)
	n, home := f.nics[0], f.nics[1]
	home.keep = func(_ *Peer, op byte) bool { return op != wire.TableAsk }
	began := f.now
	p := n.claim(1, home.homed())
	f.until("the claim ends", p.over)
	if took := f.now.Sub(began); !p.held || took < time.Second || took > limits.ConfirmWithin+10*time.Millisecond || n.cfg.Counts[vni.NICNamesUnconfirmed] != 1 {
		t.Errorf("held %v after %v; %d are counted as not confirmed", p.held, took, n.cfg.Counts[vni.NICNamesUnconfirmed])
	}
	home.release(false)
	f.run(time.Second)
	f.found(p.name, p.at)
	f.wantSettled()
}

// An operation that waits for an expected name learns which NIC the name comes from, and ends
// with that NIC.
func TestANameThatIsExpectedIsDueUntilItComes(t *testing.T) {
	f := newFabric(t, 2)
	n := f.nics[0]
	name := n.homed()
	at := vni.Address{NIC: 2, Slot: 5, Gen: 1}
	if _, due := n.Due(name); due {
		t.Fatal("a name is due that nobody has told of")
	}
	n.Expect(name, at)
	if watch, due := n.Due(name); !due || watch != n.Peer(2).Endpoint {
		t.Errorf("due %v, from %v", due, watch)
	}
	n.Expect(name, vni.Address{NIC: 7, Slot: 5, Gen: 1})
	if watch, due := n.Due(name); !due || watch != nil {
		t.Errorf("from a NIC that is not known: due %v, %v", due, watch)
	}
	n.Expect(name, at)
	n.takes(2, told{op: wire.TableClaim, slot: 5, gen: 1, number: 1, name: name}.record())
	if _, due := n.Due(name); due || len(n.due) != 0 {
		t.Error("the name is due though it has come")
	}
	if n.Expect(name, at); len(n.due) != 0 {
		t.Error("a name that is here is expected")
	}
	n.takes(2, told{op: wire.TableEnd, slot: 5, gen: 1, number: 1, name: name}.record())
	if n.Expect(name, at); len(n.due) != 0 {
		t.Error("a process that has ended is expected")
	}
	n.takes(2, told{op: wire.TableAsk, slot: 6, gen: 1, number: 2, name: name}.record())
	if _, due := n.Due(name); !due {
		t.Error("a claim is open, and the name is not due")
	}
}
