package names

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A name that a NIC is to tell is due no more when that NIC is lost, or says goodbye: nothing
// would end a send that waits for it.
func TestANameIsNotDueFromANICThatIsLost(t *testing.T) {
	for _, goodbye := range []bool{false, true} {
		f := newFabric(t, 3)
		n := f.nics[0]
		name, other := n.homed(), n.homed()
		other.Index += 7
		n.Expect(name, vni.Address{NIC: 2, Slot: 5, Gen: 1})
		n.Expect(other, vni.Address{NIC: 3, Slot: 5, Gen: 1})
		n.Settle()
		n.Table.Down(n.Peer(2), goodbye)
		if _, due := n.Due(name); due || !n.Changed() {
			t.Errorf("goodbye %v: the name of the lost NIC is due: %v; sends check again: %v", goodbye, due, n.Changed())
		}
		if watch, due := n.Due(other); !due || watch != n.Peer(3).Endpoint {
			t.Errorf("goodbye %v: the name of the other NIC is due: %v", goodbye, due)
		}
	}
}

// Nodes that are removed before they have answered are all forgotten at once, and the operations
// that wait for their names check again.
func TestNodesThatAreRemovedAreForgottenTogether(t *testing.T) {
	f := newFabric(t, 1)
	n := f.nics[0]
	at := nowhere(3)
	for i, a := range at {
		if err := n.AddNode(uint64(20+i), a); err != nil {
			t.Fatal(err)
		}
	}
	n.Expire()
	n.Settle()
	for i, a := range at {
		n.RemoveNode(uint64(20+i), a)
	}
	if n.Expire(); len(n.peers) != 0 || !n.Changed() {
		t.Errorf("%d nodes are left; waiting operations check again: %v", len(n.peers), n.Changed())
	}
	f.wantForgotten(n)
}

// wantForgotten checks that the rel of a NIC knows no peer any more.
func (f *fabric) wantForgotten(n *node) {
	f.t.Helper()
	if len(n.byEP) != 0 || n.hearsay.calls != 0 || len(n.hearsay.rumours) != 0 {
		f.t.Errorf("%d endpoints, %d calls and %d rumours are left", len(n.byEP), n.hearsay.calls, len(n.hearsay.rumours))
	}
}

// A NIC that is called on hearsay may be named meanwhile. The end of the call does not end the
// named node.
func TestANodeThatIsNamedDuringItsCallStays(t *testing.T) {
	f := newFabric(t, 2)
	n, at := f.nics[0], nowhere(1)[0]
	n.takes(2, rumoured(9, at, partNone))
	n.checkHearsay()
	p := n.Peer(9)
	if p == nil || n.hearsay.calls != 1 {
		t.Fatalf("%d calls; expected one", n.hearsay.calls)
	}
	if err := n.AddNode(9, at); err != nil {
		t.Fatal(err)
	}
	f.run(time.Minute)
	if n.Peer(9) != p || !p.named || n.hearsay.calls != 0 || len(n.hearsay.rumours) != 0 {
		t.Errorf("the node is known: %v; %d calls, %d rumours are left", n.Peer(9) != nil, n.hearsay.calls, len(n.hearsay.rumours))
	}
	if n.Peer(2).credit != limits.HearsayPerTeller {
		t.Errorf("its teller has credit %d; expected %d", n.Peer(2).credit, limits.HearsayPerTeller)
	}
}

// A NIC that was up at an address that was not named is searched there, too.
func TestANICIsFoundAgainWhereItWasUp(t *testing.T) {
	f := newFabric(t, 1)
	a, b := f.nics[0], f.silent(2)
	places := nowhere(2)
	if err := a.AddNode(2, places[0], places[1]); err != nil {
		t.Fatal(err)
	}
	// NIC 2 moves: it calls from another address.
	p := a.Peer(2)
	if err := b.AddNode(1, a.port.Addr()); err != nil {
		t.Fatal(err)
	}
	f.until("the NIC has called", p.Up)
	if p.Addr() != b.port.Addr() {
		t.Fatalf("the NIC is at %v", p.Addr())
	}
	f.cut = func(_, _ uint64) bool { return true }
	a.loses(p)
	b.loses(b.Peer(1))
	b.Peer(1).removed, b.Peer(1).added, b.Peer(1).named = true, false, false // it does not call again
	b.CheckAt(0)
	f.run(time.Minute) // a has tried the named addresses
	f.cut = nil
	f.run(5 * (limits.RetryAtMost + limits.UnreachableAfter))
	if !p.Up() || p.Addr() != b.port.Addr() {
		t.Errorf("the NIC is up: %v, at %v; expected %v", p.Up(), p.Addr(), b.port.Addr())
	}
}

