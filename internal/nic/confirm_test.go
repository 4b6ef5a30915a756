package nic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/vni"
)

// open returns the number of an engine's undecided claims.
func open(e *Engine) int { _, open := e.names.Len(); return open }

// idText returns a NIC's id as eight decimal octets (decision 1).
func idText(id uint64) string { return fmt.Sprintf("0:0:0:0:0:0:0:%d", id) }

// settled waits until the claims have ended, and returns the process that has the name. The other
// claims must have been refused with the address of that process.
func (f *fabric) settled(claims ...*tester) (owner *tester) {
	f.t.Helper()
	f.until(10*time.Second, "every claim has ended", func() bool {
		for _, p := range claims {
			if !p.claimed() {
				return false
			}
		}
		return true
	})
	for _, p := range claims {
		if p.refused == nil {
			if owner != nil {
				f.t.Fatalf("%v is had by NIC %d and by NIC %d", p.name, owner.e.ID(), p.e.ID())
			}
			owner = p
		}
	}
	if owner == nil {
		f.t.Fatalf("no process has the name; %v", claims[0].refused)
	}
	want := fmt.Sprintf("%v is the process at slot %d of NIC %v", owner.name, owner.slot, idText(owner.e.ID()))
	for _, p := range claims {
		if p != owner && (!errors.Is(p.refused, ErrNameTaken) || !strings.Contains(p.refused.Error(), want)) {
			f.t.Errorf("NIC %d was told %q, not that %s", p.e.ID(), p.refused, want)
		}
	}
	return owner
}

func TestOfTwoWhoClaimANameAtOnceTheSecondIsToldWhoHasIt(t *testing.T) { // decision 15
	for home := range 3 {
		f := newFabric(t, 3, fault.Config{})
		name := f.homed(home)
		owner := f.settled(f.claim(0, name), f.claim(1, name), f.claim(2, name), f.claim(0, name))
		f.known(name)
		for _, e := range f.engines {
			if at, ok := e.Lookup(owner.name); !ok || at.NIC != owner.e.ID() || at.Slot != owner.slot || at.Gen != owner.gen {
				t.Errorf("home %d: NIC %d finds %v at %+v, %v", home, e.ID(), name, at, ok)
			}
			what := fmt.Sprintf("home %d: NIC %d knows one name", home, e.ID())
			f.until(time.Second, what, func() bool { return open(e)+len(e.Names()) == 1 })
		}
		if _, _, lost := owner.v.NextEvent(); lost {
			t.Error("the owner has lost its name")
		}
		f.noLeaks()
	}
}

func TestWhoeverIsAloneHasItsNameAtOnce(t *testing.T) {
	f := emptyFabric(t)
	f.addNIC(1, 1, fault.Config{})
	if p := f.claim(0, "a/0"); !p.claimed() || p.refused != nil {
		t.Errorf("registration over: %v, %v", p.claimed(), p.refused)
	}
	if p := f.claim(0, "a/0"); !p.claimed() || !errors.Is(p.refused, ErrNameTaken) {
		t.Errorf("registration over: %v, %v", p.claimed(), p.refused)
	}
	if n := f.engines[0].Processes(); len(n) != 1 {
		t.Errorf("processes: %+v", n)
	}
}

func TestAnAttachCostsOneRoundTrip(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	asked, told := f.engines[0].Count(vni.NICNameUpdatesSent), f.engines[1].Count(vni.NICNameUpdatesSent)
	f.process(0, f.homed(1))
	f.run(time.Second)
	if n := f.engines[0].Count(vni.NICNameUpdatesSent) - asked; n != 2 {
		t.Errorf("the claimant's NIC said %d things; expected to ask, and to tell", n)
	}
	if n := f.engines[1].Count(vni.NICNameUpdatesSent) - told; n != 1 {
		t.Errorf("the home said %d things; expected its answer", n)
	}
}

func TestANameIsConfirmedThoughItsHomeHasJustDied(t *testing.T) {
	f := newFabric(t, 4, fault.Config{})
	name := f.homed(3)
	f.engines = f.engines[:3]
	began := f.now
	f.settled(f.claim(0, name), f.claim(1, name), f.claim(2, name))
	if d := f.now.Sub(began); d > limits.UnreachableAfter+2*limits.ProbeEvery {
		t.Errorf("it took %v", d)
	}
	f.known(name)
	for _, e := range f.engines {
		if n := e.Count(vni.NICNamesUnconfirmed); n > 0 {
			t.Errorf("NIC %d has %d names without an answer of their home", e.ID(), n)
		}
	}
	f.noLeaks()
}

func TestANICThatJoinsIsTheHomeOnlyOfWhatItKnowsOf(t *testing.T) {
	for seed := range 40 {
		f := newFabric(t, 3, fault.Config{Seed: uint64(seed + 1), Loss: 0.1, Reorder: 0.1})
		var claims [][]*tester
		join := f.addNIC(9, 1, fault.Config{Seed: uint64(seed + 1), Loss: 0.1})
		for i := range 20 {
			if i == 5 {
				if err := join.AddNode(1, mem.Address(1)); err != nil {
					t.Fatal(err)
				}
			}
			name := fmt.Sprintf("app/%d", i)
			claims = append(claims, []*tester{f.claim(seed%3, name), f.claim((seed+1)%3, name)})
			for range seed % 7 {
				f.step()
			}
		}
		for _, c := range claims {
			f.settled(c...)
		}
		f.run(2 * time.Second)
		for _, e := range f.engines {
			if n := e.Count(vni.NICNameConflicts); n > 0 {
				t.Errorf("seed %d: NIC %d met %d claims to one name", seed, e.ID(), n)
			}
			if n := len(e.Names()); n != len(claims) {
				t.Errorf("seed %d: NIC %d knows %d names", seed, e.ID(), n)
			}
		}
	}
}

