package names

import (
	"net/netip"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// said returns a record about the i-th of many processes, each with another name.
func said(op byte, i int) []byte {
	b := make([]byte, claimLen)
	b[0] = op
	le.PutUint16(b[2:], uint16(1+i%limits.MaxProcesses))
	le.PutUint32(b[4:], uint32(1+i/limits.MaxProcesses))
	le.PutUint32(b[16:], uint32(i))
	copy(b[20:], "flood")
	le.PutUint32(b[44:], uint32(i))
	return b
}

// A peer may tell of NamesPerNIC processes, whatever it says of them. Records beyond that are
// counted and dropped.
func TestAPeerFillsTheTableNoFurtherThanItMayWhateverItTells(t *testing.T) {
	const left, beyond = 5, 10
	for what, op := range map[string]byte{"claims": wire.TableClaim, "ends": wire.TableEnd, "questions": wire.TableAsk} {
		f := newFabric(t, 2)
		n := f.nics[0]
		n.owned[2] = limits.NamesPerNIC - left // stands for the others
		before := n.cfg.Counts[vni.DropFormat]
		for i := range left + beyond {
			if !n.Take(n.Peer(2), said(op, i)) {
				t.Fatalf("%s: the record is none of names", what)
			}
		}
		all, _ := n.Len()
		if dropped := n.cfg.Counts[vni.DropFormat] - before; all != left || dropped != beyond || n.owned[2] != limits.NamesPerNIC {
			t.Errorf("with %d names to go, %d %s: %d are kept and %d dropped; expected %d and %d", left, left+beyond, what, all, dropped, left, beyond)
		}
	}
}

// The end of a process is remembered for NameKeep, in case its claim arrives later. Then another
// may be told.
func TestEndsThatOvertookNothingAreForgotten(t *testing.T) {
	f := newFabric(t, 2)
	n := f.nics[0]
	for i := range 100 {
		n.Take(n.Peer(2), said(wire.TableEnd, i))
	}
	f.run(limits.NameKeep + time.Second)
	if all, _ := n.Len(); all != 0 || n.owned[2] != 0 || len(n.claims) != 0 {
		t.Errorf("after %v there are %d names, %d of NIC 2, to %d names", limits.NameKeep, all, n.owned[2], len(n.claims))
	}
}

// Each lookup of a name visits the ended processes that had it. A peer that claims one name again
// and again once blocked this NIC for seconds when its session ended.
func TestANameThatIsClaimedAgainAndAgainIsNotCrowded(t *testing.T) {
	const batch = 100 // between two checks for expired entries
	for what, op := range map[string]byte{"claims": wire.TableClaim, "ends": wire.TableEnd} {
		f := newFabric(t, 2)
		n := f.nics[0]
		var name vni.Name
		for i := range 10 * limits.EndsPerName {
			b := said(op, i)
			le.PutUint32(b[16:], 7) // the index of the name
			copy(name.App[:], b[20:44])
			n.Take(n.Peer(2), b)
			if i%batch == 0 {
				n.Expire()
			}
		}
		n.Expire()
		name.Index = 7
		kept := limits.EndsPerName
		if op == wire.TableClaim {
			kept++ // the last one lives
			if a, ok := n.Lookup(name); !ok || a.Slot != 10*limits.EndsPerName {
				t.Errorf("the name leads to %v, %v; expected the process that claimed it last", a, ok)
			}
		}
		if got := len(n.claims[name]); got != kept || n.owned[2] != kept || len(n.all) != kept {
			t.Errorf("of many %s to one name %d are kept, %d are counted, %d are listed; expected %d", what, got, n.owned[2], len(n.all), kept)
		}
		if e := n.byAddr[vni.Address{NIC: 2, Slot: 1, Gen: 1}]; e != nil {
			t.Errorf("of many %s to one name the oldest is kept", what)
		}
	}
}

// A host that did not answer is left alone for a while, and not for ever: it may have got a NIC
// only later. The same holds for the bound of such hosts.
func TestAHostThatDidNotAnswerMayBeCalledAgainInTime(t *testing.T) {
	var f fabric
	n := &node{f: &f}
	f.now = clock.Time(time.Hour)
	n.Init(Config{NIC: 1}, n)
	host := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}) }
	for i := range limits.HearsayCallsPerHost {
		if !n.mayDisturb(host(0)) {
			t.Fatalf("call %d is refused; %d may be made", i+1, limits.HearsayCallsPerHost)
		}
	}
	if n.mayDisturb(host(0)) {
		t.Fatal("a host that never answers is called beyond the bound")
	}
	for i := range limits.HearsayHosts - 1 {
		if !n.mayDisturb(host(i + 1)) {
			t.Fatalf("host %d is refused; %d may be remembered", i+2, limits.HearsayHosts)
		}
	}
	if n.mayDisturb(host(limits.HearsayHosts)) {
		t.Fatal("more hosts are called than are remembered")
	}
	f.now = f.now.Add(limits.HearsayForgiven - time.Nanosecond)
	if n.mayDisturb(host(0)) || n.mayDisturb(host(limits.HearsayHosts)) {
		t.Fatal("the calls are forgotten before their time")
	}
	f.now = f.now.Add(time.Nanosecond)
	if !n.mayDisturb(host(0)) || !n.mayDisturb(host(limits.HearsayHosts)) {
		t.Error("a minute later neither the host that did not answer nor another one may be called")
	}
}

