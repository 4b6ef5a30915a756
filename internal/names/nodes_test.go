package names

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A node that the owner names takes the place of a peer that matters less. Hearsay takes no
// place.
func TestANodeThatIsNamedFindsAPlace(t *testing.T) {
	f := newFabric(t, 2)
	n := f.nics[0]
	at := nowhere(4)
	n.most = 2
	if _, err := n.add(20, at[0]); err != nil { // a node that is not named
		t.Fatal(err)
	}
	n.takes(2, rumoured(30, at[1], partNone))
	n.checkHearsay()
	if len(n.hearsay.rumours) != 0 || n.cfg.Counts[vni.NICNodesRefused] != 1 || n.Peer(2).calls != 0 || n.Peer(20) == nil {
		t.Errorf("%d rumours stay with every place taken; %d refused, NIC 20 is known: %v", len(n.hearsay.rumours), n.cfg.Counts[vni.NICNodesRefused], n.Peer(20) != nil)
	}
	n.cfg.Vouched = func(uint64, netip.AddrPort) bool { return true }
	n.takes(2, rumoured(31, at[1], partNone))
	if n.Peer(31) != nil || n.cfg.Counts[vni.DropRefusedHello] != 1 {
		t.Errorf("a node that is vouched for has a place; %d are counted", n.cfg.Counts[vni.DropRefusedHello])
	}
	if err := n.AddNode(40, at[2]); err != nil || n.Peer(20) != nil || n.Peer(40) == nil {
		t.Errorf("a node that is named: %v; the other stays: %v", err, n.Peer(20) != nil)
	}
	if err := n.AddNode(41, at[3]); !errors.Is(err, rel.ErrPeers) || n.Peer(40) == nil {
		t.Errorf("with every place that of a peer that is up or named: %v", err)
	}
}

// If a node was named by its address alone and another NIC answers there, the name refers to the
// other NIC from now on. This holds only for that address.
func TestAnotherNICAtANamedAddressIsMeantFromNowOn(t *testing.T) {
	for what, c := range map[string]struct {
		id    uint64
		moved bool
		meant bool
	}{"by its address": {0, false, true}, "by its id": {9, false, false}, "by another address": {0, true, false}} {
		f := newFabric(t, 1)
		n := f.nics[0]
		at := nowhere(2)
		if err := n.AddNode(c.id, at[0]); err != nil {
			t.Fatal(err)
		}
		p := n.peers[0]
		if c.moved {
			p.places = at[1:]
		}
		n.rel.Open(9, at[0]) // it has answered with its id
		n.Other(p, 10)
		other := n.Peer(10)
		if meant := other != nil && other.named && other.anyID && other.added && slices.Equal(other.places, p.places) && other.lastAt == at[0]; meant != c.meant || p.named == c.meant {
			t.Errorf("a node named %s: the other NIC is meant %v, and the first is named %v", what, meant, p.named)
		}
	}
}

// A NIC that is up elsewhere keeps its session, unless it was removed: then the named node
// replaces it.
func TestANodeThatIsUpElsewhereIsRefused(t *testing.T) {
	for _, removed := range []bool{false, true} {
		f := newFabric(t, 2)
		n, at := f.nics[0], nowhere(1)[0]
		if removed {
			n.RemoveNode(2, f.nics[1].port.Addr())
		}
		err := n.AddNode(2, at)
		p := n.Peer(2)
		if errors.Is(err, rel.ErrAddress) == removed || (p.Addr() == at) != removed || p.Up() == removed || p.removed {
			t.Errorf("removed %v: %v; NIC 2 is at %v, up %v", removed, err, p.Addr(), p.Up())
		}
	}
}

