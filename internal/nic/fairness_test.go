package nic

import (
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/vni"
)

// backlog has every process send one long message to a partner of its own, which has receives posted; the first process
// sends four. It returns the senders.
func backlog(f *fabric, to, n, size int) (senders []*tester) {
	data, buf := make([]byte, size), make([]byte, size) // for all: nobody reads them
	var names []string
	var receivers []*tester
	for i := range n {
		names = append(names, fmt.Sprintf("a/%d", i), fmt.Sprintf("b/%d", i))
		senders, receivers = append(senders, f.process(0, names[2*i])), append(receivers, f.process(to, names[2*i+1]))
	}
	f.known(names...)
	for i, b := range receivers {
		for range 4 {
			b.recv("", 1, 0, buf)
		}
		senders[i].send(names[2*i+1], 1, 0, data)
	}
	for range 3 {
		senders[0].send("b/0", 1, 0, data)
	}
	return senders
}

// turnsOf is how many turns a process has had.
func turnsOf(a *tester) uint64 { return a.e.process(a.slot).account.Turns }

// posted is how many bytes of its long messages a process has had posted.
func posted(a *tester) (n uint64) {
	p := a.e.process(a.slot)
	for i := range p.sends {
		n += p.sends[i].frag.Next
	}
	return n
}

func TestAGreedyProcessHasNoMoreTurnsThanTheOthers(t *testing.T) { // QNIX-39
	for name, place := range map[string]struct {
		to, size int
		count    func(*tester) uint64
		turn     uint64
	}{"on one NIC": {0, 16 << 20, turnsOf, 1}, "to another": {1, 40_000, posted, 1472}} {
		t.Run(name, func(t *testing.T) {
			f := newFabric(t, 2, fault.Config{})
			senders := backlog(f, place.to, 8, place.size)
			for done := false; !done; f.step() {
				least, most := ^uint64(0), uint64(0)
				for _, a := range senders {
					n := place.count(a)
					least, most = min(least, n), max(most, n)
					done = done || posted(a) > uint64(place.size)*3/4
				}
				if most-least > place.turn {
					t.Fatalf("one process had %d, another %d: more than a turn apart, which is %d", most, least, place.turn)
				}
			}
		})
	}
}

// served counts how many short messages two processes exchange in so many polls of their NIC.
func served(t *testing.T, f *fabric, polls int) (n int) {
	x, y := f.process(0, "x/0"), f.process(0, "y/0")
	f.known("x/0", "y/0")
	for range polls {
		buf := make([]byte, 64)
		r := y.recv("x/0", 3, 0, buf)
		s := x.send("y/0", 3, 0, buf)
		f.step()
		if !y.done(true, r) || !x.done(false, s) {
			t.Fatalf("after %d messages, one takes more than a poll", n)
		}
		y.wantReceived(r, buf, buf)
		x.wantSent(s)
		n++
	}
	return n
}

func TestAProcessThatNeverReceivesCostsTheOthersNothing(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	f.process(0, "deaf/0")
	f.known("deaf/0")
	for nic, name := range []string{"near/0", "far/0"} {
		a := f.process(nic, name)
		for i := range 40 {
			a.send("deaf/0", 1, 0, make([]byte, 16<<10<<(i%2)))
		}
	}
	f.run(50 * time.Millisecond)
	served(t, f, 100)
	for _, p := range f.engines[0].Processes() {
		if deaf := p.Name.String() == "deaf/0"; deaf != (p.Unexpected > 0) || deaf != (p.Oldest > 40*time.Millisecond) {
			t.Errorf("%v: %d messages wait for it, the first for %v", p.Name, p.Unexpected, p.Oldest)
		}
		if p.Staged+p.Credit > limits.StagingBytes {
			t.Errorf("%v: %d bytes of staging and %d of credit", p.Name, p.Staged, p.Credit)
		}
	}
}

func TestRingingWithoutWorkNeitherKeepsTheNICAwakeNorLastsLong(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a := f.process(0, "a/0")
	f.run(100 * time.Millisecond)
	polls := 0
	for n := 0; len(f.engines[0].detached) == 0; n++ {
		if n > 2*limits.EmptyRings {
			t.Fatal("it may ring for ever")
		}
		a.e.Ring(a.slot)
		for a.e.Listening() {
			a.e.Poll(f.now)
			polls++
		}
	}
	if most := 3*limits.EmptyRings + 3*limits.IdlePolls; polls > most {
		t.Errorf("the NIC listened for %d polls; at most %d can be worth it", polls, most)
	}
	d := a.e.TakeDetached()
	if len(d) != 1 || d[0].Name != a.name {
		t.Errorf("detached: %+v", d)
	}
	if c := a.e.procs[a.slot].account; c.EmptyRings < limits.EmptyRings || c.EmptyRings > c.Rings {
		t.Errorf("%d rings, %d of them empty", c.Rings, c.EmptyRings)
	}
	served(t, f, 10)
}

func TestWhoRingsForItsCommandsMayDoSoForEver(t *testing.T) {
	f := newFabric(t, 1, fault.Config{})
	a := f.process(0, "a/0")
	for range 2 * limits.EmptyRings {
		a.e.Ring(a.slot)
		a.e.Ring(a.slot) // a race
		a.post(vni.Command{Code: vni.CodeCancel, Context: 0, Size: 1})
		a.e.Poll(f.now)
	}
	if d := a.e.TakeDetached(); len(d) > 0 {
		t.Errorf("detached: %+v", d)
	}
}

func TestASilentPeerTakesNoMoreThanItsShareOfTheRooms(t *testing.T) {
	const rooms = 256
	f := newFabric(t, 0, fault.Config{})
	for id := range uint64(3) { // faults without any, so that segments are acknowledged
		e := f.addNIC(id+1, 1, fault.Config{Seed: 1}, func(c *Config) { c.Rooms, c.ReceiveCapacity = rooms, 4<<20 })
		if err := e.AddNode(1, mem.Address(1)); id > 0 && err != nil {
			t.Fatal(err)
		}
	}
	greedy, a, b, silent := f.process(0, "greedy/0"), f.process(0, "a/0"), f.process(1, "b/0"), f.process(2, "silent/0")
	f.known("greedy/0", "a/0", "b/0", "silent/0")
	const size = 600_000
	data, got := pattern(size, 1), make([]byte, size)
	r := silent.recv("greedy/0", 1, 0, got)
	s := greedy.send("silent/0", 1, 0, data)
	e := f.engines[0]
	f.until(time.Second, "permission", func() bool { return e.Count(vni.NICPermissionsReceived) > 0 })
	f.engines = f.engines[:2] // the third one falls silent
	f.run(10 * time.Millisecond)
	p := e.process(greedy.slot)
	if n := p.rooms.Segments(); n > rooms/2 || p.account.Crowded == 0 {
		t.Fatalf("of %d rooms it has %d, and was stopped %d times", rooms, n, p.account.Crowded)
	}
	buf := make([]byte, size)
	for range 3 {
		r, s := b.recv("a/0", 2, 0, buf), a.send("b/0", 2, 0, data)
		b.wantReceived(r, buf, data)
		a.wantSent(s)
	}
	f.engines = f.engines[:3]
	silent.wantReceived(r, got, data)
	greedy.wantSent(s)
	f.noLeaks()
	if n := p.rooms.Segments(); n != 0 {
		t.Errorf("%d segments of it are still counted", n)
	}
}
