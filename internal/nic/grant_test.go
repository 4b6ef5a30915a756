package nic

import (
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

func TestSendersThatStallKeepNobodyElseWaiting(t *testing.T) { // decision 8: overcommit
	f := newFabric(t, 3, fault.Config{})
	a, b, d := f.process(0, "a/0"), f.process(1, "b/0"), f.process(2, "d/0")
	f.known("a/0", "b/0", "d/0")
	c := &crafted{t: t, f: f, a: a, b: b, pr: b.e.peerOf(1)}
	f.engines = f.engines[1:] // a's NIC asks, and then sends nothing
	for i := range uint32(6) {
		b.recv("a/0", 1, 0, make([]byte, 1<<20))
		c.request(c.env(1+i, 0, 1), wire.FragmentID(1+i), 1<<20)
	}
	b.e.Poll(f.now)
	if got := b.e.grants.outstanding; b.e.grants.room() >= limits.GrantBytes || b.e.grants.waiting.n == 0 {
		t.Fatalf("%d bytes are permitted, %d messages wait for permission", got, b.e.grants.waiting.n)
	}
	data, buf := pattern(300_000, 1), make([]byte, 300_000)
	r := b.recv("d/0", 2, 0, buf)
	s := d.send("b/0", 2, 0, data)
	f.until(time.Second, "the message of another", func() bool { return b.done(true, r) })
	b.wantReceived(r, buf, data)
	d.wantSent(s)
	f.run(4 * time.Second) // a's NIC is given up
	if got := b.e.grants.outstanding; got != 0 {
		t.Errorf("%d bytes are still permitted", got)
	}
}

// When the patience with a sender ends, no other event need happen at the receiver's NIC.
func TestTheEndOfPatienceWithASilentSenderIsPolledFor(t *testing.T) { // decision 8: overcommit
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	c := &crafted{t: t, f: f, a: a, b: b, pr: b.e.peerOf(1)}
	f.engines = f.engines[1:] // a's NIC asks, and then sends nothing
	for i := range uint32(6) {
		b.recv("a/0", 1, 0, make([]byte, 1<<20))
		c.request(c.env(1+i, 0, 1), wire.FragmentID(1+i), 1<<20)
	}
	_, next := b.e.Poll(f.now)
	for ; next <= f.now; f.now = f.now.Add(time.Microsecond) {
		_, next = b.e.Poll(f.now)
	}
	if g := &b.e.grants; g.waiting.n == 0 || next > g.holders.front().patience() {
		t.Errorf("%d messages wait for permission, and nothing is looked at before %d; the sender's patience ends at %d", g.waiting.n, next, g.holders.front().patience())
	}
}

func TestAReplyThatComesTooLateIsNotAccepted(t *testing.T) { // decision 6
	eachPlace(t, func(t *testing.T, f *fabric, a, b *tester) {
		for _, n := range []int{10, 5000, 50_000} {
			a.wantSent(a.send("b/0", 1, vni.WantAccept, nil))
			if c := a.finish(false, a.send("b/0", 7, vni.IsReply|vni.WantAccept, pattern(n, 1))); c.Status != vni.StatusCancelled {
				t.Errorf("a late reply of %d bytes ended with %v", n, c.Status)
			}
			buf := make([]byte, n)
			b.wantReceived(b.recv("a/0", 1, 0, buf), buf, nil)
			r := b.recv("a/0", 7, vni.IsReply, buf)
			f.settle() // as in practice: posted before the call
			a.wantSent(a.send("b/0", 7, vni.IsReply|vni.WantAccept, pattern(n, 1)))
			b.wantReceived(r, buf, pattern(n, 1))
		}
	})
}

// asking holds a granter, and messages for which NICs ask for permission.
type asking struct {
	e    *Engine
	g    *granter
	pr   []*peer
	want map[*inbound]string
}

func newAsking(t *testing.T, nics int, capacity uint64) *asking {
	f := newFabric(t, 0, fault.Config{})
	for i := range nics + 1 {
		e := f.addNIC(uint64(i+1), 1, fault.Config{Seed: 1}, func(c *Config) { c.ReceiveCapacity = capacity })
		if err := e.AddNode(1, mem.Address(1)); i > 0 && err != nil {
			t.Fatal(err)
		}
	}
	f.until(time.Second, "all pairs are open", func() bool { return len(f.engines[0].peers.list) == nics })
	a := &asking{e: f.engines[0], g: &f.engines[0].grants, pr: f.engines[0].peers.list, want: map[*inbound]string{}}
	a.e.now = f.now
	return a
}

func (a *asking) ask(nic int, name string, length uint64) *inbound {
	inb := a.e.newInbound(nil, &wire.Envelope{}, inboundPut, length)
	inb.peer, inb.id = a.pr[nic], 1
	a.want[inb] = name
	a.g.waiting.pushBack(&inb.grant)
	return inb
}

func (a *asking) come(inb *inbound, n uint64) {
	inb.got += n
	a.g.settle(a.e.now, inb, n)
}

func (a *asking) check(t *testing.T, want uint64) {
	t.Helper()
	if err := a.g.limits(a.e); err != nil || a.g.outstanding != want {
		t.Errorf("%d bytes are outstanding, want %d; %v", a.g.outstanding, want, err)
	}
}

func TestNoMoreIsPermittedThanTheLinkCanTakeIn(t *testing.T) { // decision 8
	a := newAsking(t, 3, 400_000)
	var all []*inbound
	for i := range 9 {
		all = append(all, a.ask(i%3, "", 1<<20))
	}
	for range 1000 {
		a.g.run(a.e)
		if err := a.g.limits(a.e); err != nil || a.g.outstanding > 300_000 || a.g.waiting.n > 0 && a.g.room() >= a.g.bound/limits.GrantShare {
			t.Fatalf("%d bytes of 300,000 are outstanding; %v", a.g.outstanding, err)
		}
		for _, inb := range all {
			if n := min(inb.limit-inb.got, 10_000); n > 0 {
				a.come(inb, n)
			}
		}
	}
	if a.g.waiting.n != 0 || a.g.outstanding != 0 {
		t.Errorf("in the end %d messages wait, and %d bytes are outstanding", a.g.waiting.n, a.g.outstanding)
	}
}

func TestALinkThatLosesNothingAndHasMuchRoomIsPermittedMore(t *testing.T) {
	f := emptyFabric(t)
	for _, c := range []struct{ capacity, bound uint64 }{{0, limits.GrantedBytes}, {4 * limits.GrantedBytes, 4 * limits.GrantedBytes}} {
		e := f.addNIC(1, 1, fault.Config{}, func(cfg *Config) { cfg.ReceiveCapacity = c.capacity })
		if g := &e.grants; g.bound != c.bound || g.most() != c.bound/limits.GrantShare || g.first() != g.most() {
			t.Errorf("with room for %d bytes, it permits %d, of them %d at once, and %d to a GET; expected %d and a share of that",
				c.capacity, g.bound, g.most(), g.first(), c.bound)
		}
	}
}

func TestPermissionEndsWhereABatchOfFramesDoes(t *testing.T) {
	a := newAsking(t, 1, 10<<20)
	inb := a.ask(0, "", 1<<20)
	frame := uint64(inb.peer.ep.PieceLen(wire.TypeChunk))
	batch := limits.StageBytes / (frame + wire.ChunkLen + wire.Overhead) * frame
	for inb.limit < inb.length {
		before := inb.limit
		a.g.run(a.e)
		if inb.limit < inb.length && inb.limit%batch != 0 || inb.limit == before {
			t.Fatalf("permitted up to %d of %d, after %d; a batch is %d", inb.limit, inb.length, before, batch)
		}
		a.come(inb, inb.limit-inb.got)
	}
	for _, c := range []struct{ n, want uint64 }{{frame - 1, frame - 1}, {2*frame + 5, 2 * frame}, {batch + frame, batch}} {
		if got := inb.inBatches(c.n); got != c.want {
			t.Errorf("%d bytes are cut to %d, want %d", c.n, got, c.want)
		}
	}
}

func TestTheShortestIsPermittedFirstAndEveryEighthTimeTheOldest(t *testing.T) { // decision 8
	a := newAsking(t, 1, 10<<20)
	old := a.ask(0, "old", 100_000)
	order := ""
	for i := range 15 {
		short := a.ask(0, "", 1000)
		if n := a.g.pick(); n == old {
			order += "o"
		} else if n == short {
			order += "."
		} else {
			t.Fatalf("neither the shortest nor the oldest was picked the %dth time", i)
		}
		short.grant.remove()
	}
	if order != ".......o......." {
		t.Errorf("the oldest was picked as in %q", order)
	}
}

func TestANICThatIsAloneIsPermittedHalfAtATime(t *testing.T) {
	a := newAsking(t, 2, 4*limits.GrantedBytes)
	half, share := a.g.bound/2, a.g.bound/limits.GrantShare
	own := a.ask(0, "", 64<<20)
	a.g.run(a.e)
	if own.limit <= half || own.limit > a.g.bound {
		t.Fatalf("%d bytes are permitted at first, want two halves of %d", own.limit, a.g.bound)
	}
	before := own.limit
	a.come(own, share)
	a.g.run(a.e)
	a.check(t, before-share) // not yet
	a.come(own, share)
	a.g.run(a.e)
	if got := own.limit - before; got <= share || got > half {
		t.Errorf("%d bytes more are permitted once half has come, want up to %d", got, half)
	}
	other := a.ask(1, "", 64<<20)
	a.come(own, half)
	a.g.run(a.e)
	for nic, pr := range a.pr {
		if got := a.g.share(pr); other.limit == 0 || got != share {
			t.Errorf("NIC %d is permitted %d bytes at a time while two want some, and the second has %d; want %d", nic, got, other.limit, share)
		}
	}
}

func TestSlowNICsLeaveTheOthersRoom(t *testing.T) { // decision 8: overcommit
	a := newAsking(t, 3, 400_000)
	for range 4 {
		a.ask(0, "", 1<<20)
	}
	a.ask(1, "", 2<<20)
	a.g.run(a.e)
	if a.pr[1].granted == 0 {
		t.Errorf("a NIC has all, %d bytes, and another waits", a.pr[0].granted)
	}
	late := a.ask(2, "", 60_000)
	a.g.run(a.e)
	if late.limit != 0 {
		t.Fatalf("%d bytes were permitted beyond the bound", late.limit)
	}
	if next := a.g.next(); next <= a.e.now || next > a.e.now.Add(time.Second) {
		t.Fatalf("the granter wants to be called in %v", next.Sub(a.e.now))
	}
	held := a.g.outstanding
	a.e.now = a.e.now.Add(time.Second) // neither NIC has sent anything
	a.g.run(a.e)
	grant := late.inBatches(limits.GrantBytes)
	// Another message of the first NIC has got permission: perhaps only its other messages stall.
	a.check(t, 60_000+grant)
	if a.pr[0].granted != grant {
		t.Errorf("the NIC that owes is permitted %d bytes more, want one grant", a.pr[0].granted)
	}
	if late.limit != 60_000 || a.pr[0].writtenOff+a.pr[1].writtenOff != held {
		t.Errorf("%d bytes permitted, %d and %d written off of %d", late.limit, a.pr[0].writtenOff, a.pr[1].writtenOff, held)
	}
}

func TestWhatIsWrittenOffMayStillCome(t *testing.T) {
	a := newAsking(t, 2, 400_000)
	slow := a.ask(0, "", 1<<20)
	a.g.run(a.e)
	had := slow.limit
	quick := a.ask(1, "", 1<<20)
	a.e.now = a.e.now.Add(time.Second)
	a.g.run(a.e)
	a.check(t, quick.limit)
	a.come(slow, had-1)
	a.g.run(a.e)
	if slow.limit != had {
		t.Errorf("%d bytes more are permitted, though one is still owed", slow.limit-had)
	}
	a.come(quick, quick.limit-quick.got)
	a.come(slow, 1)
	a.g.run(a.e)
	a.check(t, slow.limit-slow.got+quick.limit-quick.got)
	if slow.limit == had {
		t.Error("all has come, and nothing more is permitted")
	}
}

func TestAnIncastOverrunsNoLinkAndStarvesNobody(t *testing.T) { // decision 8
	const senders, size = 15, 1 << 20
	f := newFabric(t, 0, fault.Config{})
	for id := range uint64(senders + 2) {
		e := f.addNIC(id+1, 1, fault.Config{Seed: 1}, func(c *Config) { c.ReceiveCapacity = 1 << 20 })
		if err := e.AddNode(1, mem.Address(1)); id > 0 && err != nil {
			t.Fatal(err)
		}
	}
	sink, short := f.process(0, "sink/0"), f.process(senders+1, "short/0")
	names := []string{"sink/0", "short/0"}
	var all []*tester
	for i := range senders {
		names = append(names, fmt.Sprintf("s/%d", i))
		all = append(all, f.process(i+1, names[len(names)-1]))
	}
	f.known(names...)
	data, buf := pattern(size, 1), make([]byte, size)
	var sends, receives []int
	for _, s := range all {
		receives = append(receives, sink.recv("", 1, 0, buf))
		sends = append(sends, s.send("sink/0", 1, 0, data))
	}
	done := func() (n int) {
		for i, s := range all {
			if s.done(false, sends[i]) {
				n++
			}
		}
		return n
	}
	for trips := 0; done() < senders; trips++ {
		hello := make([]byte, 64)
		r := sink.recv("short/0", 2, 0, hello)
		s := short.send("sink/0", 2, 0, hello)
		before := f.now
		f.until(time.Second, "a short message", func() bool {
			if err := f.engines[0].Limits(); err != nil {
				t.Fatal(err)
			}
			return sink.done(true, r)
		})
		if took := f.now.Sub(before); took > 5*time.Millisecond {
			t.Fatalf("short message %d took %v of virtual time", trips, took)
		}
		sink.finish(true, r)
		short.wantSent(s)
		if trips > 1_000_000 {
			t.Fatal("the long messages do not end")
		}
	}
	for i, s := range all {
		s.wantSent(sends[i])
		sink.finish(true, receives[i])
	}
	for _, e := range f.engines {
		if n := e.Count(vni.LinkDroppedIn) + e.Count(vni.LinkDroppedOut); n > 0 {
			t.Errorf("NIC %d: %d frames had no room", e.ID(), n)
		}
	}
	f.noLeaks()
}