// A peer tells of NICs that others can reach. An address of this host, or of many hosts, would
// direct its calls at bystanders.
func TestANodeIsCalledOnlyWhereANICCanBe(t *testing.T) {
	f := newFabric(t, 2)
	n := f.nics[0]
	tell := func(id uint64, addr string) {
		at := netip.MustParseAddrPort(addr)
		b := make([]byte, nodeLen)
		b[0] = wire.TableNode
		le.PutUint16(b[4:], at.Port())
		ip := at.Addr().As16()
		copy(b[8:], ip[:])
		le.PutUint64(b[24:], id)
		n.Take(n.Peer(2), b)
	}
	for what, c := range map[string]struct {
		id   uint64
		addr string
	}{
		"this host":         {9, "127.0.0.1:7700"},
		"its own link":      {9, "[fe80::1]:7700"},
		"any address":       {9, "0.0.0.0:7700"},
		"port 0":            {9, "10.9.9.9:0"},
		"many hosts":        {9, "224.0.0.1:7700"},
		"no id":             {0, "10.9.9.9:7700"},
		"this NIC's own id": {1, "10.9.9.9:7700"},
		"a NIC that is up":  {2, "10.9.9.9:7700"},
	} {
		if tell(c.id, c.addr); len(n.hearsay.rumours) != 0 || len(n.peers) != 1 || n.Peer(2).credit != limits.HearsayPerTeller {
			t.Errorf("a node with %s is believed: %d rumours, %d peers", what, len(n.hearsay.rumours), len(n.peers))
		}
	}
	n.cfg.Static = true
	if tell(9, "10.9.9.9:7700"); len(n.hearsay.rumours) != 0 {
		t.Error("a NIC with a fixed list believes in another one")
	}
	n.cfg.Static = false
	if tell(9, "10.9.9.9:7700"); len(n.hearsay.rumours) != 1 {
		t.Error("a node that can be is not believed")
	}
}

// Other services tell of processes whose claims are to follow. Their number is bounded by the
// names of one NIC, for all tellers together.
func TestABoundedNumberOfClaimsIsWaitedFor(t *testing.T) {
	f := newFabric(t, 2)
	n := f.nics[0]
	name := n.homed()
	for i := range limits.NamesPerNIC + 10 {
		name.Index = uint32(i)
		n.Expect(name, vni.Address{NIC: 2, Slot: 1, Gen: uint32(i + 1)})
	}
	if len(n.due) != limits.NamesPerNIC {
		t.Errorf("%d claims are waited for, expected %d", len(n.due), limits.NamesPerNIC)
	}
	n.lose(n.Peer(2), true)
	if len(n.due) != 0 {
		t.Errorf("%d claims of a NIC that is lost are waited for", len(n.due))
	}
}
