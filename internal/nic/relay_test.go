package nic

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// audience holds a process a/0 on the first of some NICs and receivers r/0, r/1 … on the others.
// Each receiver has given the first NIC credit.
type audience struct {
	*fabric
	a     *tester
	to    []*tester
	names []string
}

func newAudience(t testing.TB, nics, each int, faults fault.Config, change ...func(*Config)) *audience {
	x := &audience{fabric: newWideFabric(t, 1472, nics, faults, change...)}
	x.a = x.process(0, "a/0")
	for i := range (nics - 1) * each {
		name := fmt.Sprintf("r/%d", i)
		x.to, x.names = append(x.to, x.process(1+i%(nics-1), name)), append(x.names, name)
	}
	x.known(append([]string{"a/0"}, x.names...)...)
	for _, p := range x.to {
		buf := make([]byte, 1)
		r := p.recv("a/0", 0, 0, buf)
		x.a.wantSent(x.a.send(p.name.String(), 0, 0, []byte("x")))
		p.wantReceived(r, buf, []byte("x"))
	}
	x.settle()
	return x
}

// receive posts one receive of a tag at every receiver. The function that it returns waits for
// them.
func (x *audience) receive(tag uint64, want []byte) (received func()) {
	var bufs [][]byte
	var rs []int
	for _, p := range x.to {
		buf := make([]byte, len(want))
		bufs, rs = append(bufs, buf), append(rs, p.recv("a/0", tag, 0, buf))
	}
	return func() {
		x.t.Helper()
		for i, p := range x.to {
			p.wantReceived(rs[i], bufs[i], want)
		}
	}
}

func (x *audience) count(c vni.Counter) (n uint64) {
	for _, e := range x.engines {
		n += e.Count(c)
	}
	return n
}

// The source sends the message as often as the number of NICs has binary digits, whatever the
// number of receivers. The other NICs do the rest, with one copy to each.
func TestAMulticastCostsTheSourceTheLogarithmOfTheNICs(t *testing.T) {
	for _, nics := range []int{4, 8, 13, 16} {
		for _, size := range []int{0, 10, 700, 5000, limits.StagedMessage} {
			x := newAudience(t, nics, 2, fault.Config{})
			want := pattern(size, 3)
			received := x.receive(1, want)
			x.a.wantSent(x.a.multicast(x.names, 1, want))
			received()
			if got, most := x.a.e.Count(vni.NICRelays), uint64(bits.Len(uint(nics-1))); got > most {
				t.Errorf("%d NICs, %d bytes: the source sent %d copies, more than %d", nics, size, got, most)
			}
			if got := x.count(vni.NICRelays); got != uint64(nics-1) {
				t.Errorf("%d NICs, %d bytes: %d copies in all", nics, size, got)
			}
			if got := x.count(vni.NICRelayedMessages); got != uint64(len(x.to)) {
				t.Errorf("%d NICs, %d bytes: %d messages came by the relay", nics, size, got)
			}
			x.noLeaks()
		}
	}
}

// A tree takes longer than separate messages, most of all for short ones, so it must save enough.
func TestARelayMustSaveItsSourceEnough(t *testing.T) {
	const saved = 5 // of eight messages to seven NICs
	for _, c := range []struct {
		size   int
		relays bool
	}{{64, false}, {limits.RelaySaves/saved - wire.FragLen, false}, {limits.RelaySaves/saved - wire.FragLen + 1, true}, {limits.StagedMessage, true}} {
		x := newAudience(t, 8, 1, fault.Config{})
		x.a.e.cfg.RelaySaves = limits.RelaySaves
		x.to, x.names = append(x.to, x.to[0]), append(x.names, x.names[0])
		want := pattern(c.size, 1)
		m := x.a.multicast(x.names, 1, want)
		x.receive(1, want)()
		x.a.wantSent(m)
		if got := x.a.e.Count(vni.NICRelays) > 0; got != c.relays {
			t.Errorf("%d bytes: relayed %v", c.size, got)
		}
		x.noLeaks()
	}
}

