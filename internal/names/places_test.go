package names

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/mem"
)

// nowhere returns addresses without a NIC.
func nowhere(n int) (all []netip.AddrPort) {
	for i := range n {
		all = append(all, mem.Address(90+i))
	}
	return all
}

// silent adds a NIC that calls no other.
func (f *fabric) silent(id uint64) *node {
	n := f.add(id)
	n.peers[0].removed = true
	n.forgetRemoved()
	return n
}

func TestANICIsFoundAtAnyOfItsAddresses(t *testing.T) {
	for _, named := range []bool{false, true} { // with its id, or without
		for at := range 4 {
			f := newFabric(t, 1)
			a, b := f.nics[0], f.silent(2)
			places := nowhere(3)
			places = append(places[:at:at], append([]netip.AddrPort{b.port.Addr()}, places[at:]...)...)
			id := uint64(0)
			if named {
				id = 2
			}
			if err := a.AddNode(id, places[0], places[1:]...); err != nil {
				t.Fatal(err)
			}
			began := f.now
			up := func() bool { p := a.Peer(2); return p != nil && p.Up() }
			f.until("the NIC is found", up)
			if took := f.now.Sub(began); took > time.Duration(at)*a.callTime()+100*time.Millisecond {
				t.Errorf("the NIC at address %d of 4 is found after %v; expected %v for each before", at+1, took, a.callTime())
			}
			p := a.Peer(2)
			if p.Addr() != b.port.Addr() || at > 0 != (p.NoAnswerAt() != "") || strings.Count(p.NoAnswerAt(), ",") != max(at-1, 0) {
				t.Errorf("the NIC at address %d is at %v; no answer at %q", at+1, p.Addr(), p.NoAnswerAt())
			}
		}
	}
}

func TestANICThatStartsLaterIsFoundThoughOtherAddressesWereTried(t *testing.T) {
	f := newFabric(t, 1)
	a, b := f.nics[0], f.silent(2)
	dark := true
	f.cut = func(_, _ uint64) bool { return dark }
	if err := a.AddNode(0, b.port.Addr(), nowhere(1)[0]); err != nil {
		t.Fatal(err)
	}
	f.run(time.Minute)
	dark = false
	f.until("the NIC is found", func() bool { p := a.Peer(2); return p != nil && p.Up() })
}

func TestANICThatCallsFromItsSecondAddressIsTheOneThatWasNamed(t *testing.T) {
	for _, first := range []bool{false, true} { // it calls before it is named, or after
		f := newFabric(t, 1)
		a, b := f.nics[0], f.silent(2)
		name := func() {
			if err := a.AddNode(0, nowhere(1)[0], b.port.Addr()); err != nil {
				t.Fatal(err)
			}
		}
		if !first {
			name()
		}
		if err := b.AddNode(1, a.port.Addr()); err != nil {
			t.Fatal(err)
		}
		f.until("the NIC has called", func() bool { p := a.Peer(2); return p != nil && p.Up() })
		if first {
			name()
		}
		f.until("it is the only one", func() bool { a.CheckAt(0); return len(a.peers) == 1 })
		if p := a.peers[0]; !p.named || !p.anyID || len(p.places) != 2 || p.NIC() != 2 {
			t.Errorf("the peer is %+v", p)
		}
		a.RemoveNode(0, nowhere(1)[0])
		if p := a.peers[0]; !p.removed {
			t.Error("it is not removed by another of its addresses")
		}
	}
}

// loses runs until the session of a NIC with a peer has ended.
func (n *node) loses(p *Peer) {
	n.f.t.Helper()
	p.Watch(1)
	n.f.until("the session ends", func() bool { return !p.Up() })
	p.Watch(-1)
}