// Each session has a first table of its own: what a NIC told in an earlier one does not count.
func TestEachSessionHasItsOwnFirstTable(t *testing.T) {
	f := newFabric(t, 2)
	n, b := f.nics[0], f.nics[1]
	var all []*proc
	for i := range uint16(3) {
		name := n.homed()
		name.Index += uint32(i)
		all = append(all, b.claim(i+1, name))
	}
	f.until("the claims end", func() bool { return all[0].over() && all[1].over() && all[2].over() })
	for round := range 3 {
		n.Peer(2).promised, n.Peer(2).promisedDue = 2, 2 // as of two claims that were open
		f.cut = func(_, _ uint64) bool { return true }
		n.loses(n.Peer(2))
		if b.Peer(1).Up() {
			b.loses(b.Peer(1))
		}
		f.cut = nil
		f.until("both have told their tables", func() bool {
			p, q := n.Peer(2), b.Peer(1)
			return p != nil && q != nil && p.synced && q.synced
		})
		for _, p := range all {
			if at, ok := n.Lookup(p.name); !ok || at != p.at {
				t.Errorf("round %d: %v leads to %v, %v", round, p.name, at, ok)
			}
		}
	}
}

// A place where another NIC is up is left out of the search, which goes on behind it.
func TestASearchGoesOnBehindThePlaceOfAnotherNIC(t *testing.T) {
	f := newFabric(t, 2)
	a, other, b := f.nics[0], f.nics[1], f.silent(9)
	if err := a.AddNode(9, nowhere(1)[0], other.port.Addr(), b.port.Addr()); err != nil {
		t.Fatal(err)
	}
	f.until("the NIC is found", func() bool { p := a.Peer(9); return p != nil && p.Up() })
	if p := a.Peer(9); p.Addr() != b.port.Addr() || !a.Peer(2).Up() {
		t.Errorf("NIC 9 is at %v; NIC 2 is up: %v", p.Addr(), a.Peer(2).Up())
	}
}

// The home tells every loser of a contest, also if an earlier one keeps its claim.
func TestTheHomeTellsEachLoser(t *testing.T) { // decision 15
	f := newFabric(t, 4)
	home := f.nics[0]
	name := home.homed()
	lost := make(map[uint64]int)
	for _, n := range f.nics[1:] {
		n.keep = func(_ *Peer, op byte) bool {
			if op == wire.TableLost {
				lost[n.id]++
			}
			return op != wire.TableLost // it does not obey
		}
	}
	for id := uint64(2); id <= 4; id++ {
		home.takes(id, told{op: wire.TableClaim, slot: 1, gen: 1, number: 1, name: name}.record())
		f.step()
	}
	f.run(time.Second)
	if lost[2] != 0 || lost[3] != 1 || lost[4] != 1 {
		t.Errorf("the NICs are told %v times that they have lost", lost)
	}
}

// A claim waits for the table of a NIC that has come back as for that of a new one, and no longer.
func TestAClaimWaitsForTheTableOfANICThatIsBack(t *testing.T) { // decision 15
	f := newFabric(t, 2)
	n, b := f.nics[0], f.nics[1]
	n.Peer(2).gatherBy = f.now // its table was awaited once
	f.run(time.Second)
	f.cut = func(_, _ uint64) bool { return true }
	n.loses(n.Peer(2))
	if b.Peer(1).Up() {
		b.loses(b.Peer(1))
	}
	n.keep = func(_ *Peer, op byte) bool { return op != wire.TableSync }
	f.cut = nil
	f.until("it is back", func() bool { p := n.Peer(2); return p != nil && p.Up() })
	began := f.now
	p := n.claim(1, n.homed())
	f.until("the claim ends", p.over)
	if took := f.now.Sub(began); !p.held || took < limits.GatherWithin/2 || took > limits.GatherWithin+10*time.Millisecond {
		t.Errorf("held %v after %v; expected %v", p.held, took, limits.GatherWithin)
	}
}