func TestAClaimantThatGoesBeforeTheAnswerLeavesTheNameFree(t *testing.T) {
	f := newFabric(t, 3, fault.Config{})
	name := f.homed(2)
	for steps := range 6 {
		p := f.claim(0, name)
		for range steps {
			f.step()
		}
		p.exit()
		f.run(10 * time.Millisecond)
		if p.claimed(); p.refused != nil && !errors.Is(p.refused, ErrDeleted) {
			t.Errorf("after %d steps: %v", steps, p.refused)
		}
		q := f.process(1, name)
		q.exit()
		f.run(10 * time.Millisecond)
		for _, e := range f.engines {
			if open(e) > 0 || len(e.Names()) > 0 {
				t.Errorf("after %d steps: NIC %d has %d open claims and knows %v", steps, e.ID(), open(e), e.Names())
			}
		}
	}
	f.noLeaks()
}

func TestAnswersOfOthersThanTheHomeCountForNothing(t *testing.T) {
	f := newFabric(t, 3, fault.Config{})
	p := f.claim(0, f.homed(2))
	e := f.engines[0]
	answer := func(from uint64, granted byte) {
		b := binary.LittleEndian.AppendUint32([]byte{tableAnswer, granted, byte(p.slot), 0}, p.gen)
		e.tableRecord(e.peerOf(from), append(b, make([]byte, 16)...))
	}
	for _, granted := range []byte{0, askGranted} {
		if answer(2, granted); p.claimed() || open(e) != 1 {
			t.Errorf("answer %d of NIC 2 was believed", granted)
		}
	}
	f.settled(p)
	answer(3, 0)
	if _, ok := e.Lookup(p.name); !ok {
		t.Error("a late refusal took the name")
	}
}

func TestOnEachSideOfAPartitionAClaimHolds(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	name := f.homed(1)
	one, two := f.engines[0], f.engines[1]
	f.engines = []*Engine{one}
	p := f.process(0, name)
	f.engines = []*Engine{two}
	f.run(limits.UnreachableAfter)
	f.engines = []*Engine{one, two}
	q := f.claim(1, name) // the pair is still open on this side, but its own side is the home
	f.until(10*time.Second, "the younger has lost the name", func() bool {
		ev, _, ok := q.v.NextEvent()
		return ok && ev.Kind == vni.EventNameLost && ev.NIC == 1 || q.claimed() && q.refused != nil
	})
	f.until(10*time.Second, "both agree", func() bool {
		a, ok := one.Lookup(p.name)
		b, ok2 := two.Lookup(p.name)
		return ok && ok2 && a == b && a.NIC == 1
	})
}

// A NIC numbers its claims anew in each life. A NIC that still has an old claim must not take it
// for the later one.
func TestNamesOfANICComeBackWithIt(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	f.process(1, "app/1")
	f.process(1, "app/2")
	f.known("app/1", "app/2")
	f.kill(1)
	f.run(limits.UnreachableAfter / 2)
	back := f.addNIC(2, 2, fault.Config{})
	if err := back.AddNode(1, mem.Address(1)); err != nil {
		t.Fatal(err)
	}
	f.process(len(f.engines)-1, "app/2") // first its first claim, now its second
	f.known("app/2")
	f.run(limits.FailureTimeout + time.Second)
	f.known("app/2")
	if l := f.engines[0].Names(); len(l) != 1 {
		t.Errorf("the other knows %v", l)
	}
}

func TestAClosedNICEndsItsRegistrations(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	p := f.claim(0, f.homed(1))
	p.e.Close(f.now)
	if !p.claimed() || !errors.Is(p.refused, ErrClosed) {
		t.Errorf("registration over: %v, %v", p.claimed(), p.refused)
	}
}

func TestAnOpenClaimNoticesThatItsHomeIsAnother(t *testing.T) {
	f := newFabric(t, 3, fault.Config{})
	text := f.homed(2)
	f.kill(2)
	p := f.claim(0, text)
	one := f.engines[0]
	f.run(limits.ProbeEvery) // the dead home is probed
	if p.claimed() || one.names.Home(p.name) != &one.peerOf(3).names {
		t.Fatal("the name is confirmed, or another NIC is its home: this test shows nothing")
	}
	asked := func() bool { return open(f.engines[len(f.engines)-1]) == 1 }
	for id := uint64(4); !asked() && id < 40; id++ { // until a new NIC becomes the home
		if err := f.addNIC(id, 1, fault.Config{}).AddNode(1, mem.Address(1)); err != nil {
			t.Fatal(err)
		}
		f.run(5 * time.Millisecond)
	}
	if !asked() || !one.peerOf(3).ep.Up() {
		t.Errorf("a nearer NIC is asked: %v; the dead NIC seems to be up: %v", asked(), one.peerOf(3).ep.Up())
	}
	for _, e := range f.engines {
		if err := e.Limits(); err != nil {
			t.Error(err)
		}
	}
}
