package nic

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/vni"
)

// backlog makes every process send one long message to its own partner, which has receives posted;
// the first process sends four. It returns the senders.
func backlog(f *fabric, to, n, size int) (senders []*tester) {
	data, buf := make([]byte, size), make([]byte, size) // shared: the test does not read them
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

// posted returns how many bytes of a process's long messages have been posted.
func posted(a *tester) (n uint64) {
	p := a.e.process(a.slot)
	for i := range p.sends {
		n += p.sends[i].frag.Next
	}
	return n
}

// QNIX-39, first level: turns go round over the processes. Frames are small, so that the messages
// take several polls. The processes are compared after each poll, so a poll that serves the first
// process alone is noticed at once.
func TestAGreedyProcessHasNoMoreTurnsThanTheOthers(t *testing.T) {
	for name, place := range map[string]struct {
		to, size int
		turn     uint64 // the most bytes of a turn
	}{"on one NIC": {0, 128 * limits.LocalPiece, limits.LocalPiece}, "to another": {1, 40_000, 548}} {
		t.Run(name, func(t *testing.T) {
			f := newWideFabric(t, 548, 2, fault.Config{})
			senders := backlog(f, place.to, 8, place.size)
			// The first process asks for permission four times, which takes turns, and its bytes
			// are in four messages.
			const requests = 4
			polls := 0
			for done := false; !done; f.step() {
				least, most := ^uint64(0), uint64(0)
				for _, a := range senders {
					n := posted(a)
					least, most = min(least, n), max(most, n)
					done = done || n > uint64(place.size)*3/4
				}
				if most-least > requests*place.turn {
					t.Fatalf("after %d polls one process had sent %d bytes, another %d: more than %d turns of %d apart", polls, most, least, requests, place.turn)
				}
				if most > 0 {
					polls++
				}
			}
			if polls < 3 {
				t.Errorf("all was sent within %d polls, so nothing was compared", polls)
			}
		})
	}
}

// QNIX-39, second level: turns of a process go round over its sends, packet by packet.
func TestTwoLongSendsOfAProcessTakeTurnsPacketByPacket(t *testing.T) {
	// Otherwise each peer would be full after one poll.
	f := newWideFabric(t, 548, 3, fault.Config{}, func(c *Config) { c.ReceiveCapacity = 4 << 20 })
	a, near, far := f.process(0, "a/0"), f.process(1, "near/0"), f.process(2, "far/0")
	f.known("a/0", "near/0", "far/0")
	data, buf := make([]byte, 400_000), make([]byte, 400_000) // shared: the test does not read them
	near.recv("", 1, 0, buf)
	far.recv("", 1, 0, buf)
	sends := []int{a.send("near/0", 1, 0, data), a.send("far/0", 1, 0, data)}
	p := a.e.process(a.slot)
	compared := 0
	for p.sends[sends[0]].frag.Next < uint64(len(data))*3/4 {
		x, y := p.sends[sends[0]].frag.Next, p.sends[sends[1]].frag.Next
		if d := max(x, y) - min(x, y); d > 548 {
			t.Fatalf("after %d polls one message had %d bytes sent, the other %d: more than a packet apart", compared, x, y)
		}
		if x > 0 {
			compared++
		}
		f.step()
	}
	if compared < 3 {
		t.Errorf("all was sent within %d polls, so nothing was compared", compared)
	}
}

// QNIX-40: a new send goes to the tail of the scheduling queue, so no earlier send waits for it.
func TestSendsHaveTheirFirstTurnsInTheOrderOfTheirCommands(t *testing.T) {
	f := newFabric(t, 1, fault.Config{})
	a := f.process(0, "a/0")
	var turns []string
	for _, name := range []string{"x/0", "x/1", "x/2"} {
		p := f.process(0, name)
		p.e.Guard(p.slot, p.gen, func(*Arrival) bool {
			turns = append(turns, name)
			return false
		})
	}
	for _, name := range []string{"x/1", "x/0", "x/2"} {
		// Too long to be copied with its command.
		a.send(name, 1, 0, make([]byte, limits.StagedMessage+1))
	}
	f.until(time.Millisecond, "all have had a turn", func() bool { return len(turns) == 3 })
	if want := []string{"x/1", "x/0", "x/2"}; !slices.Equal(turns, want) {
		t.Errorf("turns for %v; expected %v", turns, want)
	}
}

// served returns how many short messages two processes exchange in a number of polls of their NIC.
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
	if c := a.e.procs.at(a.slot).account; c.EmptyRings < limits.EmptyRings || c.EmptyRings > c.Rings {
		t.Errorf("%d rings, %d of them empty", c.Rings, c.EmptyRings)
	}
	served(t, f, 10)
}

