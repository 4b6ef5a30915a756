package nic

import (
	"errors"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
)

// kill stops polling an engine: it sends nothing any more, not even a goodbye.
func (f *fabric) kill(nic int) {
	f.engines = append(f.engines[:nic:nic], f.engines[nic+1:]...)
}

func (f *fabric) wait(d time.Duration) {
	for end := f.now.Add(d); f.now < end; {
		f.step()
	}
}

// knowsName reports whether e lists a name, reachable or not.
func knowsName(e *Engine, name vni.Name) bool {
	for _, n := range e.Names() {
		if n.Name == name {
			return true
		}
	}
	return false
}

func TestARemovedNICThatIsDeadIsForgottenWithItsNames(t *testing.T) {
	f := newFabric(t, 3, fault.Config{})
	a, gone, other := f.engines[0], f.process(1, "gone/0"), f.process(2, "other/0")
	own := f.process(0, "own/0")
	f.until(time.Second, "names are spread", func() bool { return knowsName(a, gone.name) && knowsName(a, other.name) })
	f.kill(1)
	f.wait(limits.FailureTimeout / 2) // nothing was pending, so its end has not been noticed
	if !knowsName(a, gone.name) {
		t.Fatal("the test is void: the name is forgotten without RemoveNode")
	}
	a.RemoveNode(2, mem.Address(2))
	f.until(limits.UnreachableAfter+limits.ProbeEvery, "NIC 2 is forgotten", func() bool { return a.peerOf(2) == nil })
	if knowsName(a, gone.name) || len(a.Nodes()) != 1 || len(a.peers.list) != 1 || a.rel.Endpoint(2) != nil {
		t.Errorf("names %v, nodes %v, %d peers, endpoint %v", a.Names(), a.Nodes(), len(a.peers.list), a.rel.Endpoint(2))
	}
	if !knowsName(a, other.name) || !a.Nodes()[0].Up {
		t.Error("another NIC suffers")
	}
	i := own.send("gone/0", 1, 0, []byte("anybody?"))
	if c := own.finish(false, i); c.Status != vni.StatusNameUnknown {
		t.Errorf("a send to the forgotten name ends with %v", c.Status)
	}
}

func TestARemovedNICThatIsDownIsForgottenAtOnce(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, own, gone := f.engines[0], f.process(0, "own/0"), f.process(1, "gone/0")
	f.until(time.Second, "the name is spread", func() bool { return knowsName(a, gone.name) })
	f.kill(1)
	i := own.recv("gone/0", 1, 0, make([]byte, 10))
	if c := own.finish(true, i); c.Status != vni.StatusUnreachable {
		t.Fatalf("the receive ends with %v", c.Status)
	}
	if !knowsName(a, gone.name) {
		t.Fatal("the name of an unreachable NIC is not kept for its return")
	}
	changes := a.Changes()
	a.RemoveNode(2, mem.Address(2))
	f.step()
	if knowsName(a, gone.name) || len(a.Nodes()) != 0 {
		t.Errorf("names %v, nodes %v", a.Names(), a.Nodes())
	}
	if a.Changes() == changes {
		t.Error("that it is forgotten is no change")
	}
	a.RemoveNode(2, mem.Address(2)) // it is no longer known: nothing happens
	f.step()
}

func TestWhatIsUnderWayToARemovedNICEndsAsUnreachable(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, own, gone := f.engines[0], f.process(0, "own/0"), f.process(1, "gone/0")
	f.until(time.Second, "the name is spread", func() bool { return knowsName(a, gone.name) })
	f.kill(1)
	long := own.send("gone/0", 1, vni.WantAccept, make([]byte, 1<<20))
	call := own.send("gone/0", 2, vni.WantAccept, []byte("short"))
	recv := own.recv("gone/0", 3, 0, make([]byte, 10))
	f.step()
	a.RemoveNode(2, mem.Address(2))
	for _, i := range []int{long, call} {
		if c := own.finish(false, i); c.Status != vni.StatusUnreachable {
			t.Errorf("a send ends with %v", c.Status)
		}
	}
	if c := own.finish(true, recv); c.Status != vni.StatusUnreachable {
		t.Errorf("a receive ends with %v", c.Status)
	}
	f.until(time.Second, "the NIC is forgotten", func() bool { return len(a.Nodes()) == 0 })
	if !a.rel.Quiet() {
		t.Error("something is left")
	}
}

