package nic

import (
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

var sizes = []int{0, 1, 64, limits.TinyMessage, limits.TinyMessage + 1, 1392, 1393, limits.CopiedMessage, limits.CopiedMessage + 1,
	limits.StagedMessage, limits.StagedMessage + 1, limits.UnaskedMessage, limits.UnaskedMessage + 1, limits.EagerMessage, limits.EagerMessage + 1, 100_000, 1 << 20}

// places holds the relative places of two processes, and the network between them.
var places = []struct {
	name     string
	nics     int
	capacity uint64 // of each NIC
	faults   fault.Config
}{
	{"one NIC", 1, 0, fault.Config{}},
	{"two NICs", 2, 0, fault.Config{}},
	{"two NICs and a bad network", 2, 0, badNetwork},
	{"two NICs with much room", 2, limits.RoomyCapacity, fault.Config{}},
	{"two NICs with much room and a bad network", 2, limits.RoomyCapacity, badNetwork},
}

var badNetwork = fault.Config{Seed: 7, Loss: 0.1, Duplicate: 0.05, Reorder: 0.1, Corrupt: 0.02}

func eachPlace(t *testing.T, test func(t *testing.T, f *fabric, a, b *tester)) {
	for _, pl := range places {
		t.Run(pl.name, func(t *testing.T) {
			f := newWideFabric(t, 1472, pl.nics, pl.faults, func(c *Config) { c.ReceiveCapacity = pl.capacity })
			a, b := f.process(0, "a/0"), f.process(pl.nics-1, "b/0")
			f.known("a/0", "b/0")
			test(t, f, a, b)
			f.noLeaks()
		})
	}
}

func TestAMessageOfAnySizeReachesAReceiveThatWaitsForIt(t *testing.T) {
	eachPlace(t, func(t *testing.T, f *fabric, a, b *tester) {
		for i, n := range sizes {
			data, buf := pattern(n, byte(i)), make([]byte, n)
			r := b.recv("a/0", uint64(i), 0, buf)
			s := a.send("b/0", uint64(i), 0, data)
			c := b.wantReceived(r, buf, data)
			if c.From != a.name || c.Tag != uint64(i) || c.Slot != a.slot || c.Gen != a.gen {
				t.Errorf("%d bytes: completion names %v, tag %d; expected %v, tag %d", n, c.From, c.Tag, a.name, i)
			}
			a.wantSent(s)
		}
	})
}

func TestAMessageOfAnySizeWaitsForItsReceive(t *testing.T) { // QNIX-47, QNIX-48
	eachPlace(t, func(t *testing.T, f *fabric, a, b *tester) {
		for i, n := range sizes {
			data, buf := pattern(n, byte(i)), make([]byte, n)
			s := a.send("b/0", 1, 0, data)
			f.until(10*time.Second, "unexpected", func() bool { return b.e.process(b.slot).stray.n == 1 })
			for range 1000 {
				f.step()
			}
			r := b.recv("", 0, vni.AnyTag, buf)
			b.wantReceived(r, buf, data)
			a.wantSent(s)
		}
	})
}

// A request and its answer would cost both ends as much as these few bytes. A NIC with little room
// permits them one by one.
func TestAMessageOfSomeFramesAsksNothingOfANICWithRoom(t *testing.T) { // QNIX-42
	for _, c := range []struct {
		capacity uint64
		length   int
		asks     bool
	}{
		{limits.RoomyCapacity, limits.UnaskedMessage + 1, false},
		{limits.RoomyCapacity, limits.EagerMessage, false},
		{limits.RoomyCapacity, limits.EagerMessage + 1, true},
		{limits.RoomyCapacity - 1, limits.UnaskedMessage, false},
		{limits.RoomyCapacity - 1, limits.UnaskedMessage + 1, true},
	} {
		f := newWideFabric(t, 1472, 2, fault.Config{}, func(cfg *Config) { cfg.ReceiveCapacity = c.capacity })
		a, b := f.process(0, "a/0"), f.process(1, "b/0")
		f.known("a/0", "b/0")
		buf := make([]byte, c.length)
		b.recv("a/0", 1, 0, buf)
		a.wantSent(a.send("b/0", 1, 0, []byte("brings credit")))
		asked := a.e.Count(vni.NICRequests)
		r := b.recv("a/0", 2, 0, buf)
		a.wantSent(a.send("b/0", 2, 0, pattern(c.length, 1)))
		b.wantReceived(r, buf, pattern(c.length, 1))
		if asks := a.e.Count(vni.NICRequests) > asked; asks != c.asks {
			t.Errorf("%d bytes to a NIC of %d: asks for permission: %v, expected %v", c.length, c.capacity, asks, c.asks)
		}
		f.noLeaks()
	}
}

// Their packets take turns: if many left at once, all would be half there when the first could
// already be read, and they would use up the credit of short messages.
func TestOfMessagesOfSomeFramesOneAtATimeGoesUnasked(t *testing.T) {
	f := newWideFabric(t, 1472, 2, fault.Config{}, roomy)
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	a.wantSent(a.send("b/0", 1, 0, []byte("brings credit")))
	before := a.e.Count(vni.NICRequests)
	asked := func() int { return int(a.e.Count(vni.NICRequests) - before) }
	const size = limits.UnaskedMessage + 1
	var sends []int
	for i := range 3 {
		sends = append(sends, a.send("b/0", 2, 0, pattern(size, byte(i)))) // no receive asks for it
	}
	f.settle()
	for i, s := range sends {
		if left := a.done(false, s); left != (i == 0) || asked() != 2 {
			t.Errorf("message %d has left: %v, and %d have asked; expected the first one to have left, and both others to ask", i, left, asked())
		}
	}
	a.wantSent(a.send("b/0", 3, 0, pattern(limits.UnaskedMessage, 7)))
	if asked() != 2 {
		t.Error("a shorter message behind them has asked for permission")
	}
	behind := a.send("b/0", 2, 0, pattern(size, 3))
	f.settle()
	if asked() != 3 {
		t.Error("one behind those that wait has not asked for permission")
	}
	buf := make([]byte, size)
	b.wantReceived(b.recv("a/0", 1, 0, buf), buf, []byte("brings credit"))
	for i := range 4 {
		b.wantReceived(b.recv("a/0", 2, 0, buf), buf, pattern(size, byte(i)))
	}
	a.wantSent(behind)
	b.wantReceived(b.recv("a/0", 3, 0, buf), buf, pattern(limits.UnaskedMessage, 7))
	a.wantSent(a.send("b/0", 2, 0, pattern(size, 4)))
	if asked() != 3 {
		t.Error("the next one, when none was left, has asked for permission")
	}
	b.wantReceived(b.recv("a/0", 2, 0, buf), buf, pattern(size, 4))
	f.noLeaks()
}

// The message has arrived, so nothing depends on its sender any more. An earlier
// version continued to probe the sender's NIC.
func TestTheSenderOfAMessageThatWaitsWholeIsNotProbed(t *testing.T) { // decision 7
	f := newWideFabric(t, 1472, 2, fault.Config{}, roomy)
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	for i, n := range []int{64, 10_000, limits.EagerMessage} { // the first brings credit
		a.wantSent(a.send("b/0", uint64(i), 0, pattern(n, byte(i))))
	}
	f.noLeaks()
	for i, n := range []int{64, 10_000, limits.EagerMessage} {
		buf := make([]byte, n)
		b.wantReceived(b.recv("a/0", uint64(i), 0, buf), buf, pattern(n, byte(i)))
	}
}

func TestMessagesOfMixedSizesAreMatchedInTheOrderOfTheirSending(t *testing.T) { // decision 5
	eachPlace(t, func(t *testing.T, f *fabric, a, b *tester) {
		order := []int{100_000, 10, 3000, 0, 1 << 20, 700, 20_000, 64}
		var sends, recvs []int
		var bufs [][]byte
		for i, n := range order {
			sends = append(sends, a.send("b/0", 9, 0, pattern(n, byte(i))))
		}
		for range order {
			bufs = append(bufs, make([]byte, 1<<20))
			recvs = append(recvs, b.recv("", 9, 0, bufs[len(bufs)-1]))
		}
		for i, n := range order {
			b.wantReceived(recvs[i], bufs[i], pattern(n, byte(i)))
			a.wantSent(sends[i])
		}
	})
}

func TestTagsAndNamesChooseAmongMessages(t *testing.T) { // QNIX-19, QNIX-20
	f := newFabric(t, 3, fault.Config{})
	a, b, c := f.process(0, "a/0"), f.process(1, "b/0"), f.process(2, "c/0")
	f.known("a/0", "b/0", "c/0")
	bufs := [4][]byte{make([]byte, 10), make([]byte, 10), make([]byte, 10), make([]byte, 10)}
	fromC := b.recv("c/0", 0, vni.AnyTag, bufs[0])
	tag2 := b.recv("", 2, 0, bufs[1])
	first := b.recv("", 0, vni.AnyTag, bufs[2])
	second := b.recv("", 0, vni.AnyTag, bufs[3])
	a.wantSent(a.send("b/0", 1, vni.WantAccept, []byte("a1")))
	a.wantSent(a.send("b/0", 2, vni.WantAccept, []byte("a2")))
	a.wantSent(a.send("b/0", 3, vni.WantAccept, []byte("a3")))
	c.wantSent(c.send("b/0", 2, vni.WantAccept, []byte("c2")))
	b.wantReceived(fromC, bufs[0], []byte("c2"))
	b.wantReceived(tag2, bufs[1], []byte("a2"))
	b.wantReceived(first, bufs[2], []byte("a1"))
	b.wantReceived(second, bufs[3], []byte("a3"))
	f.noLeaks()
}

func TestALongerMessageIsCutAndSaysSo(t *testing.T) { // QNIX-A11
	eachPlace(t, func(t *testing.T, f *fabric, a, b *tester) {
		for i, n := range []int{100, 5000, 200_000} {
			data, buf := pattern(n, byte(i)), make([]byte, 60)
			r := b.recv("", 0, vni.AnyTag, buf)
			s := a.send("b/0", 5, 0, data)
			c := b.finish(true, r)
			if c.Status != vni.StatusTruncated || c.Len != 60 || c.Full != uint64(n) || string(buf) != string(data[:60]) {
				t.Errorf("%d bytes into 60: %v, %d of %d", n, c.Status, c.Len, c.Full)
			}
			a.wantSent(s)
		}
	})
}

func TestDeliveredMeansThatTheOtherNICHasIt(t *testing.T) { // decision 6
	eachPlace(t, func(t *testing.T, f *fabric, a, b *tester) {
		for i, n := range []int{0, 64, 3000, 16_000} {
			a.wantSent(a.send("b/0", 1, vni.WantAccept, pattern(n, byte(i)))) // short: staged
			buf := make([]byte, n)
			b.wantReceived(b.recv("", 1, 0, buf), buf, pattern(n, byte(i)))
		}
		// Long: only when a receive wants it.
		s := a.send("b/0", 1, vni.WantAccept, pattern(300_000, 3))
		for range 20000 {
			f.step()
		}
		if a.done(false, s) {
			t.Error("a long message was reported as delivered before it was received")
		}
		buf := make([]byte, 300_000)
		b.wantReceived(b.recv("", 1, 0, buf), buf, pattern(300_000, 3))
		a.wantSent(s)
	})
}

func TestAMessageToANameThatNobodyHasFails(t *testing.T) {
	eachPlace(t, func(t *testing.T, f *fabric, a, b *tester) {
		if c := a.finish(false, a.send("nobody/7", 1, 0, []byte("x"))); c.Status != vni.StatusNameUnknown {
			t.Errorf("ended with %v; expected %v", c.Status, vni.StatusNameUnknown)
		}
	})
}

func TestManySendersShareOneReceiverWithoutLosingAnything(t *testing.T) {
	f := newFabric(t, 4, fault.Config{Seed: 3, Loss: 0.05, Reorder: 0.1})
	b := f.process(0, "b/0")
	var ps []*tester
	for i := range 9 {
		ps = append(ps, f.process(i%4, fmt.Sprintf("a/%d", i)))
	}
	got := make(map[string]int)
	sent := make([][]int, len(ps))
	const each = 12
	for k := range each {
		for i, p := range ps {
			sent[i] = append(sent[i], p.send("b/0", uint64(k), 0, pattern((k*7919)%40_000, byte(i*16+k))))
		}
	}
	buf := make([]byte, 40_000)
	for range each * len(ps) {
		c := b.finish(true, b.recv("", 0, vni.AnyTag, buf))
		k := got[c.From.String()]
		got[c.From.String()]++
		if c.Tag != uint64(k) || string(buf[:c.Len]) != string(pattern((k*7919)%40_000, byte(int(c.From.Index)*16+k))) {
			t.Fatalf("message %d of %v has tag %d, %d bytes", k, c.From, c.Tag, c.Len)
		}
	}
	for i, p := range ps {
		for _, s := range sent[i] {
			p.wantSent(s)
		}
	}
	f.noLeaks()
}
