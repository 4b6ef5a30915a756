package names

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// The audit finds each entry that cannot be looked up correctly, and each wrong count and open
// claim.
func TestTheAuditFindsWhatATableContradicts(t *testing.T) {
	for what, c := range map[string]struct {
		change func(n *node, e *Entry)
		finds  bool
	}{
		"nothing":                       {func(*node, *Entry) {}, false},
		"an entry that is out":          {func(n *node, e *Entry) { n.remove(e) }, false},
		"an entry without its address":  {func(n *node, e *Entry) { delete(n.byAddr, e.Address) }, true},
		"an entry without its name":     {func(n *node, e *Entry) { delete(n.byName, e.Name) }, true},
		"a name that leads to the dead": {func(_ *node, e *Entry) { e.dead = true }, true},
		"a name that leads to a claim":  {func(_ *node, e *Entry) { e.state = claimAsked }, true},
		"a name that leads elsewhere":   {func(n *node, e *Entry) { n.byName[vni.Name{Index: 9}] = e }, true},
		"a wrong count":                 {func(n *node, _ *Entry) { n.owned[2]++ }, true},
		"an open claim that is decided": {func(n *node, e *Entry) { n.open = append(n.open, e) }, true},
		"an open claim of another home": {func(n *node, e *Entry) {
			e.state, e.near = claimAsked, nearest{found: true, home: n.Peer(2)}
			delete(n.byName, e.Name)
			n.open = append(n.open, e)
		}, true},
	} {
		f := newFabric(t, 2)
		n := f.nics[0]
		n.takes(2, told{op: wire.TableClaim, slot: 1, gen: 1, number: 1, name: n.homed()}.record())
		c.change(n, n.all[0])
		if err := n.Audit(); (err != nil) != c.finds {
			t.Errorf("%s: the audit says %v", what, err)
		}
	}
}

// A newer process of a rank and an older one on the same NIC settle at once which has the name.
func TestTwoProcessesOfARankOnOneNICSettleAtOnce(t *testing.T) {
	for what, c := range map[string]struct {
		first, second uint64
		secondHas     bool
		why           error
	}{"the newer comes second": {10, 11, true, nil}, "the older comes second": {11, 10, false, ErrSuperseded}, "both are as new": {11, 11, false, ErrTaken}} {
		for nics := 1; nics <= 2; nics++ {
			f := newFabric(t, nics)
			n := f.nics[0]
			name := n.homed()
			a := n.claimAs(1, name, life(c.first))
			f.until("the first has the name", func() bool { return a.held })
			b := n.claimAs(2, name, life(c.second))
			f.until("the second claim is over", b.over)
			if b.held != c.secondHas || !errors.Is(b.why, c.why) || (a.lostTo == b.at) != c.secondHas {
				t.Errorf("%s, %d NICs: held %v, %v; the first has lost to %v", what, nics, b.held, b.why, a.lostTo)
			}
			f.run(limits.NameKeep + time.Second)
			want := a.at
			if c.secondHas {
				want = b.at
			}
			f.found(name, want)
			if all, open := n.Len(); all != 1 || open != 0 {
				t.Errorf("%s, %d NICs: %d names and %d open claims are left", what, nics, all, open)
			}
			f.wantSettled()
		}
	}
}

// A question from an earlier process is over once a later claim of the same NIC is there. It is
// not answered.
func TestAQuestionThatIsOverIsNotAnswered(t *testing.T) {
	f := newFabric(t, 2)
	n := f.nics[0]
	name := n.homed()
	answers := 0
	f.nics[1].keep = func(_ *Peer, op byte) bool {
		if op == wire.TableAnswer {
			answers++
		}
		return op != wire.TableAnswer
	}
	n.takes(2, told{op: wire.TableClaim, slot: 2, gen: 1, number: 5, name: name}.record())
	n.takes(2, told{op: wire.TableAsk, slot: 1, gen: 1, number: 4, name: name}.record())
	f.run(3 * limits.GatherWithin)
	if all, open := n.Len(); answers != 0 || all != 1 || open != 0 {
		t.Errorf("it has %d answers; %d names, %d open claims", answers, all, open)
	}
	// a later one ends the claim
	n.takes(2, told{op: wire.TableAsk, slot: 3, gen: 1, number: 6, name: name}.record())
	f.run(3 * limits.GatherWithin)
	if _, ok := n.Lookup(name); answers != 1 || ok {
		t.Errorf("a later question has %d answers; the name leads to a process: %v", answers, ok)
	}
}