// The registry may have lost contact with a NIC that lives: working connections continue.
func TestARemovedNICThatLivesStaysUntilItsPairIsDown(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, own, far := f.engines[0], f.process(0, "own/0"), f.process(1, "far/0")
	f.until(time.Second, "the name is spread", func() bool { return knowsName(a, far.name) })
	a.RemoveNode(2, mem.Address(2))
	f.wait(3 * limits.UnreachableAfter)
	buf := make([]byte, 10)
	r := far.recv("own/0", 1, 0, buf)
	s := own.send("far/0", 1, vni.WantAccept, []byte("still here"))
	if c := own.finish(false, s); c.Status != vni.StatusOK {
		t.Errorf("a send to it ends with %v", c.Status)
	}
	if c := far.finish(true, r); c.Status != vni.StatusOK || string(buf) != "still here" {
		t.Errorf("it received %q, %v", buf, c.Status)
	}
	f.engines[1].Close(f.now)
	f.until(time.Second, "its goodbye ends the pair", func() bool { return len(a.Nodes()) == 0 && !knowsName(a, far.name) })
}

func TestANICThatIsAddedAgainIsKept(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a := f.engines[0]
	if err := a.AddNode(2, mem.Address(7)); !errors.Is(err, rel.ErrAddress) {
		t.Errorf("added at another address while it is up at its own: %v", err)
	}
	a.RemoveNode(2, mem.Address(2))
	f.step()
	if err := a.AddNode(2, mem.Address(2)); err != nil {
		t.Fatal(err)
	}
	f.kill(1)
	f.wait(3 * limits.UnreachableAfter)
	if n := a.Nodes(); len(n) != 1 || !n[0].Up {
		t.Errorf("nodes %+v; nothing is pending, so the NIC should not be probed", n)
	}
	a.RemoveNode(0, mem.Address(2)) // by address
	f.until(limits.UnreachableAfter+limits.ProbeEvery, "the dead NIC is forgotten", func() bool { return len(a.Nodes()) == 0 })
	back := f.addNIC(9, 1, fault.Config{})
	if err := a.AddNode(9, mem.Address(3)); err != nil {
		t.Fatal(err)
	}
	f.until(time.Second, "another NIC takes its place", func() bool { return len(back.Nodes()) == 1 && back.Nodes()[0].Up })
}

// The registry has found out that the NIC with the session is not the owner of the id.
func TestANICThatIsRemovedAndAddedElsewhereIsThereAtOnce(t *testing.T) { // decision 1
	f := newFabric(t, 2, fault.Config{})
	a, wrong := f.engines[0], f.process(1, "wrong/0")
	f.until(time.Second, "the name is spread", func() bool { return knowsName(a, wrong.name) })
	f.addNIC(2, 1, fault.Config{})
	right := f.process(2, "right/0")
	a.RemoveNode(2, mem.Address(2))
	if err := a.AddNode(2, mem.Address(3)); err != nil {
		t.Fatal(err)
	}
	f.until(time.Second, "the other NIC is up", func() bool { return knowsName(a, right.name) })
	if n := a.Nodes(); knowsName(a, wrong.name) || len(n) != 1 || n[0].Addr != mem.Address(3) {
		t.Errorf("names %v, nodes %+v", a.Names(), n)
	}
}

func TestASecondNICWithTheIDOfOneThatLivesIsNotAdmitted(t *testing.T) { // decision 1
	f := newFabric(t, 2, fault.Config{})
	a, first := f.engines[0], f.process(1, "first/0")
	f.until(time.Second, "the name is spread", func() bool { return knowsName(a, first.name) })
	second := f.addNIC(2, 9, fault.Config{}) // a later life, as it claims
	if err := second.AddNode(1, mem.Address(1)); err != nil {
		t.Fatal(err)
	}
	f.wait(3 * limits.UnreachableAfter)
	if n := a.Nodes(); !knowsName(a, first.name) || len(n) != 1 || n[0].Addr != mem.Address(2) || !n[0].Up || n[0].Incarnation != 1 {
		t.Errorf("the first is not left alone: nodes %+v", n)
	}
	if n := second.Nodes(); len(n) != 1 || n[0].Up {
		t.Errorf("the second has a session: nodes %+v", n)
	}
	f.kill(1)
	f.until(2*limits.UnreachableAfter, "the first is found dead, and the second let in", func() bool {
		n := a.Nodes()
		return len(n) == 1 && n[0].Up && n[0].Addr == mem.Address(3)
	})
}