// A rumour about a NIC that is known by now ends. It is good if the NIC is up there or was named.
// The NIC is not called at a second place.
func TestARumourAboutAKnownNICEnds(t *testing.T) {
	for what, c := range map[string]struct {
		change func(n *node, p *Peer)
		here   bool // it is told where the NIC is
		credit int
	}{
		"that is up there":     {func(*node, *Peer) {}, true, limits.HearsayPerTeller},
		"that is up elsewhere": {func(*node, *Peer) {}, false, limits.HearsayPerTeller - 1},
		"that is named":        {func(_ *node, p *Peer) { p.named = true }, false, limits.HearsayPerTeller},
		"that is down, and was not told": {func(n *node, _ *Peer) {
			n.f.cut = func(a, b uint64) bool { return a == 3 || b == 3 }
			n.Peer(3).Watch(1)
			n.f.until("it is down", func() bool { return !n.Peer(3).Up() })
			n.Peer(3).Watch(-1)
		}, true, limits.HearsayPerTeller - 1},
	} {
		f := newFabric(t, 3)
		n := f.nics[0]
		p, at := n.Peer(3), nowhere(1)[0]
		if c.here {
			at = p.Addr()
		}
		c.change(n, p)
		n.hearsay.rumours = append(n.hearsay.rumours, &rumour{id: 3, addr: at, teller: n.Peer(2), at: f.now})
		n.Peer(2).credit--
		n.checkHearsay()
		if len(n.hearsay.rumours) != 0 || n.hearsay.calls != 0 || n.Peer(2).credit != c.credit {
			t.Errorf("a NIC %s: %d rumours, %d calls, the credit is %d; expected %d", what, len(n.hearsay.rumours), n.hearsay.calls, n.Peer(2).credit, c.credit)
		}
	}
	f := newFabric(t, 2)
	n := f.nics[0]
	n.hearsay.silent[nowhere(1)[0].Addr()] = &silence{calls: limits.HearsayCallsPerHost, until: f.now.Add(time.Hour)}
	n.takes(2, rumoured(9, nowhere(1)[0], partNone))
	n.checkHearsay()
	if len(n.hearsay.rumours) != 0 || n.Peer(9) != nil || n.cfg.Counts[vni.NICNodesRefused] != 1 || n.Peer(2).credit != limits.HearsayPerTeller-1 {
		t.Errorf("a host that is called no more: %d rumours, %d refused", len(n.hearsay.rumours), n.cfg.Counts[vni.NICNodesRefused])
	}
	if err := n.AddNode(0, nowhere(2)[1]); err != nil {
		t.Fatal(err)
	}
	n.takes(2, rumoured(10, nowhere(2)[1], partNone)) // its address was named without its id
	n.checkHearsay()
	if p := n.Peer(10); len(n.hearsay.rumours) != 0 || p == nil || !p.named || p.hearsay != nil || n.hearsay.calls != 0 {
		t.Errorf("a NIC at a named address: %d rumours, %+v", len(n.hearsay.rumours), p)
	}
}

// Until the tables of a NIC have arrived, it is not known which of its processes have ended.
func TestAProcessHasEndedIfItsNICSaysSo(t *testing.T) {
	f := newFabric(t, 2)
	n := f.nics[0]
	name := n.homed()
	n.takes(2, told{op: wire.TableClaim, slot: 1, gen: 1, number: 1, name: name}.record())
	n.takes(2, told{op: wire.TableClaim, slot: 2, gen: 1, number: 2, name: vni.Name{App: name.App, Index: 99}}.record())
	n.takes(2, told{op: wire.TableEnd, slot: 2, gen: 1, number: 2, name: vni.Name{App: name.App, Index: 99}}.record())
	for what, c := range map[string]struct {
		at    vni.Address
		ended bool
	}{
		"one that lives":         {vni.Address{NIC: 2, Slot: 1, Gen: 1}, false},
		"one that has ended":     {vni.Address{NIC: 2, Slot: 2, Gen: 1}, true},
		"one that was not told":  {vni.Address{NIC: 2, Slot: 3, Gen: 1}, true},
		"the NIC itself":         {vni.Address{NIC: 2}, false},
		"one of an unknown NIC":  {vni.Address{NIC: 7, Slot: 1, Gen: 1}, true},
		"the unknown NIC itself": {vni.Address{NIC: 7}, true},
	} {
		if ended, _ := n.Ended(c.at); ended != c.ended {
			t.Errorf("%s has ended: %v", what, ended)
		}
	}
	if _, until := n.Ended(vni.Address{NIC: 2, Slot: 2, Gen: 1}); until != f.now.Add(limits.GoneGrace) {
		t.Errorf("its last messages may come for %v, expected %v", until.Sub(f.now), limits.GoneGrace)
	}
	n.Peer(2).synced = false
	if ended, _ := n.Ended(vni.Address{NIC: 2, Slot: 3, Gen: 1}); ended {
		t.Error("before its tables have come a NIC's process has ended")
	}
	if n.At(vni.Address{NIC: 2, Slot: 1, Gen: 1}) == nil || n.At(vni.Address{NIC: 2, Slot: 9, Gen: 1}) != nil {
		t.Error("a process is not found by its address, or one that is not there is")
	}
	n.takes(2, told{op: wire.TableClaim, slot: 5, gen: 1, number: 3, name: vni.Name{App: name.App, Index: 0}}.record())
	if l := n.List(); len(l) != 2 || l[0].Slot != 5 || l[1].Slot != 1 || !l[0].Reachable {
		t.Errorf("the list is %+v", l)
	}
	if slot, gen, ok := Claimant(told{op: wire.TableClaim, slot: 5, gen: 3, name: name}.record()); slot != 5 || gen != 3 || !ok {
		t.Errorf("the claim is of slot %d, generation %d, %v", slot, gen, ok)
	}
	if _, _, ok := Claimant(told{op: wire.TableEnd, slot: 5, gen: 3, name: name}.record()); ok {
		t.Error("an end is a claim")
	}
}
