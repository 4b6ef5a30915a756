package nic

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// The tests of this file check that what a process receives from another within a session has no
// holes (decision 6).

// skip uses up the number of a message of a's NIC that never comes.
func (c *crafted) skip() {
	c.a.e.process(c.a.slot).dests[vni.Address{NIC: 2, Slot: c.b.slot, Gen: c.b.gen}].number++
}

func TestAMessageIsAcceptedWhenThoseBeforeItHaveCome(t *testing.T) {
	for _, n := range []int{10, 3000, 16_000} { // in a segment, in pieces
		c := newCrafted(t)
		c.skip()
		sent := c.a.send("b/0", 5, vni.WantAccept, pattern(n, 1))
		c.f.run(100 * time.Millisecond)
		if c.a.done(false, sent) {
			t.Fatalf("one of %d bytes was accepted before the message before it had come", n)
		}
		c.frag(c.env(2, 0, 5), []byte("first"))
		c.a.wantSent(sent)
		for _, want := range [][]byte{[]byte("first"), pattern(n, 1)} {
			buf := make([]byte, n)
			c.b.wantReceived(c.b.recv("a/0", 5, 0, buf), buf, want)
		}
		c.f.settle()
		c.f.noLeaks()
	}
}

func TestNothingIsDeliveredBeforeAMessageThatCountsAsSentIsWhole(t *testing.T) {
	for _, whole := range []bool{true, false} {
		c := newCrafted(t)
		env, id := c.env(2, wire.FlagWhole, 5), wire.FragmentID(4096+5)
		c.eager(env, id, 1000, 2000, pattern(2000, 1)[1000:])
		c.frag(c.env(3, 0, 5), []byte("behind"))
		buf, short := make([]byte, 2000), make([]byte, 10)
		first, second := c.b.recv("a/0", 5, 0, buf), c.b.recv("a/0", 5, 0, short)
		c.f.run(100 * time.Millisecond)
		if c.b.done(true, first) || c.b.done(true, second) {
			t.Fatal("a receive has ended before the first message was there")
		}
		if whole {
			c.eager(env, id, 0, 2000, pattern(2000, 1)[:1000])
			c.b.wantReceived(first, buf, pattern(2000, 1))
			c.b.wantReceived(second, short, []byte("behind"))
			c.f.settle()
			c.f.noLeaks()
			continue
		}
		(*handler)(c.b.e).Down(c.f.now, c.pr.ep, rel.ErrUnreachable)
		for _, r := range []int{first, second} {
			if got := c.b.finish(true, r); got.Status != vni.StatusUnreachable {
				t.Errorf("a receive ended with %v", got.Status)
			}
		}
	}
}

func TestWhatIsParkedWhenTheSessionEndsIsDropped(t *testing.T) {
	for _, test := range []struct {
		name string
		park func(c *crafted)
	}{
		{"short ones", func(c *crafted) {
			c.frag(c.env(3, wire.FlagAccept, 5), []byte("early"))
			c.run(4, 5, []byte("a run"), []byte("of two"))
		}},
		{"one in pieces that has come", func(c *crafted) {
			c.eager(c.env(3, 0, 5), 4096+5, 0, 2000, pattern(1000, 1))
			c.eager(c.env(3, 0, 5), 4096+5, 1000, 2000, pattern(1000, 1))
		}},
		{"one in pieces, half of it", func(c *crafted) { c.eager(c.env(3, 0, 5), 4096+5, 0, 2000, pattern(1000, 1)) }},
		{"a request", func(c *crafted) { c.request(c.env(3, 0, 5), 4096+5, 100_000) }},
		{"one that was withdrawn", func(c *crafted) { c.withdraw(c.env(3, 0, 0), 0) }},
		{"one that came by a relay", func(c *crafted) {
			source := c.b.e.source(c.b.e.process(c.b.slot), sourceKey{c.pr, c.a.slot, c.a.gen})
			source.credit.spend(c.f.now, stagedCost(5))
			env := c.env(3, 0, 5)
			c.b.e.takeWhole(source, &env, []byte("relay"))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCrafted(t)
			test.park(c)
			buf := make([]byte, 2000)
			r := c.b.recv("", 0, vni.AnyTag, buf)
			c.f.settle()
			c.down()
			c.f.settle()
			if c.b.done(true, r) {
				t.Fatal("it was delivered, and the one before it was not")
			}
			if p := c.b.e.process(c.b.slot); p.stray.n > 0 || len(p.sources) > 0 || p.staged > 0 || p.credited > 0 || c.b.e.staging.inUse > 0 {
				t.Errorf("%d messages wait, %d sources are known, %d bytes are staged, %d are out as credit, and %d in use",
					p.stray.n, len(p.sources), p.staged, p.credited, c.b.e.staging.inUse)
			}
			c.b.post(vni.Command{Code: vni.CodeCancel, Context: uint16(r), Size: vni.CancelReceive})
			c.f.until(time.Second, "the receive's end", func() bool { return c.b.done(true, r) })
		})
	}
}

func TestWhatWasAcceptedIsDeliveredThoughItsPeerIsLost(t *testing.T) {
	c := newCrafted(t)
	c.frag(c.env(2, wire.FlagAccept, 5), []byte("in its turn"))
	c.f.settle()
	c.down()
	buf := make([]byte, 20)
	if got := c.b.wantReceived(c.b.recv("", 5, 0, buf), buf, []byte("in its turn")); got.From != c.a.name {
		t.Errorf("it is said to be from %v", got.From)
	}
}

