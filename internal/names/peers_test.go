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

// A hello is refused if it has this NIC's own id, if its NIC is not in the fixed list, or if its
// id is in use elsewhere.
func TestAHelloIsAdmittedIfItCanBeThatOfAPeer(t *testing.T) { // decision 1
	f := newFabric(t, 2)
	n := f.nics[0]
	there, elsewhere := f.nics[1].port.Addr(), nowhere(1)[0]
	for what, c := range map[string]struct {
		nic    uint64
		from   netip.AddrPort
		static bool
		want   error
	}{
		"its own id":                         {1, elsewhere, false, ErrOwnID},
		"a new NIC":                          {9, elsewhere, false, nil},
		"a new NIC, beside a fixed list":     {9, elsewhere, true, ErrUnknown},
		"a peer of the fixed list":           {2, there, true, nil},
		"another NIC at a listed address":    {9, there, true, nil},
		"a peer at its address":              {2, there, false, nil},
		"the id of a peer at another place":  {2, elsewhere, false, ErrKnownID},
		"the same, beside a fixed list":      {2, elsewhere, true, ErrUnknown},
		"its own id, though it is listed":    {1, there, true, ErrOwnID},
		"its own id, from its own addresses": {1, n.port.Addr(), false, ErrOwnID},
	} {
		n.cfg.Static = c.static
		n.Peer(2).added = true
		n.Peer(2).probe(&n.Peer(2).doubted, false)
		if err := n.Admit(c.nic, c.from); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || n.Peer(2).doubted != errors.Is(c.want, ErrKnownID) {
			t.Errorf("%s: %v, expected %v; the peer is doubted: %v", what, err, c.want, n.Peer(2).doubted)
		}
	}
	n.cfg.Static = true
	n.Peer(2).added = false
	if err := n.Admit(2, there); !errors.Is(err, ErrUnknown) {
		t.Errorf("a peer that is on no list any more: %v", err)
	}
	n.cfg.Static = false
	n.doubt(n.Peer(2))
	if f.run(limits.UnreachableAfter + 2*limits.ProbeEvery); n.Peer(2).doubted || !n.Peer(2).Up() {
		t.Error("a peer that answers is doubted for ever, or is given up")
	}
	f.wantSettled()
}

// A node cannot be this NIC itself. It is refused, and leaves nothing.
func TestANodeIsNotThisNICItself(t *testing.T) {
	f := newFabric(t, 1)
	n := f.nics[0]
	if err := n.AddNode(1, nowhere(1)[0]); err == nil || len(n.peers) != 0 {
		t.Errorf("this NIC's own id is a node: %v, %d peers", err, len(n.peers))
	}
}

// A NIC is probed when it has been silent for long. If it does not answer, its names lead
// nowhere, and are finally forgotten. A NIC that is known by hearsay is called again until then,
// and these calls do not delay the end.
func TestANICThatDiesWhileNothingIsPendingIsFoundOut(t *testing.T) {
	for _, hearsay := range []bool{false, true} {
		f := newFabric(t, 2)
		n, dead := f.nics[0], f.nics[1]
		p := dead.claim(1, n.homed())
		f.until("the claim ends", p.over)
		f.run(time.Second)
		q := n.Peer(2)
		q.named, q.added = false, hearsay
		f.kill(dead)
		began := f.now
		f.until("its name leads nowhere", func() bool { _, ok := n.Lookup(p.name); return !ok })
		if took := f.now.Sub(began); took > limits.FailureTimeout {
			t.Errorf("it is found out after %v, expected %v at most", took, limits.FailureTimeout)
		}
		if l := n.List(); len(l) != 1 || l[0].Reachable || n.Processes(q) != 0 {
			t.Errorf("the names are %+v, %d processes", l, n.Processes(q))
		}
		f.run(2 * limits.FailureTimeout)
		if all, _ := n.Len(); all != 0 || len(n.peers) != 0 || n.over[p.at] != 1 {
			t.Errorf("known by hearsay %v: %d names and %d peers are left; the engine was told %d times", hearsay, all, len(n.peers), n.over[p.at])
		}
		f.wantSettled()
	}
}