// Loss on every link makes the relay slower and changes nothing else. Messages before and after it
// keep their order.
func TestARelayKeepsTheOrderOfMessagesOnBadLinks(t *testing.T) {
	x := newAudience(t, 6, 2, fault.Config{Seed: 5, Loss: 0.1, Duplicate: 0.05, Reorder: 0.1})
	const rounds = 12
	var want [][]byte
	var ends []int
	for k := range rounds {
		data := pattern([]int{3, 900, 12_000}[k%3], byte(k))
		want = append(want, data)
		if k%4 == 3 {
			for _, name := range x.names {
				ends = append(ends, x.a.send(name, 7, 0, data))
			}
		} else {
			ends = append(ends, x.a.multicast(x.names, 7, data))
		}
	}
	for _, p := range x.to {
		for k := range rounds {
			buf := make([]byte, 12_000)
			p.wantReceived(p.recv("a/0", 7, 0, buf), buf, want[k])
		}
	}
	for _, i := range ends {
		x.a.wantSent(i)
	}
	if x.count(vni.NICRelayedMessages) == 0 {
		t.Error("nothing was relayed: this test tests nothing")
	}
	x.noLeaks()
}

// The NIC that passes a relay on dies at any step after it has taken it. Every other receiver gets
// the message once.
func TestTheDeathOfARelayCostsNobodyElseTheMessage(t *testing.T) {
	var missed, twice uint64
	for steps := range 24 {
		x := newAudience(t, 8, 1, fault.Config{})
		want := pattern([]int{600, 3000}[steps%2], 1)
		dead := x.to[0] // at the NIC next to the source's, which has most of the others below it
		x.to = x.to[1:]
		received := x.receive(1, want)
		m := x.a.multicast(x.names, 1, want)
		for range steps / 2 {
			x.step()
		}
		x.engines = append(x.engines[:1:1], x.engines[2:]...)
		received()
		if c := x.a.finish(false, m); c.Status != vni.StatusOK && (c.Status != vni.StatusUnreachable || x.names[c.Tag] != dead.name.String()) {
			t.Errorf("after %d steps: the multicast ended with %v of %s", steps, c.Status, x.names[c.Tag])
		}
		later := x.receive(1, []byte("later"))
		x.a.wantSent(x.a.multicast(x.names[1:], 1, []byte("later")))
		later() // and no message came twice before it
		x.noLeaks()
		missed += x.count(vni.NICRelaysMissed)
		twice += x.count(vni.NICDuplicates)
	}
	if missed == 0 || twice == 0 {
		t.Errorf("%d receivers were missed, %d got the message twice: this test tests too little", missed, twice)
	}
}

// A process ends while a relay is on its way to it, or between two others. The remaining receivers
// get the message. The source is told of the one that has gone.
func TestARelayThatFindsAProcessGoneNamesIt(t *testing.T) {
	x := newAudience(t, 8, 1, fault.Config{})
	gone := x.to[2]
	x.to = append(x.to[:2:2], x.to[3:]...)
	want := pattern(5000, 1)
	received := x.receive(1, want)
	m := x.a.multicast(x.names, 1, want)
	gone.exit()
	received()
	if c := x.a.finish(false, m); c.Status != vni.StatusProcessGone || x.names[c.Tag] != gone.name.String() {
		t.Errorf("the multicast ended with %v of %s", c.Status, x.names[c.Tag])
	}
	x.noLeaks()
}

// The pair of two NICs that a relay would use is not open. The receivers below get the message
// from its source.
func TestWhoCannotBeReachedByARelayIsReachedByTheSource(t *testing.T) {
	x := newAudience(t, 8, 1, fault.Config{})
	relaying := x.engines[1]
	for id := uint64(3); id <= 8; id++ {
		relaying.names.Forget(&relaying.peerOf(id).names)
	}
	want := pattern(700, 1)
	received := x.receive(1, want)
	m := x.a.multicast(x.names, 1, want)
	received()
	x.a.wantSent(m)
	if x.a.e.Count(vni.NICRelaysMissed) == 0 {
		t.Error("no receiver was missed: this test tests nothing")
	}
	x.noLeaks()
}

