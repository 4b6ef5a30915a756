package names

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// rumoured returns the record of a NIC at an address.
func rumoured(id uint64, at netip.AddrPort, part byte) []byte {
	b := make([]byte, nodeLen)
	b[0], b[1] = wire.TableNode, part
	le.PutUint16(b[4:], at.Port())
	ip := at.Addr().As16()
	copy(b[8:], ip[:])
	le.PutUint64(b[24:], id)
	return b
}

// A NIC that does not answer is called HearsayTries times, at growing intervals. Then it is
// forgotten, and its teller has spent the credit.
func TestANICThatDoesNotAnswerIsForgotten(t *testing.T) {
	f := newFabric(t, 2)
	n := f.nics[0]
	p, at := n.Peer(2), nowhere(1)[0]
	n.takes(2, rumoured(9, at, partNone))
	n.takes(2, rumoured(9, at, partNone)) // still one rumour
	if len(n.hearsay.rumours) != 1 || p.credit != limits.HearsayPerTeller-1 {
		t.Fatalf("%d rumours; the credit is %d", len(n.hearsay.rumours), p.credit)
	}
	var began []time.Duration
	start, called := f.now, false
	for range 20000 {
		if f.step(); (n.hearsay.calls > 0) != called {
			if called = !called; called {
				began = append(began, f.now.Sub(start))
			}
		}
		if len(n.hearsay.rumours) == 0 {
			break
		}
	}
	if len(began) != limits.HearsayTries || len(n.hearsay.rumours) != 0 || n.Peer(9) != nil || len(n.peers) != 1 {
		t.Fatalf("it was called at %v; %d rumours, %d peers are left", began, len(n.hearsay.rumours), len(n.peers))
	}
	for i := 2; i < len(began); i++ {
		if began[i]-began[i-1] <= began[i-1]-began[i-2] {
			t.Errorf("it was called at %v; expected ever longer pauses", began)
		}
	}
	if p.credit != limits.HearsayPerTeller-1 || p.calls != 0 || n.cfg.Counts[vni.NICNodesForgotten] != 1 || n.hearsay.silent[at.Addr()].calls != limits.HearsayTries {
		t.Errorf("the credit is %d, %d calls, %d forgotten, %+v", p.credit, p.calls, n.cfg.Counts[vni.NICNodesForgotten], n.hearsay.silent[at.Addr()])
	}
	f.wantSettled()
}

// A NIC that answers is a peer. Its teller gets the credit back, and one lost credit more. Its
// host no longer counts as silent.
func TestANICThatAnswersCreditsItsTeller(t *testing.T) {
	for what, spent := range map[string]int{"with its whole credit": 0, "that has lost some": 5} {
		f := newFabric(t, 2)
		n, b := f.nics[0], f.silent(9)
		p := n.Peer(2)
		p.credit -= spent
		n.hearsay.silent[b.port.Addr().Addr()] = &silence{calls: limits.HearsayCallsPerHost - 1, until: f.now.Add(time.Hour)}
		n.takes(2, rumoured(9, b.port.Addr(), partNone))
		f.until("the NIC is up", func() bool { q := n.Peer(9); return q != nil && q.Up() })
		want := min(limits.HearsayPerTeller, limits.HearsayPerTeller-spent+1)
		if p.credit != want || len(n.hearsay.rumours) != 0 || n.hearsay.calls != 0 || len(n.hearsay.silent) != 0 {
			t.Errorf("a teller %s has credit %d, expected %d; %d rumours, %d silent hosts", what, p.credit, want, len(n.hearsay.rumours), len(n.hearsay.silent))
		}
	}
}

// If one NIC is told at two addresses, the second is called when the first has not answered.
func TestANICThatIsToldAtTwoAddressesIsFoundAtTheSecond(t *testing.T) {
	f := newFabric(t, 2)
	n, b := f.nics[0], f.silent(9)
	n.takes(2, rumoured(9, nowhere(1)[0], partNone))
	n.takes(2, rumoured(9, b.port.Addr(), partNone))
	f.until("the NIC is up", func() bool { q := n.Peer(9); return q != nil && q.Up() })
	if q := n.Peer(9); q.Addr() != b.port.Addr() || len(n.hearsay.rumours) != 0 || n.Peer(2).credit != limits.HearsayPerTeller {
		t.Errorf("it is at %v; %d rumours are left; the credit is %d", q.Addr(), len(n.hearsay.rumours), n.Peer(2).credit)
	}
}