func TestAReceiverIsToldOfTheEndOfASession(t *testing.T) {
	for _, x := range []struct {
		from string
		why  error
		kind uint32
	}{
		{"a short message", rel.ErrUnreachable, vni.EventUnreachable}, {"a request", rel.ErrUnreachable, vni.EventUnreachable},
		{"a short message", rel.ErrGoodbye, vni.EventClosed}, {"a request", rel.ErrRestarted, vni.EventRestarted},
		{"none", rel.ErrUnreachable, 0},
	} {
		from := x.from
		f := newFabric(t, 2, fault.Config{})
		a, b := f.process(0, "a/0"), f.process(1, "b/0")
		f.known("a/0", "b/0")
		switch from {
		case "a short message":
			a.wantSent(a.send("b/0", 1, 0, []byte("x")))
		case "a request":
			a.send("b/0", 1, 0, make([]byte, 100_000))
		}
		f.settle()
		pr := b.e.peerOf(1)
		// As if a had ended long ago.
		forNames{(*services)(b.e)}.Forgotten(vni.Address{NIC: 1, Slot: a.slot, Gen: a.gen})
		(*handler)(b.e).Down(f.now, pr.ep, x.why)
		ev, _, ok := b.v.NextEvent()
		if want := from != "none"; ok != want || ok && (ev.Kind != x.kind || ev.NIC != 1) {
			t.Errorf("after %s it was told %v: %v", from, ok, ev)
		}
	}
}

// silent makes two processes; the NIC of the second has just fallen silent.
func silent(t *testing.T) (f *fabric, a, b *tester) {
	f = newFabric(t, 2, fault.Config{Seed: 1})
	a, b = f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	for range 3 {
		a.wantSent(a.send("b/0", 1, 0, []byte("x")))
	}
	f.run(10 * time.Millisecond) // for the acknowledgements
	f.engines = f.engines[:1]
	return f, a, b
}

// wantDoubt waits for the event of the other NIC's loss, and checks its count.
func wantDoubt(t *testing.T, f *fabric, a *tester, count uint64) {
	t.Helper()
	f.until(10*time.Second, "its loss", func() bool {
		ev, _, ok := a.v.NextEvent()
		if ok && ev.NIC == 2 && ev.Count != count {
			t.Errorf("%d messages are in doubt, expected %d", ev.Count, count)
		}
		return ok && ev.NIC == 2
	})
}

func TestMessagesInDoubtAreCounted(t *testing.T) {
	t.Run("those that were not acknowledged", func(t *testing.T) {
		f, a, _ := silent(t)
		for range 5 {
			a.wantSent(a.send("b/0", 1, 0, []byte("x")))
		}
		failing := a.send("b/0", 1, vni.WantAccept, []byte("x"))
		wantDoubt(t, f, a, 5)
		if c := a.finish(false, failing); c.Status != vni.StatusUnreachable {
			t.Errorf("%v", c.Status)
		}
	})
	t.Run("those of several frames that the NIC had kept", func(t *testing.T) {
		f, a, b := silent(t)
		way := &rider{a, a.e.Straight(a.slot, a.gen, func() clock.Time { return f.now })}
		for range 2 {
			if !way.ride(b, 1, false, make([]byte, 5000)) {
				t.Fatal("it is refused")
			}
		}
		wantDoubt(t, f, a, 2)
	})
	t.Run("those behind one that fails by itself", func(t *testing.T) {
		f, a, _ := silent(t)
		failing := a.send("b/0", 1, 0, make([]byte, 10_000))
		f.until(time.Second, "that one has left", func() bool { return a.e.process(a.slot).sends[failing].frag.ID != 0 })
		for range 3 {
			a.wantSent(a.send("b/0", 1, 0, []byte("x")))
		}
		wantDoubt(t, f, a, 3)
		if c := a.finish(false, failing); c.Status != vni.StatusUnreachable {
			t.Errorf("%v", c.Status)
		}
	})
	t.Run("acknowledged ones behind one that was not", func(t *testing.T) {
		f, a, b := silent(t)
		e := a.e
		d := e.process(a.slot).dests[vni.Address{NIC: 2, Slot: b.slot, Gen: b.gen}]
		d.number += 10 // which have been acknowledged
		d.doubtFrom(d.number - 7)
		wantDoubt(t, f, a, 7)
	})
	t.Run("acknowledged ones behind one that has not ended", func(t *testing.T) {
		f, a, b := silent(t)
		failing := a.send("b/0", 1, 0, make([]byte, 10_000))
		f.until(time.Second, "that one has left", func() bool { return a.e.process(a.slot).sends[failing].frag.ID != 0 })
		// These have been acknowledged.
		a.e.process(a.slot).dests[vni.Address{NIC: 2, Slot: b.slot, Gen: b.gen}].number += 3
		wantDoubt(t, f, a, 3)
	})
	t.Run("all, if the name was not acknowledged", func(t *testing.T) {
		f, a, _ := silent(t)
		(*handler)(a.e).Lost(a.e.peerOf(2).ep, inTable(nameRecord(tableClaim, a.slot, a.gen, a.name, 1)))
		wantDoubt(t, f, a, 3)
	})
	t.Run("none, if all were acknowledged", func(t *testing.T) {
		f, a, _ := silent(t)
		a.e.peerOf(2).ep.Watch(1)
		wantDoubt(t, f, a, 0)
	})
}