// A message that its process cancels must not arrive, unless it has arrived already. In both cases
// the numbers have no gap.
func TestACancelledMulticastLeavesNoGapInTheNumbers(t *testing.T) {
	ended := map[vni.Status]int{}
	for steps := range 10 {
		for _, exit := range []bool{false, true} {
			x := newAudience(t, 8, 1, fault.Config{})
			m := x.a.multicast(x.names, 1, pattern(14_000, 1))
			for range steps {
				x.step()
			}
			if exit {
				x.a.exit()
			} else {
				x.a.post(vni.Command{Code: vni.CodeCancel, Context: uint16(m), Size: vni.CancelSend})
				c := x.a.finish(false, m)
				if ended[c.Status]++; c.Status != vni.StatusCancelled && c.Status != vni.StatusOK {
					t.Errorf("after %d steps: ended with %v", steps, c.Status)
				}
				later := x.receive(2, []byte("later"))
				x.a.wantSent(x.a.multicast(x.names, 2, []byte("later")))
				later()
			}
			x.run(100 * time.Millisecond)
			for _, p := range x.to {
				for p.e.process(p.slot).stray.n > 0 {
					p.finish(true, p.recv("", 1, 0, make([]byte, 14_000)))
				}
			}
			x.noLeaks()
			if t.Failed() {
				t.Fatalf("after %d steps, exit %v", steps, exit)
			}
		}
	}
	if ended[vni.StatusCancelled] == 0 || ended[vni.StatusOK] == 0 {
		t.Errorf("multicasts ended with %v; expected some of both", ended)
	}
}

// On a torus a relay goes from neighbour to neighbour: its list is in the order of the columns,
// from the source's on.
func TestARelayFollowsTheTorus(t *testing.T) { // QNIX-52
	x := newAudience(t, 6, 1, fault.Config{})
	e := x.a.e
	e.cfg.Position = Position{X: 2, Y: 1, Width: 3, Height: 2}
	for id, at := range map[uint64][2]uint16{2: {1, 0}, 3: {0, 1}, 4: {2, 0}, 5: {1, 1}, 6: {0, 0}} {
		e.peerOf(id).names.Position = Position{X: at[0], Y: at[1], Width: 3, Height: 2}
	}
	m := x.a.multicast(x.names, 1, []byte("all"))
	e.Poll(x.now)
	var got []uint64
	mc := e.process(x.a.slot).sends[m].multi
	for i := range mc.relayed {
		got = append(got, mc.at(i).dest.key.NIC)
	}
	if want := []uint64{4, 3, 6, 5, 2}; !slices.Equal(got, want) {
		t.Errorf("the list has the NICs %d, want %d", got, want)
	}
	received := x.receive(1, []byte("all"))
	x.a.wantSent(m)
	received()
}

// A NIC in the middle of the tree alters each field of what it passes on, one field in each run.
// The NICs below it refuse the altered relay, and the source sends them the message itself.
func TestWhatARelayAltersIsRefusedAndComesFromTheSource(t *testing.T) {
	nic := wire.RelayHeadLen // where the first entry of a leg begins
	for what, at := range map[string]int{
		"source nic": 0, "source generation": 8, "source slot": 12, "nics": 14, "token": 16, "zero": 20, "tag": 24,
		"nic": nic, "session": nic + 8, "receivers": nic + 12, "mac": nic + 16,
		"generation of a receiver": nic + wire.RelayNICLen, "message number": nic + wire.RelayNICLen + 4, "slot of a receiver": nic + wire.RelayNICLen + 8,
		"message": -1,
	} {
		x := newAudience(t, 8, 1, fault.Config{})
		altered := 0
		x.engines[1].AlterRelays(func(piece []byte, offset int) {
			if at < 0 {
				piece[len(piece)-1] ^= 1
				altered++
			} else if i := at - offset; i >= 0 && i < len(piece) {
				piece[i] ^= 1
				altered++
			}
		})
		want := pattern(700, 1)
		received := x.receive(1, want)
		m := x.a.multicast(x.names, 1, want)
		received()
		x.a.wantSent(m)
		later := x.receive(2, []byte("later"))
		for i := range x.names {
			x.a.wantSent(x.a.send(x.names[i], 2, 0, []byte("later")))
		}
		later() // in order, so no message came twice, and no number was lost
		if altered == 0 || x.a.e.Count(vni.NICRelaysMissed) == 0 {
			t.Errorf("%s: %d pieces altered, %d receivers missed: this test tests nothing", what, altered, x.a.e.Count(vni.NICRelaysMissed))
		}
		if covered := what == "token" || what == "tag" || what == "message" || what == "message number" || what == "mac"; covered && x.count(vni.NICRefusedRelay) == 0 {
			t.Errorf("%s: no NIC has refused a relay", what)
		}
		x.noLeaks()
	}
}