// Without credit, beyond the bound of rumours, or if peers do not vouch for others, a record is
// refused and counted.
func TestARumourBeyondItsBoundsIsRefused(t *testing.T) {
	at := nowhere(1)[0]
	for what, c := range map[string]struct {
		change func(n *node)
		taken  bool
	}{
		"the last credit":       {func(n *node) { n.Peer(2).credit = 1 }, true},
		"no credit":             {func(n *node) { n.Peer(2).credit = 0 }, false},
		"one below the bound":   {func(n *node) { n.hearsay.rumours = make([]*rumour, limits.Hearsay-1) }, true},
		"as many as may be":     {func(n *node) { n.hearsay.rumours = make([]*rumour, limits.Hearsay) }, false},
		"peers do not vouch":    {func(n *node) { n.cfg.HearsayFromPeers = false }, false},
		"a certificate vouches": {func(n *node) { n.cfg.Vouched = func(id uint64, a netip.AddrPort) bool { return id == 9 && a == at } }, true},
	} {
		f := newFabric(t, 2)
		n := f.nics[0]
		c.change(n)
		for i := range n.hearsay.rumours {
			n.hearsay.rumours[i] = &rumour{id: uint64(1000 + i), teller: n.Peer(2)}
		}
		before := len(n.hearsay.rumours)
		n.takes(2, rumoured(9, at, partNone))
		taken := len(n.hearsay.rumours) > before || n.Peer(9) != nil
		if taken != c.taken || (n.cfg.Counts[vni.NICNodesRefused] == 0) != c.taken || (n.Peer(9) != nil) != (n.cfg.Vouched != nil) {
			t.Errorf("%s: taken %v, %d refused; a peer: %v", what, taken, n.cfg.Counts[vni.NICNodesRefused], n.Peer(9) != nil)
		}
	}
}

// The number of concurrent calls is bounded, and so is the number for one teller. The calls of a
// teller with more credit come first.
func TestABoundedNumberOfNICsIsCalledAtATime(t *testing.T) {
	f := newFabric(t, 6)
	n := f.nics[0]
	id := uint64(100)
	for teller := uint64(2); teller <= 6; teller++ {
		for range 3 * limits.HearsayCallsPerTeller {
			at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 3, byte(teller), byte(id)}), 1)
			n.takes(teller, rumoured(id, at, partNone))
			id++
		}
	}
	n.Peer(6).credit-- // its calls come last
	n.checkHearsay()
	for teller := uint64(2); teller <= 5; teller++ {
		if got := n.Peer(teller).calls; got != limits.HearsayCallsPerTeller {
			t.Errorf("%d calls for NIC %d, expected %d", got, teller, limits.HearsayCallsPerTeller)
		}
	}
	if n.hearsay.calls != limits.HearsayCalls || n.Peer(6).calls != 0 {
		t.Errorf("%d calls in all, %d for NIC 6; expected %d and none", n.hearsay.calls, n.Peer(6).calls, limits.HearsayCalls)
	}
	if err := n.consistent(); err != nil {
		t.Error(err)
	}
}

// If there is no room, a peer that has not proved itself loses its place, then the one that has
// been down for longest. A peer that is up or was named keeps its place.
func TestRoomIsMadeByThosePeersThatMatterLeast(t *testing.T) {
	f := newFabric(t, 2)
	n := f.nics[0]
	add := func(id uint64) *Peer {
		p, err := n.add(id, netip.MustParseAddrPort(fmt.Sprintf("10.7.0.%d:1", id)))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	named, later, sooner, heard, second := add(20), add(21), add(22), add(23), add(24)
	named.named = true
	later.forgetAt, sooner.forgetAt, heard.forgetAt, second.forgetAt = 200, 100, 400, 300
	for _, p := range []*Peer{heard, second} {
		r := &rumour{id: p.NIC(), teller: n.Peer(2), call: p}
		p.hearsay = r
		n.hearsay.rumours = append(n.hearsay.rumours, r)
		n.hearsay.calls++
		r.teller.calls++
	}
	for i, want := range []uint64{24, 23, 22, 21} {
		if !n.MakeRoom() || n.Peer(want) != nil {
			t.Errorf("place %d is not that of NIC %d", i+1, want)
		}
	}
	if n.MakeRoom() || n.Peer(20) == nil || n.Peer(2) == nil {
		t.Error("a peer that was named, or is up, makes room")
	}
	if n.hearsay.calls != 0 || n.Peer(2).calls != 0 {
		t.Errorf("%d calls are counted", n.hearsay.calls)
	}
}

// A claim waits for a NIC of a peer's first table as long as its first call lasts: that NIC may
// know the holder of the name.
func TestAClaimWaitsForTheNICsOfAFirstTable(t *testing.T) {
	for _, first := range []bool{false, true} {
		f := newFabric(t, 2)
		n := f.nics[0]
		n.Peer(2).told = !first
		part := byte(partNone)
		if first {
			part = partFirst
		}
		n.takes(2, rumoured(9, nowhere(1)[0], part))
		n.Peer(2).told, n.Peer(2).first = true, 0
		began := f.now
		p := n.claim(1, n.homed())
		f.until("the claim ends", p.over)
		if took := f.now.Sub(began); !p.held || (took > 100*time.Millisecond) != first || took > limits.GatherWithin+50*time.Millisecond {
			t.Errorf("told first %v: held %v after %v", first, p.held, took)
		}
	}
}
