package names

import (
	"net/netip"
	"strings"
	"testing"
	"time"

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