// The relays in flight between two NICs are bounded. A receiver beyond the bound gets
// the message from the source. Nothing is lost, and nothing waits for memory.
func TestMoreRelaysThanThereIsRoomForGoWithoutThem(t *testing.T) {
	// So that credit does not run short first.
	x := newAudience(t, 5, 1, fault.Config{}, func(c *Config) { c.InitialCreditBytes, c.StagingBytes = 1<<20, 2<<20 })
	// Relays that leave the source for a multicast.
	const rounds, each = 30, 3
	want := pattern(10_000, 1)
	var ms []int
	for range rounds {
		ms = append(ms, x.a.multicast(x.names, 1, want))
	}
	for range rounds {
		received := x.receive(1, want)
		received()
		for _, e := range x.engines {
			if err := e.Limits(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, m := range ms {
		x.a.wantSent(m)
	}
	if relays := x.a.e.Count(vni.NICRelays); relays == 0 || relays >= each*rounds {
		t.Errorf("%d relays have left for %d multicasts; expected some, and fewer than %d each", relays, rounds, each)
	}
	x.noLeaks()
}

// A relay names the session of its message numbers. A relay that arrives late, when source and
// receiver have begun another session, must not be taken: its numbers mean nothing there, or
// something else.
func TestARelayOfAnotherSessionIsNotTaken(t *testing.T) {
	x := newAudience(t, 3, 1, fault.Config{})
	e, pr := x.engines[2], x.engines[2].peerOf(2)
	p := x.to[1]
	record := make([]byte, wire.RelayLen+wire.RelayHeadLen+wire.RelayNICLen+wire.RelayReceiverLen+4)
	body := record[wire.RelayLen:]
	wire.PutRelay(record, 77, 0, uint32(len(body)), len(body))
	for _, wrong := range []uint32{1, 0} {
		head := wire.RelayHead{NIC: 1, Gen: x.a.gen, Slot: x.a.slot, NICs: 1, Token: 1 << 16, Tag: 5}
		head.Put(body)
		n := wire.RelayNIC{NIC: 3, Session: e.peerOf(1).ep.Session() + wrong, Receivers: 1}
		n.Put(body[wire.RelayHeadLen:])
		v := wire.RelayReceiver{Gen: p.gen, Number: 2, Slot: p.slot}
		v.Put(body[wire.RelayHeadLen+wire.RelayNICLen:])
		if !x.a.e.relays.Sign(body) {
			t.Fatal("the body is malformed")
		}
		e.relays.Record(&pr.relays, record)
		if got := e.Count(vni.NICRelayedMessages); got != uint64(1-wrong) {
			t.Errorf("session off by %d: %d messages taken", wrong, got)
		}
	}
	if n := e.Count(vni.NICRefusedRelay); n != 0 {
		t.Errorf("%d relays were refused as altered", n)
	}
	if x.a.e.peerOf(3).ep.Session() != e.peerOf(1).ep.Session() {
		t.Error("the two ends of a session name it differently")
	}
}