// When the session with a NIC of several addresses is lost, the search begins anew: each address
// is tried within the first attempt, and none is listed as silent until it is.
func TestASearchBeginsAnewWhenTheSessionIsLost(t *testing.T) {
	f := newFabric(t, 1)
	a, b := f.nics[0], f.silent(2)
	places := append(nowhere(2), b.port.Addr())
	if err := a.AddNode(2, places[0], places[1:]...); err != nil {
		t.Fatal(err)
	}
	f.until("the NIC is found", func() bool { p := a.Peer(2); return p != nil && p.Up() })
	p := a.Peer(2)
	for round := range 2 {
		if p.NoAnswerAt() == "" {
			t.Fatalf("round %d: no address is silent", round)
		}
		f.cut = func(_, _ uint64) bool { return true }
		a.loses(p)
		if said := p.NoAnswerAt(); said != "" {
			t.Errorf("round %d: %s has not answered since the session was lost, and was not called", round, said)
		}
		tried, began := map[netip.AddrPort]bool{}, f.now
		f.until("all addresses are tried", func() bool { tried[p.Addr()] = true; return len(tried) == len(places) })
		if took := f.now.Sub(began); took > limits.HelloEvery+time.Duration(len(places))*a.callTime() {
			t.Errorf("round %d: the addresses are tried after %v; expected %v for each", round, took, a.callTime())
		}
		f.cut = nil
		f.until("the NIC is found again", p.Up)
		p.silentAt = append(p.silentAt, places[0])
	}
}

// The pause before an attempt grows while a NIC stays away. When it was back, the next loss begins
// with the shortest pause again.
func TestThePauseBeginsAnewWhenANICWasBack(t *testing.T) {
	f := newFabric(t, 2)
	n := f.nics[1] // it was told of the other, and calls it
	p := n.Peer(1)
	f.cut = func(_, _ uint64) bool { return true }
	n.loses(p)
	f.run(4 * limits.RetryAtMost)
	if p.pause != limits.RetryAtMost {
		t.Fatalf("the pause is %v after long; expected %v", p.pause, limits.RetryAtMost)
	}
	f.cut = nil
	f.until("it is back", p.Up)
	f.cut = func(_, _ uint64) bool { return true }
	n.loses(p)
	if pause := p.retryAt.Sub(f.now); pause > limits.HelloEvery {
		t.Errorf("the next attempt comes after %v; expected %v", pause, limits.HelloEvery)
	}
}

// A NIC that others have told of is forgotten when it has been away for FailureTimeout, though it
// is called again and again meanwhile.
func TestANICThatWasToldIsForgottenInTimeThoughItIsCalled(t *testing.T) {
	f := newFabric(t, 3)
	n, other := f.nics[1], f.nics[2]
	if !n.Peer(3).added {
		n, other = other, n
	}
	p := n.Peer(other.id)
	if !p.added || p.named {
		t.Fatalf("NIC %d is named %v, added %v; expected that a NIC has told of it", other.id, p.named, p.added)
	}
	f.kill(other)
	n.loses(p)
	began, calls := f.now, p.retryAt
	attempts := 0
	f.until("it is forgotten", func() bool {
		if p.retryAt != calls {
			calls = p.retryAt
			attempts++
		}
		return n.Peer(other.id) == nil
	})
	if took := f.now.Sub(began); attempts < 2 || took > limits.FailureTimeout+10*time.Millisecond {
		t.Errorf("it is forgotten after %v and %d attempts; expected %v", took, attempts, limits.FailureTimeout)
	}
}

// A NIC that stays away is called at each of its addresses again and again. Each address is listed
// as silent once.
func TestAnAddressThatStaysSilentIsListedOnce(t *testing.T) {
	f := newFabric(t, 1)
	n, at := f.nics[0], nowhere(2)
	if err := n.AddNode(2, at[0], at[1]); err != nil {
		t.Fatal(err)
	}
	p, turns, last := n.Peer(2), 0, at[0]
	f.until("each address is called several times", func() bool {
		if p.Addr() != last {
			last = p.Addr()
			turns++
		}
		return turns == 5
	})
	if len(p.silentAt) != len(at) || p.NoAnswerAt() != at[0].String() {
		t.Errorf("after %d turns silent at %v, no answer at %q; expected %v", turns, p.silentAt, p.NoAnswerAt(), at[0])
	}
}