// A loopback address means nothing to other hosts: a NIC at one is not told to them, and the
// table is complete without it.
func TestATableIsCompleteWithoutNodesThatMeanNothing(t *testing.T) {
	f := newFabric(t, 2)
	n := f.nics[0]
	p := &Peer{}
	ep, err := n.rel.Open(30, netip.MustParseAddrPort("127.0.0.1:9"))
	if err != nil {
		t.Fatal(err)
	}
	p.Endpoint = ep
	if n.tellNode(n.Peer(2), p, partFirst) {
		t.Error("a NIC on this host alone is told of to another host")
	}
	if n.tellName(p, wire.TableClaim, &Entry{}, partNone) || n.tellNode(p, n.Peer(2), partNone) || n.askForName(&Entry{}, vni.Address{NIC: 30}) || n.askForName(&Entry{}, vni.Address{NIC: 77}) {
		t.Error("a NIC without a session is told something")
	}
	// an unknown NIC
	n.tellAnswer(&Entry{Address: vni.Address{NIC: 77}}, askGranted, vni.Address{})
	n.judgeLoser(&Entry{Address: vni.Address{NIC: 77}}, &Entry{Address: vni.Address{NIC: 2}})
	f.run(time.Second)
	f.wantSettled()
}

// A process keeps its name when a session is lost for a moment. If its NIC does not claim the
// name again, the process has ended.
func TestAProcessThatIsNotToldAgainHasEnded(t *testing.T) {
	f := newFabric(t, 2)
	n, b := f.nics[0], f.nics[1]
	name := n.homed()
	stays := b.claim(1, name)
	f.until("the claim ends", stays.over)
	f.run(time.Second)
	gone := told{op: wire.TableClaim, slot: 2, gen: 1, number: 50, name: vni.Name{App: name.App, Index: 500}}
	n.takes(2, gone.record())
	f.cut = func(uint64, uint64) bool { return true }
	n.Peer(2).Watch(1)
	f.until("the session ends", func() bool { return !n.Peer(2).Up() })
	n.Peer(2).Watch(-1)
	if l := n.List(); len(l) != 2 || l[0].Reachable || l[1].Reachable {
		t.Errorf("without the session the names are %+v", l)
	}
	f.cut = nil
	f.until("it is back", func() bool { p := n.Peer(2); return p != nil && p.synced })
	if _, ok := n.Lookup(gone.name); ok || n.byAddr[vni.Address{NIC: 2, Slot: 2, Gen: 1}] != nil && !n.byAddr[vni.Address{NIC: 2, Slot: 2, Gen: 1}].dead {
		t.Error("a process that its NIC claims no more lives")
	}
	f.found(name, stays.at)
	if stays.lostTo != (vni.Address{}) {
		t.Errorf("the process has lost its name to %v", stays.lostTo)
	}
}

// The home of a name is the same for all NICs that know the same NICs. It moves only to or from a
// NIC that comes or goes.
func TestTheHomeOfANameMovesOnlyWithANIC(t *testing.T) { // decision 15
	f := newFabric(t, 4)
	homeOf := func(n *node, name vni.Name) uint64 {
		if p := n.Home(name); p != nil {
			return p.NIC()
		}
		return n.id
	}
	name := f.nics[0].homed()
	before, homes := make(map[uint32]uint64), make(map[uint64]int)
	for i := range uint32(400) {
		name.Index = i
		before[i] = homeOf(f.nics[0], name)
		homes[before[i]]++
		for _, n := range f.nics {
			if got := homeOf(n, name); got != before[i] {
				t.Fatalf("NIC %d takes NIC %d for the home of %v, and NIC 1 takes NIC %d", n.id, got, name, before[i])
			}
		}
	}
	for nic := uint64(1); nic <= 4; nic++ {
		if homes[nic] < 40 {
			t.Errorf("NIC %d is the home of %d of 400 names", nic, homes[nic])
		}
	}
	f.add(5)
	f.until("the new NIC knows all", func() bool { return len(f.nics[4].peers) == 4 && len(f.nics[0].peers) == 4 })
	f.run(time.Second)
	for i, was := range before {
		name.Index = i
		if is := homeOf(f.nics[0], name); is != was && is != 5 {
			t.Fatalf("the home of %v moves from NIC %d to NIC %d when NIC 5 comes", name, was, is)
		}
	}
}