// A named peer is called again and again, and is found when it is back. Its names were those of
// another life.
func TestANICThatWasNamedIsFoundWheneverItIsBack(t *testing.T) {
	f := newFabric(t, 2)
	n, b := f.nics[1], f.nics[0] // the second was told of the first
	p := b.claim(1, n.homed())
	f.until("the claim ends", p.over)
	f.run(time.Second)
	f.cut = func(uint64, uint64) bool { return true }
	f.run(4 * limits.FailureTimeout)
	if q := n.Peer(1); q == nil || q.Up() || !q.named {
		t.Fatalf("the peer is %+v", q)
	}
	if all, _ := n.Len(); all != 0 {
		t.Errorf("%d names of a NIC that is lost are kept", all)
	}
	f.cut = nil
	began := f.now
	f.until("it is up", func() bool { return n.Peer(1).Up() })
	if took := f.now.Sub(began); took > limits.RetryAtMost+2*limits.UnreachableAfter {
		t.Errorf("it is found after %v", took)
	}
	f.run(time.Second)
	f.found(p.name, p.at)
	f.wantSettled()
}

// A removed NIC that is up stays as long as it answers, and may be added again. A removed NIC
// that is down is forgotten with its names.
func TestARemovedNICStaysAsLongAsItAnswers(t *testing.T) {
	f := newFabric(t, 2)
	n, b := f.nics[0], f.nics[1]
	p := b.claim(1, n.homed())
	f.until("the claim ends", p.over)
	n.RemoveNode(9, nowhere(1)[0]) // an unknown NIC
	for _, id := range []uint64{2, 0} {
		n.RemoveNode(id, b.port.Addr())
		n.RemoveNode(id, b.port.Addr())
		if f.run(4 * limits.FailureTimeout); n.Peer(2) == nil || !n.Peer(2).Up() || !n.Peer(2).leaving {
			t.Fatalf("removed by id %d: the NIC that answers is %+v", id, n.Peer(2))
		}
		if err := n.AddNode(2, b.port.Addr()); err != nil || n.Peer(2).leaving || n.Peer(2).removed {
			t.Errorf("added again: %v, %+v", err, n.Peer(2))
		}
	}
	f.found(p.name, p.at)
	n.RemoveNode(2, b.port.Addr())
	f.kill(b)
	f.until("it is forgotten", func() bool { return n.Peer(2) == nil })
	if all, _ := n.Len(); all != 0 || len(n.claims) != 0 || n.over[p.at] != 1 {
		t.Errorf("%d names are left; the engine was told %d times", all, n.over[p.at])
	}
	f.wantSettled()
}

// A NIC tells its place on the torus to each peer. An invalid place is not accepted.
func TestANICTellsItsPlace(t *testing.T) { // QNIX-52
	f := newFabric(t, 1)
	n := f.nics[0]
	n.cfg.Position = wire.Position{X: 2, Y: 1, Width: 4, Height: 3}
	b := f.add(2)
	f.until("they know each other", func() bool { p := b.Peer(1); return p != nil && p.synced })
	f.run(time.Second)
	if got := b.Peer(1).Position; got != n.cfg.Position || n.Peer(2).Position != (wire.Position{}) {
		t.Errorf("the NIC is at %+v, the other at %+v", got, n.Peer(2).Position)
	}
	bad := make([]byte, placeLen)
	bad[0] = wire.TablePlace
	(wire.Position{X: 4, Y: 1, Width: 4, Height: 3}).Put(bad[4:])
	if b.Take(b.Peer(1), bad) || b.Take(b.Peer(1), bad[:placeLen-1]) || b.Peer(1).Position != n.cfg.Position {
		t.Errorf("a place that is none is taken: %+v", b.Peer(1).Position)
	}
}

// Records of each kind that are too short, or of another kind, are not records of names.
func TestARecordThatIsTooShortIsNoneOfNames(t *testing.T) {
	f := newFabric(t, 2)
	n := f.nics[0]
	for op, length := range map[byte]int{wire.TableClaim: claimLen, wire.TableEnd: claimLen, wire.TableAsk: claimLen, wire.TableSync: syncLen,
		wire.TableLost: lostLen, wire.TableNode: nodeLen, wire.TableAnswer: answerLen, wire.TableYield: yieldLen, wire.TablePlace: placeLen} {
		b := make([]byte, length)
		b[0] = op
		if n.Take(n.Peer(2), b[:length-1]) {
			t.Errorf("a record of kind %d with %d bytes is taken", op, length-1)
		}
		p := *n.Peer(2)
		if !n.Take(n.Peer(2), b) {
			t.Errorf("a record of kind %d with %d bytes is refused", op, length)
		}
		n.Peer(2).firstDue, n.Peer(2).promisedDue = p.firstDue, p.promisedDue
	}
	if n.Take(n.Peer(2), append([]byte{wire.TableJoin}, make([]byte, 100)...)) {
		t.Error("a record of groups is taken")
	}
	if all, open := n.Len(); all+open != 0 || n.cfg.Counts[vni.DropFormat] == 0 {
		t.Errorf("%d names are kept of empty records; %d dropped", all, n.cfg.Counts[vni.DropFormat])
	}
}
