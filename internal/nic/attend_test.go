package nic

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/vni"
)

func TestTheNamesOfANICThatDiesIdleVanishWithinTheFailureTimeout(t *testing.T) {
	for _, c := range []struct{ unreachable, failure, within time.Duration }{
		{0, 0, limits.FailureTimeout},
		{500 * time.Millisecond, 0, limits.FailureTimeout},
		{time.Second, 4 * time.Second, 4 * time.Second},
		// The shortest that the configuration allows.
		{2 * time.Second, 3250 * time.Millisecond, 3250 * time.Millisecond},
		{10 * time.Second, 0, 20 * time.Second},
	} {
		f := emptyFabric(t)
		for id := range uint64(2) {
			f.addNIC(1+id, 1, fault.Config{}, func(cfg *Config) { cfg.UnreachableAfter, cfg.FailureTimeout = c.unreachable, c.failure })
		}
		one := f.engines[0]
		if err := one.AddNode(2, mem.Address(2)); err != nil {
			t.Fatal(err)
		}
		p := f.process(1, "b/0")
		f.known("b/0")
		f.run(30 * time.Second) // idle, but alive
		if !one.Nodes()[0].Up || one.Count(vni.RelDownUnreachable) > 0 {
			t.Fatal("an idle NIC was given up")
		}
		if n := one.Count(vni.RelProbeSends); c.failure == 0 && n > 10 {
			t.Errorf("%d probes in 30 idle seconds", n)
		}
		f.engines = f.engines[:1]
		died := f.now
		f.until(c.within, "the other is down", func() bool { return !one.Nodes()[0].Up })
		if _, ok := one.Lookup(p.name); ok {
			t.Error("its name still leads there")
		}
		f.until(c.within-f.now.Sub(died), "its name is listed no more", func() bool { return len(one.Names()) == 0 })
		if n := one.Nodes(); len(n) != 1 || n[0].Up || n[0].Processes != 0 {
			t.Errorf("the nodes are %+v", n)
		}
	}
}

// A lost probe, or a lost answer, is no silence, even if NICs are given up after a short time.
func TestLostProbesMakeNobodyUnreachable(t *testing.T) {
	f := emptyFabric(t)
	for id := range uint64(2) {
		f.addNIC(1+id, 1, fault.Config{Seed: 7 + id, Loss: 0.05}, func(cfg *Config) { cfg.UnreachableAfter = 500 * time.Millisecond })
	}
	one := f.engines[0]
	if err := one.AddNode(2, mem.Address(2)); err != nil {
		t.Fatal(err)
	}
	f.process(0, "a/0").recv("b/0", 1, 0, make([]byte, 1)) // so that the NIC depends on b/0
	f.process(1, "b/0")
	f.known("b/0")
	f.run(30 * time.Second)
	if n := one.Count(vni.RelDownUnreachable); n > 0 {
		t.Errorf("given up %d times", n)
	}
	asked, lost := one.Count(vni.RelProbeSends), f.faults[0].Counts().Lost+f.faults[1].Counts().Lost
	if asked < 60 || lost < 3 { // nearly all frames are probes and answers
		t.Errorf("%d probes were sent, and %d frames were lost; expected some of them", asked, lost)
	}
}

// If a process waits for a dead NIC from time to time, each time too briefly for a verdict, the
// NIC must still be given up.
func TestShortLooksDoNotKeepADeadNICAlive(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	f.process(1, "b/0")
	f.known("b/0")
	one := f.engines[0]
	f.engines = f.engines[:1]
	for died := f.now; len(one.Names()) > 0; {
		ep := one.peerOf(2).ep
		ep.Watch(1)
		f.run(limits.UnreachableAfter / 4)
		ep.Watch(-1)
		f.run(limits.UnreachableAfter / 2)
		if d := f.now.Sub(died); d > limits.FailureTimeout+limits.UnreachableAfter {
			t.Fatalf("after %v the name is still listed", d)
		}
	}
}

func TestWhoIsNotThereIsCalledEverLessOften(t *testing.T) {
	f := emptyFabric(t)
	one := f.addNIC(1, 1, fault.Config{})
	if err := one.AddNode(2, mem.Address(2)); err != nil {
		t.Fatal(err)
	}
	f.run(time.Minute)
	before := one.Count(vni.RelHelloSends)
	f.run(time.Minute)
	if n := one.Count(vni.RelHelloSends) - before; n < 20 || n > 100 {
		t.Errorf("%d hellos a minute to a NIC that is not there", n)
	}
	f.addNIC(2, 1, fault.Config{}) // it knows no other NIC
	f.until(limits.RetryAtMost+limits.HelloEvery, "it is found", func() bool { return one.peerOf(2).ep.Up() })
}

func TestANICKnownByHearsayIsForgottenWhenItHasGone(t *testing.T) {
	f := emptyFabric(t)
	one, two, three := f.addNIC(1, 1, fault.Config{}), f.addNIC(2, 1, fault.Config{}), f.addNIC(3, 1, fault.Config{})
	for _, e := range []*Engine{two, three} {
		if err := e.AddNode(1, mem.Address(1)); err != nil {
			t.Fatal(err)
		}
	}
	f.until(time.Second, "all are known to all", func() bool {
		return two.peerOf(3) != nil && two.peerOf(3).names.Synced() && three.peerOf(2) != nil && three.peerOf(2).names.Synced()
	})
	f.engines = []*Engine{one, two}
	f.until(3*limits.FailureTimeout, "it is forgotten", func() bool { return len(one.Nodes()) == 1 && len(two.Nodes()) == 1 })
	f.engines = []*Engine{one, three}
	f.until(3*limits.FailureTimeout, "the one that was named is kept", func() bool { return three.peerOf(1).ep.Up() && len(one.Nodes()) == 1 })
	f.run(3 * limits.FailureTimeout)
	if pr := three.peerOf(1); pr == nil || !pr.ep.Up() {
		t.Error("the pair with the named NIC is not open")
	}
}