// A NIC that should park need not wait until its processes have been idle for long (decision 11).
func TestListeningEndsAtOnceWhereNoCommandIs(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(0, "b/0")
	f.known("b/0")
	if !a.v.Listening() || !b.v.Listening() {
		t.Fatal("a process that has just come is not listened to")
	}
	if !a.v.Post(vni.Command{Code: vni.CodeCancel, Context: 0, Size: 1}) {
		t.Fatal("no room for a command")
	}
	a.e.EndListening()
	if !a.v.Listening() || b.v.Listening() || !a.e.Listening() {
		t.Errorf("listened to: %v with a command, %v without; expected only the former", a.v.Listening(), b.v.Listening())
	}
	a.e.Poll(f.now)
	a.e.EndListening()
	if a.v.Listening() || a.e.Listening() {
		t.Error("it listens though no process has a command")
	}
	served(t, f, 10) // a process that now posts a command rings
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
	for id := range uint64(3) { // fault links without faults, so that segments are acknowledged
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
	f.engines = f.engines[:2] // the third NIC falls silent
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

// eachStaging runs a test for a process b/0 with this much staging, whose NIC gives this much
// credit, and a sender a/0 on the same NIC or on another.
func eachStaging(t *testing.T, bytes, credit int, test func(t *testing.T, f *fabric, a, b *tester)) {
	for name, from := range map[string]int{"on one NIC": 0, "from another": 1} {
		t.Run(name, func(t *testing.T) {
			f := newFabric(t, 0, fault.Config{})
			for id := range uint64(2) {
				e := f.addNIC(id+1, 1, fault.Config{}, func(c *Config) { c.StagingBytes, c.InitialCreditBytes = bytes, credit })
				if err := e.AddNode(1, mem.Address(1)); id > 0 && err != nil {
					t.Fatal(err)
				}
			}
			b, a := f.process(0, "b/0"), f.process(from, "a/0")
			f.known("a/0", "b/0")
			test(t, f, a, b)
		})
	}
}

// sendEach sends b/0 a message of each length, tagged 0, 1, ….
func (p *tester) sendEach(sizes ...int) (sends []int) {
	for i, n := range sizes {
		sends = append(sends, p.send("b/0", uint64(i), 0, pattern(n, byte(i))))
	}
	return sends
}

// wantOver fails the test unless exactly these sends are over, in the form x.x.
func (p *tester) wantOver(sends []int, want string) {
	p.f.t.Helper()
	p.f.run(10 * time.Millisecond)
	got := ""
	for _, s := range sends {
		got += map[bool]string{true: "x", false: "."}[p.done(false, s)]
	}
	if got != want {
		p.f.t.Errorf("of the sends are over %s, want %s", got, want)
	}
}

func TestMessagesWaitInLineForStaging(t *testing.T) { // QNIX-A6
	const size = 5000
	eachStaging(t, 2*size+200, -1, func(t *testing.T, f *fabric, a, b *tester) {
		sends := a.sendEach(size, size, size, size)
		a.wantOver(sends, "xx..")
		buf := make([]byte, size)
		b.wantReceived(b.recv("", 1, 0, buf), buf, pattern(size, 1))
		a.wantOver(sends, "xxx.") // although no receive has asked for the third
		for _, i := range []int{3, 0, 2} {
			b.wantReceived(b.recv("", uint64(i), 0, buf), buf, pattern(size, byte(i)))
		}
		a.wantOver(sends, "xxxx")
		f.noLeaks()
	})
}

func TestSmallMessagesDoNotPassALargeOneInTheLine(t *testing.T) { // QNIX-A6
	eachStaging(t, 10_000, -1, func(t *testing.T, f *fabric, a, b *tester) {
		sizes := []int{4000, 4000, 9000, 10, 10}
		sends := a.sendEach(sizes...)
		a.wantOver(sends, "xx...")
		buf := make([]byte, 9000)
		get := func(tag int) {
			b.wantReceived(b.recv("", uint64(tag), 0, buf[:sizes[tag]]), buf[:sizes[tag]], pattern(sizes[tag], byte(tag)))
		}
		get(0)
		a.wantOver(sends, "xx...")
		get(1)
		a.wantOver(sends, "xxxxx")
		for _, tag := range []int{2, 3, 4} {
			get(tag)
		}
		f.noLeaks()
	})
}

func TestWhoLeavesTheLineLetsTheNextIn(t *testing.T) { // QNIX-A6
	sizes := []int{9000, 5000, 10, 20}
	for name, leave := range map[string]func(f *fabric, a, b *tester, first int){
		"cancelled": func(f *fabric, a, b *tester, first int) {
			a.post(vni.Command{Code: vni.CodeCancel, Context: uint16(first), Size: vni.CancelSend})
			if c := a.finish(false, first); c.Status != vni.StatusCancelled {
				f.t.Errorf("the send ended with %v", c.Status)
			}
		},
		"received": func(f *fabric, a, b *tester, first int) {
			buf := make([]byte, sizes[1])
			b.wantReceived(b.recv("", 1, 0, buf), buf, pattern(len(buf), 1))
			a.wantSent(first)
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachStaging(t, 10_000, -1, func(t *testing.T, f *fabric, a, b *tester) {
				sends := a.sendEach(sizes...)
				a.wantOver(sends, "x...")
				leave(f, a, b, sends[1])
				a.wantOver(sends[2:], "xx")
				for _, tag := range []int{0, 2, 3} {
					buf := make([]byte, sizes[tag])
					b.wantReceived(b.recv("", uint64(tag), 0, buf), buf, pattern(len(buf), byte(tag)))
				}
				f.noLeaks()
			})
		})
	}
}

func TestADeadSenderLeavesTheLine(t *testing.T) { // decision 8
	eachStaging(t, 10_000, -1, func(t *testing.T, f *fabric, a, b *tester) {
		other := f.process(0, "other/0")
		f.known("other/0", "b/0")
		a.wantOver(a.sendEach(9000, 5000, 5000), "x..")
		late := other.sendEach(800)
		other.wantOver(late, ".")
		a.exit()
		other.wantOver(late, "x")
		buf := make([]byte, 9000)
		b.wantReceived(b.recv("other/0", 0, 0, buf[:800]), buf[:800], pattern(800, 0))
		b.wantReceived(b.recv("", 0, 0, buf), buf, pattern(9000, 0))
		f.noLeaks()
	})
}

// Credit that was used a moment ago is not idle yet. The line gets it as soon as it is idle, even
// if nothing else happens then.
func TestTheLineWaitsForNoOtherEventThanIdleCredit(t *testing.T) { // decision 8
	eachStaging(t, 10_000, 10_000, func(t *testing.T, f *fabric, a, b *tester) {
		far, buf := f.process(1, "far/0"), make([]byte, 5000)
		f.known("far/0", "b/0")
		// Asks for permission, and so its NIC gets all of the staging as credit.
		first := far.send("b/0", 9, 0, buf[:10])
		b.wantReceived(b.recv("", 9, 0, buf[:10]), buf[:10], make([]byte, 10))
		far.wantSent(first)
		second := far.send("b/0", 9, 0, buf[:10]) // goes on credit
		b.wantReceived(b.recv("", 9, 0, buf[:10]), buf[:10], make([]byte, 10))
		far.wantSent(second)
		a.wantOver(a.sendEach(5000), "x")
		b.wantReceived(b.recv("", 0, 0, buf), buf, pattern(5000, 0))
		f.noLeaks()
	})
}

func TestTheLineTakesCreditThatLiesIdle(t *testing.T) { // decision 8
	eachStaging(t, 10_000, 10_000, func(t *testing.T, f *fabric, a, b *tester) {
		far, buf := f.process(1, "far/0"), make([]byte, 5000)
		f.known("far/0", "b/0")
		// Asks for permission, and so its NIC gets all of the staging as credit.
		first := far.send("b/0", 9, 0, buf[:10])
		b.wantReceived(b.recv("", 9, 0, buf[:10]), buf[:10], make([]byte, 10))
		far.wantSent(first)
		f.run(10 * time.Millisecond)
		if got := b.e.process(b.slot).credited; got == 0 {
			t.Fatal("there is no credit")
		}
		a.wantOver(a.sendEach(5000), "x")
		b.wantReceived(b.recv("", 0, 0, buf), buf, pattern(5000, 0))
		f.noLeaks()
	})
}
