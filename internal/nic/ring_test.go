package nic

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// inbox is a ring that a process has posted, with the messages read from it.
type inbox struct {
	*tester
	ctx  int
	mem  []byte
	ring vni.RingReader
	got  []inboxItem
}

type inboxItem struct {
	data []byte
	tag  uint64
	full uint64
	from vni.Sender
}

const anything = 1 << 62

// gather posts a ring of room bytes for messages of up to most bytes.
func (p *tester) gather(from *tester, tag uint64, most, room int) *inbox {
	p.f.t.Helper()
	b := &inbox{tester: p, mem: vni.AlignedBytes((max(room, vni.RingSize(most)) + 63) &^ 63)}
	c := &vni.ReceiveContext{Tag: tag, Flags: vni.WantNotify, Len: uint64(len(b.mem)), PoolIndex: vni.NoPool, Size: 1, Most: uint64(most)}
	if tag == anything {
		c.Tag, c.Flags = 0, c.Flags|vni.AnyTag
	}
	if from != nil {
		c.Sender = from.name
	}
	b.postRing(c)
	return b
}

func (b *inbox) postRing(c *vni.ReceiveContext) {
	b.f.t.Helper()
	i, ok := b.v.TakeReceive()
	if !ok {
		b.f.t.Fatal("no receive context is free")
	}
	b.ctx = i
	b.ring.Open(b.v, i, b.mem)
	b.v.SetReceive(i, c)
	b.v.SetDirect(true, i, [][]byte{b.mem})
	b.post(vni.Command{Code: vni.CodeReceiveRing, Context: uint16(i)})
	b.f.until(time.Second, "the command is read", func() bool { return !b.e.process(b.slot).vni.Pending() })
}

// entry returns its receive in the NIC.
func (b *inbox) entry() *receive { return &b.e.process(b.slot).recvs[b.ctx] }

// next reads a message, if there is one.
func (b *inbox) next() bool {
	data, ok := b.ring.Next()
	if ok {
		b.got = append(b.got, inboxItem{slices.Clone(data), b.ring.Tag, max(uint64(len(data)), b.ring.Full), b.ring.From})
	}
	return ok
}

// read reads all messages that are there, and posts a Refill if the ring had no room.
func (b *inbox) read() int {
	for b.next() {
	}
	if b.ring.Stalled() {
		b.post(vni.Command{Code: vni.CodeRefill, Context: uint16(b.ctx), Size: vni.CancelReceive})
	}
	return len(b.got)
}

// reads waits until n messages have been read.
func (b *inbox) reads(n int) {
	b.f.t.Helper()
	b.f.until(10*time.Second, fmt.Sprint(n, " messages in a ring"), func() bool { return b.read() >= n })
}

// want compares the messages that were read with the expected ones.
func (b *inbox) want(want ...[]byte) {
	b.f.t.Helper()
	b.reads(len(want))
	for i := range max(len(want), len(b.got)) {
		switch {
		case i >= len(want):
			b.f.t.Fatalf("%d messages came, expected %d", len(b.got), len(want))
		case !bytes.Equal(b.got[i].data, want[i]):
			b.f.t.Fatalf("message %d came with %d bytes, %.8x; expected %d, %.8x", i, len(b.got[i].data), b.got[i].data, len(want[i]), want[i])
		}
	}
}

// close cancels the ring. Its unread messages go back.
func (b *inbox) close() {
	b.f.t.Helper()
	b.ring.Finish()
	b.post(vni.Command{Code: vni.CodeCancel, Context: uint16(b.ctx), Size: vni.CancelReceive})
	if c := b.finish(true, b.ctx); c.Status != vni.StatusCancelled {
		b.f.t.Fatalf("a closed ring ended with %v", c.Status)
	}
}

func TestARingTakesMessagesInTheirOrder(t *testing.T) { // USNIC-28
	straightPlaces(t, func(t *testing.T, f *fabric, a, b *rider) {
		w := b.gather(nil, anything, 4096, 0)
		var data [][]byte
		for i := range 400 { // several rounds of the ring
			data = append(data, pattern(i*7%300, byte(i)))
			a.mustRide(b.tester, uint64(100+i), false, data[i])
			w.reads(i / 10 * 10)
		}
		w.want(data...)
		for i, m := range w.got {
			if m.tag != uint64(100+i) || m.full != uint64(len(data[i])) || m.from != (vni.Sender{Name: a.name, NIC: 1, Slot: a.slot, Gen: a.gen}) {
				t.Fatalf("message %d has tag %d, from %+v", i, m.tag, m.from)
			}
		}
		if b.done(true, w.ctx) || b.e.Count(vni.NICPacked) != 400 {
			t.Errorf("done: %v; %d were packed", b.done(true, w.ctx), b.e.Count(vni.NICPacked))
		}
		w.close()
	})
}

func TestARingTellsWhoseEachMessageIs(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	c := f.process(1, "c/0")
	f.known("c/0")
	w := b.gather(nil, anything, 4096, 0)
	for i := range 6 {
		if i%3 == 0 {
			c.wantSent(c.send("b/0", 1, 0, []byte{byte(i)}))
		} else {
			a.mustRide(b.tester, 1, false, []byte{byte(i)})
		}
		w.reads(i + 1)
		if want := []*tester{c, a.tester, a.tester}[i%3]; w.got[i].from.Name != want.name || w.got[i].from.Slot != want.slot || w.got[i].data[0] != byte(i) {
			t.Errorf("message %d came as %+v", i, w.got[i])
		}
	}
	w.close()
	f.noLeaks()
}

func TestAMessageThatHasNoRoomWaitsAndComesNext(t *testing.T) { // decision 5
	straightPlaces(t, func(t *testing.T, f *fabric, a, b *rider) {
		w := b.gather(a.tester, 1, 100, 0)
		sizes := []int{40, 50, 30, 100, 1, 1, 1, 1, 1, 100, 101, 3, 90, 80, 70, 0, 0, 0, 0}
		var want [][]byte
		for i, n := range sizes {
			m := pattern(n, byte(i))
			a.mustRide(b.tester, 1, false, m)
			want = append(want, m[:min(n, 100)])
		}
		f.run(10 * time.Millisecond)
		if b.e.Count(vni.NICStalls) == 0 || w.entry().state != recvAside {
			t.Error("all had room")
		}
		w.want(want...)
		for i, n := range sizes {
			if w.got[i].full != uint64(n) {
				t.Errorf("message %d of %d bytes says that it had %d", i, n, w.got[i].full)
			}
		}
		w.close()
	})
}

func TestALongMessageComesIntoARingLikeAnyOther(t *testing.T) {
	straightPlaces(t, func(t *testing.T, f *fabric, a, b *rider) {
		w := b.gather(nil, anything, 200_000, 0)
		long, longer := pattern(150_000, 3), pattern(250_000, 4)
		s := a.send("b/0", 2, 0, long)
		a.mustRide(b.tester, 3, false, []byte("behind"))
		u := a.send("b/0", 2, vni.WantAccept, longer)
		v := a.send("b/0", 2, 0, long)
		w.want(long, []byte("behind"), longer[:200_000], long)
		if w.got[0].tag != 2 || w.got[2].full != 250_000 {
			t.Errorf("came as %d with tag %d, and of %d", w.got[0].full, w.got[0].tag, w.got[2].full)
		}
		a.wantSent(s)
		if c := a.finish(false, u); c.Status != vni.StatusTruncated {
			t.Errorf("its sender hears %v", c.Status)
		}
		a.wantSent(v)
		w.close()
	})
}

func TestARingTakesWhatWaitedAndWhatComesFromItsOwnNIC(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	c := f.process(1, "c/0")
	f.known("c/0")
	a.mustRide(b.tester, 1, false, []byte("first"))
	f.run(time.Millisecond)
	c.wantSent(c.send("b/0", 1, 0, []byte("second")))
	f.run(time.Millisecond)
	w := b.gather(nil, 1, 1<<20, 0)
	c.wantSent(c.send("b/0", 1, 0, []byte("third")))
	c.wantSent(c.send("b/0", 1, vni.WantAccept, []byte("fourth")))
	long := pattern(limits.StagedMessage+1, 1)
	s := c.send("b/0", 1, 0, long)
	w.want([]byte("first"), []byte("second"), []byte("third"), []byte("fourth"), long)
	c.wantSent(s)
	w.close()
	w = b.gather(nil, 1, 10, 0)
	if s := c.finish(false, c.send("b/0", 1, vni.WantAccept, long[:100])); s.Status != vni.StatusTruncated {
		t.Errorf("the sender of a message that is cut short hears %v", s.Status)
	}
	w.want(long[:10])
	w.close()
	f.noLeaks()
}

func TestWhatARingGivesBackIsReceivedBeforeAllThatCameLater(t *testing.T) { // decision 9
	straightPlaces(t, func(t *testing.T, f *fabric, a, b *rider) {
		for _, runs := range []bool{false, true} {
			w := b.gather(nil, anything, 4096, 0)
			send := func(texts ...string) {
				if !runs || len(texts) == 1 {
					for _, s := range texts {
						a.mustRide(b.tester, 1, false, []byte(s))
					}
					return
				}
				var messages [][]byte
				for _, s := range texts {
					messages = append(messages, []byte(s))
				}
				f.until(time.Second, "a run leaves", func() bool {
					n, _, _ := a.way.SendSome(&vni.StraightSend{To: b.name, Tag: 1}, messages)
					return n == len(messages)
				})
				a.way.Sent()
			}
			send("0", "1", "2", "3", "4")
			f.until(10*time.Second, "five", func() bool { return w.entry().ring.unread == 5 })
			f.until(time.Second, "the first", w.next)
			waiting := b.want(nil, 1, make([]byte, 1)) // behind the ring in the order of posting
			received, returned := b.e.Count(vni.NICMessagesReceived), b.e.Count(vni.NICReturned)
			w.close()
			b.got(waiting, []byte("1"))
			send("5")
			for i := 2; i <= 5; i++ {
				buf := make([]byte, 1)
				b.wantReceived(b.recv("a/0", 1, 0, buf), buf, []byte{'0' + byte(i)})
			}
			if n := b.e.Count(vni.NICMessagesReceived) - received; n != 1 {
				t.Errorf("%d messages were counted once more", n-1)
			}
			if n := b.e.Count(vni.NICReturned) - returned; n != 4 {
				t.Errorf("%d were returned", n)
			}
		}
	})
}

func TestAMessageThatIsOnItsWayIntoARingIsGivenBack(t *testing.T) {
	straightPlaces(t, func(t *testing.T, f *fabric, a, b *rider) {
		for _, room := range []int{200_000, 100_000} { // room for all of it, and for a part
			w := b.gather(nil, anything, room, 0)
			begun := func() bool { r := w.entry(); return r.coming() && r.ring.coming[0].inb.got > 0 }
			long := pattern(150_000, 3)
			s := a.send("b/0", 1, 0, long)
			f.until(10*time.Second, "a part of it", begun)
			w.close()
			buf := make([]byte, len(long))
			c := b.finish(true, b.recv("a/0", 1, 0, buf))
			want := vni.StatusOK
			if room < len(long) {
				want = vni.StatusTruncated
			}
			if n := min(room, len(long)); c.Status != want || c.Full != uint64(len(long)) || !bytes.Equal(buf[:c.Len], long[:n]) {
				t.Errorf("ended with %v, %d of %d bytes", c.Status, c.Len, c.Full)
			}
			a.wantSent(s)
		}
	})
}

// The second of two long messages is permitted, and arrives, while the first is on its way. A
// short message behind both waits for them in the ring.
func TestLongMessagesComeIntoARingSeveralAtATime(t *testing.T) { // USNIC-28
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	w := b.gather(nil, anything, 256<<10, 1<<20)
	messages := [][]byte{pattern(150_000, 1), pattern(180_000, 2), []byte("behind"), pattern(90_000, 4)}
	var sends []int
	for _, m := range messages {
		sends = append(sends, a.send("b/0", 1, 0, m))
	}
	f.until(10*time.Second, "three places", func() bool { return w.entry().coming() && len(w.entry().ring.coming) == 3 })
	if w.entry().state != recvPosted || w.read() != 0 || b.e.Limits() != nil {
		t.Errorf("the ring is in state %d, and %d were read; %v", w.entry().state, len(w.got), b.e.Limits())
	}
	w.want(messages...)
	for _, s := range sends {
		a.wantSent(s)
	}
	w.close()
	f.noLeaks()
}

// A message that is withdrawn on its way into a ring leaves a hole there. The reader passes over
// it, and the messages behind it are shown.
func TestAMessageThatIsWithdrawnOnItsWayIntoARingIsPassedOver(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	w := b.gather(nil, anything, 1<<20, 0)
	for i, at := range []int{0, 1} { // the first of those on their way, and one behind another
		messages := [][]byte{pattern(600_000, byte(i)), pattern(500_000, byte(i+10)), pattern(70_000, byte(i+20))}
		var sends []int
		for _, m := range messages {
			sends = append(sends, a.send("b/0", 1, 0, m))
		}
		f.until(10*time.Second, "their places", func() bool { return w.entry().coming() && len(w.entry().ring.coming) == 3 })
		a.tester.post(vni.Command{Code: vni.CodeCancel, Context: uint16(sends[at]), Size: vni.CancelSend})
		if c := a.finish(false, sends[at]); c.Status != vni.StatusCancelled {
			t.Fatalf("a cancelled send ended with %v", c.Status)
		}
		w.got = nil
		w.want(slices.Delete(messages, at, at+1)...)
		if err := b.e.Limits(); err != nil {
			t.Error(err)
		}
	}
	w.close()
	f.noLeaks()
}

// A ring is closed with several long messages on their way into it, and a short one behind each:
// all wait for receives again, in their order.
func TestAllThatIsOnItsWayIntoARingIsGivenBackInOrder(t *testing.T) { // decision 9
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	w := b.gather(nil, anything, 256<<10, 1<<20)
	messages := [][]byte{pattern(150_000, 1), []byte("one"), pattern(180_000, 2), []byte("two")}
	var sends []int
	for _, m := range messages {
		sends = append(sends, a.send("b/0", 1, 0, m))
	}
	f.until(10*time.Second, "all in their places", func() bool { return w.entry().ring.unread == len(messages) })
	w.close()
	for _, m := range messages {
		buf := make([]byte, len(m))
		b.wantReceived(b.recv("a/0", 1, 0, buf), buf, m)
	}
	for _, s := range sends {
		a.wantSent(s)
	}
	f.noLeaks()
}

// A closed ring with little room has given back a message of which it had kept only the beginning.
// Another ring gets no more than was kept, and once read, the message is not given back again.
func TestAMessageThatWasKeptInPartComesIntoAnotherRingOnce(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	w := b.gather(nil, anything, 100_000, 0)
	long := pattern(150_000, 3)
	s := a.send("b/0", 1, 0, long)
	f.until(10*time.Second, "a part of it", func() bool { return w.entry().coming() && w.entry().ring.coming[0].inb.got > 0 })
	w.close()
	returned := b.e.Count(vni.NICReturned)
	w = b.gather(nil, anything, 200_000, 0)
	w.want(long[:100_000])
	if w.got[0].full != uint64(len(long)) {
		t.Errorf("it says that it had %d bytes", w.got[0].full)
	}
	a.wantSent(s)
	w.close()
	if n := b.e.Count(vni.NICReturned) - returned; n != 0 || b.way.p.stray.n != 0 {
		t.Errorf("%d were given back, %d wait", n, b.way.p.stray.n)
	}
	f.noLeaks()
}

// The only sender of a ring dies with messages on their way into the ring: the ring ends when they
// have been given up.
func TestARingEndsBehindWhatIsOnItsWayIntoIt(t *testing.T) { // decision 7
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	w := b.gather(a.tester, anything, 1<<20, 0)
	a.wantSent(a.send("b/0", 1, 0, []byte("first")))
	a.send("b/0", 1, 0, pattern(700_000, 1))
	a.send("b/0", 1, 0, pattern(700_000, 2))
	f.until(10*time.Second, "their places", func() bool { return w.entry().coming() && len(w.entry().ring.coming) == 2 })
	a.exit()
	w.want([]byte("first"))
	if c := b.finish(true, w.ctx); c.Status != vni.StatusProcessGone {
		t.Errorf("ended with %v", c.Status)
	}
	f.noLeaks()
}

func TestALocalMessageOnItsWayIntoARingBeginsAgain(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	_, b := f.riders()
	c := f.process(1, "c/0")
	f.known("c/0")
	w := b.gather(nil, anything, 24<<20, 0)
	long := pattern(24<<20, 3) // more than one poll copies
	s := c.send("b/0", 1, 0, long)
	f.until(10*time.Second, "a part of it", func() bool { r := w.entry(); return r.coming() && r.ring.coming[0].inb.local.frag.Next > 0 })
	w.close()
	buf := make([]byte, len(long))
	b.wantReceived(b.recv("c/0", 1, 0, buf), buf, long)
	c.wantSent(s)
	f.noLeaks()
}

func TestWhatIsPutBackIsChargedToItsReceiverAsLongAsThereIsRoom(t *testing.T) { // QNIX-47
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	w := b.gather(nil, anything, 1<<20, 0)
	for range 20 {
		a.mustRide(b.tester, 1, false, make([]byte, 1000))
	}
	f.until(time.Second, "all", func() bool { return w.entry().ring.unread == 20 })
	p := b.way.p
	before := p.staged
	room := 10 * int(stagedCost(1000))
	b.e.cfg.StagingBytes = p.staged + p.credited + room // room for half of them
	w.close()
	if p.staged-before != room || p.rings != room || p.stray.n != 20 || b.e.Limits() != nil {
		t.Errorf("%d bytes are charged for %d messages, want %d, and %d beside; %v", p.staged-before, p.stray.n, room, p.rings, b.e.Limits())
	}
	for range 20 {
		buf := make([]byte, 1000)
		b.wantReceived(b.recv("a/0", 1, 0, buf), buf, make([]byte, 1000))
	}
	if p.staged != before || p.rings != 0 {
		t.Errorf("%d bytes are still charged, and %d beside", p.staged-before, p.rings)
	}
	f.noLeaks()
}

func TestARingEndsWithItsSenderAndKeepsWhatItHas(t *testing.T) { // decision 7
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	w := b.gather(a.tester, anything, 64, 0)
	var want [][]byte
	for i := range 12 { // more than fit
		want = append(want, pattern(60, byte(i)))
		a.mustRide(b.tester, 1, false, want[i])
	}
	f.run(time.Millisecond)
	a.exit()
	f.run(5 * time.Second)
	if b.done(true, w.ctx) || w.entry().state != recvAside {
		t.Error("it has ended, though messages wait for room in it")
	}
	w.want(want...)
	if c := b.finish(true, w.ctx); c.Status != vni.StatusProcessGone {
		t.Errorf("ended with %v", c.Status)
	}
	b.gather(nil, anything, 64, 0)
	b.exit()
	f.noLeaks()
}

// The messages that waited for a ring do not fit, so the ring is not posted before its sender's
// NIC is lost.
func TestARingThatWasNeverPostedEndsWithTheNICOfItsSender(t *testing.T) { // decision 7
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	var data [][]byte
	for i := range 5 {
		data = append(data, pattern(100, byte(i)))
		a.wantSent(a.send("b/0", 1, 0, data[i]))
	}
	f.until(time.Second, "the messages have come", func() bool { return b.e.process(b.slot).stray.n == len(data) })
	w := b.gather(a, 1, 100, 0)
	if w.entry().state != recvAside {
		t.Fatal("the ring has room for all")
	}
	f.kill(0)
	f.run(10 * time.Second)
	w.want(data...)
	if c := b.finish(true, w.ctx); c.Status != vni.StatusUnreachable {
		t.Errorf("the ring ended with %v", c.Status)
	}
}

// The process that a ring names has already ended, and its messages do not fit the ring.
func TestARingOfAProcessThatHasEndedEndsWhenAllIsRead(t *testing.T) { // decision 7
	eachPlace(t, func(t *testing.T, f *fabric, a, b *tester) {
		from := vni.ReceiveContext{NIC: a.e.ID(), Slot: a.slot, Gen: a.gen}
		var data [][]byte
		for i := range 5 {
			data = append(data, pattern(100, byte(i)))
			a.wantSent(a.send("b/0", 1, 0, data[i]))
		}
		f.until(time.Second, "the messages have come", func() bool { return b.e.process(b.slot).stray.n == len(data) })
		a.exit()
		f.run(time.Second)
		w := &inbox{tester: b, mem: vni.AlignedBytes(448)}
		from.Tag, from.Flags, from.PoolIndex, from.Size, from.Most, from.Len = 1, vni.WantNotify, vni.NoPool, 1, 100, uint64(len(w.mem))
		if w.postRing(&from); w.entry().state != recvAside {
			t.Fatal("the ring has room for all")
		}
		w.want(data...)
		if c := b.finish(true, w.ctx); c.Status != vni.StatusProcessGone {
			t.Errorf("the ring ended with %v", c.Status)
		}
	})
}

func TestARingThatCannotBeIsRefused(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	_, b := f.riders()
	for what, change := range map[string]func(c *vni.ReceiveContext){
		"for messages that it cannot hold": func(c *vni.ReceiveContext) { c.Most = 1 << 10 },
		"for endless messages":             func(c *vni.ReceiveContext) { c.Most = 1 << 63 },
		"of replies":                       func(c *vni.ReceiveContext) { c.Flags |= vni.IsReply },
	} {
		w := &inbox{tester: b.tester, mem: vni.AlignedBytes(1024)}
		c := &vni.ReceiveContext{Flags: vni.WantNotify, Len: 1024, PoolIndex: vni.NoPool, Size: 1, Most: 64}
		change(c)
		w.postRing(c)
		if c := b.finish(true, w.ctx); c.Status != vni.StatusBadArgument {
			t.Errorf("a ring %s ends with %v", what, c.Status)
		}
	}
	f.noLeaks()
}

func TestAProcessThatReadsMoreOfARingThanThereIsIsThrownOut(t *testing.T) { // decision 10
	for what, lie := range map[string]func(w *inbox){
		"beyond the end":      func(w *inbox) { w.v.SetConsumed(w.ctx, w.v.Produced(w.ctx)+16, 0) },
		"back":                func(w *inbox) { w.v.SetConsumed(w.ctx, w.v.Produced(w.ctx)-1<<20, 0) },
		"more than one has":   func(w *inbox) { w.v.SetConsumed(w.ctx, 0, 1) },
		"a length over a run": func(w *inbox) { w.mem[64+16] = 0xff; w.v.SetConsumed(w.ctx, 64, 0) },
		"its second length":   func(w *inbox) { w.mem[64+16+2] = 0xff; w.v.SetConsumed(w.ctx, 64, 0) },
	} {
		f := newFabric(t, 2, fault.Config{})
		a, b := f.riders()
		w := b.gather(nil, anything, 64, 0)
		f.until(time.Second, "a run leaves", func() bool {
			n, _, _ := a.way.SendSome(&vni.StraightSend{To: b.name, Tag: 1}, [][]byte{{1}, {2}})
			return n == 2
		})
		a.way.Sent()
		f.until(time.Second, "it comes", func() bool { return w.entry().ring.unread == 2 })
		if what == "more than one has" {
			lie = func(w *inbox) { w.v.SetConsumed(w.ctx, 0, 2) }
		}
		lie(w)
		w.post(vni.Command{Code: vni.CodeCancel, Context: uint16(w.ctx), Size: vni.CancelReceive})
		f.until(time.Second, "it is thrown out: "+what, func() bool { return b.v.Gone() == vni.StatusDetached })
		if err := b.e.Limits(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		b.e.TakeDetached()
		b.exit()
		f.noLeaks()
	}
}

func TestARingAllocatesNothing(t *testing.T) { // decision 16
	for _, pl := range []fault.Config{{}, {Seed: 1}} {
		f := newFabric(t, 2, pl)
		a, b := f.riders()
		w := b.gather(a.tester, 1, 4096, 0)
		msg := make([]byte, 64)
		turn := func() {
			for !a.ride(b.tester, 1, false, msg) {
				f.step()
			}
			for {
				if _, ok := w.ring.Next(); ok {
					break
				}
				f.step()
			}
		}
		for range 5000 {
			turn()
		}
		if n := testing.AllocsPerRun(1000, turn); n != 0 {
			t.Errorf("%v allocations a message", n)
		}
	}
}

// assorted returns a hundred short messages, one of which goes by the other channel.
func assorted() [][]byte {
	messages := make([][]byte, 100)
	for i := range messages {
		messages[i] = pattern(i%70, byte(i))
	}
	messages[60] = pattern(limits.TinyMessage+1, 60)
	return messages
}

func TestManyMessagesShareFramesOfALinkThatKeepsNone(t *testing.T) { // USNIC-28
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	w := b.gather(nil, anything, 1<<20, 0)
	m, messages := &vni.StraightSend{To: b.name, Tag: 5}, assorted()
	frames, sends := a.e.Count(vni.LinkFramesOut), a.e.Count(vni.NICStraightSends)
	var lots []int
	for sent := 0; sent < len(messages); {
		n, _, _ := a.way.SendSome(m, messages[sent:])
		if n == 0 {
			t.Fatalf("refused after %v", lots)
		}
		sent += n
		lots = append(lots, n)
	}
	w.want(messages...)
	if n := int(a.e.Count(vni.LinkFramesOut) - frames); n < len(lots) || n > len(lots)+10 || len(lots) > 20 || a.e.Count(vni.NICStraightSends)-sends != 100 {
		t.Errorf("%d frames, %v; %d were counted", n, lots, a.e.Count(vni.NICStraightSends)-sends)
	}
	for _, bad := range [][]byte{make([]byte, limits.StagedMessage+1), make([]byte, 1473)} {
		if n, _, _ := a.way.SendSome(m, [][]byte{bad}); n != 0 {
			t.Errorf("%d bytes went in a frame of 1,472", len(bad))
		}
	}
	total := 0
	for n := 1; n > 0; total += n { // until credit is spent
		n, _, _ = a.way.SendSome(m, messages[:60])
	}
	if total == 0 || total > limits.CreditBytes/limits.StagedOverhead {
		t.Errorf("%d messages went on credit", total)
	}
	w.close()
	f.noLeaks()
	lossy := newFabric(t, 2, fault.Config{Seed: 1})
	c, d := lossy.riders()
	if n, held, _ := c.way.SendSome(&vni.StraightSend{To: d.name}, messages); n == 0 || !held {
		t.Errorf("%d messages went by a frame of a link that may lose it, or not at all", n)
	}
}

func TestManyMessagesShareSegmentsOfALinkThatMayLoseThem(t *testing.T) { // USNIC-28, decision 5
	f := newFabric(t, 2, fault.Config{Seed: 1})
	a, b := f.riders()
	w := b.gather(nil, anything, 1<<20, 0)
	m, messages := &vni.StraightSend{To: b.name, Tag: 5}, assorted()
	posted, sends := a.e.Count(vni.RelSends), a.e.Count(vni.NICStraightSends)
	var lots []int
	for sent := 0; sent < len(messages); {
		n, _, enough := a.way.SendSome(m, messages[sent:])
		if n == 0 || enough != (sent+n >= limits.HeldMessages) {
			t.Fatalf("%d messages went, behind %v; enough: %v", n, lots, enough)
		}
		sent += n
		lots = append(lots, n)
	}
	a.way.Sent()
	w.want(messages...)
	if n := int(a.e.Count(vni.RelSends) - posted); n == 0 || n > len(lots)+10 || len(lots) > 20 || a.e.Count(vni.NICStraightSends)-sends != 100 {
		t.Errorf("%d segments, %v; %d messages were counted", n, lots, a.e.Count(vni.NICStraightSends)-sends)
	}
	long := pattern(limits.CopiedMessage+1, 9)
	segments := a.e.Ways()[WayRunSegment]
	if n, _, _ := a.way.SendSome(m, [][]byte{long}); n != 1 || a.e.Ways()[WayRunSegment] != segments || a.e.Ways()[WayRunKept] != 1 {
		t.Errorf("%d messages that are too long to copy into a segment went; in segments: %d", n, a.e.Ways()[WayRunSegment]-segments)
	}
	a.way.Sent()
	w.want(append(messages[:len(messages):len(messages)], long)...)
	for lots = nil; ; {
		n, _, enough := a.way.SendSome(m, messages[:60])
		if lots = append(lots, n); n == 0 || enough {
			break
		}
	}
	total := 0
	for _, n := range lots {
		total += n
	}
	if lots[len(lots)-1] > 0 && total < limits.HeldMessages { // else credit or the window was spent
		t.Errorf("%v are held, and called enough; expected %d", lots, limits.HeldMessages)
	}
	a.way.Sent()
	w.reads(len(messages) + 1 + total)
	w.close()
	f.noLeaks()
}

// A ring is cancelled while a message of this NIC is on its way into it that cannot start again.
// Then its process breaks the ring, and the message arrives completely. The process is detached,
// and nothing of the receive is looked at later.
func TestARingThatIsBrokenBehindItsCancelEndsItsProcessAlone(t *testing.T) {
	f := newFabric(t, 1, fault.Config{})
	a, b := f.describer(0, "a/0", 30_000), f.process(0, "b/0")
	f.known("a/0", "b/0")
	w := b.gather(nil, anything, 30_000, 0)
	s := a.sendPieces(b.name, 1, 0, a.cut(30_000, 1000))
	p := a.e.process(a.slot)
	f.until(time.Second, "some of it is consumed", func() bool {
		s.refill()
		rf := p.sends[s.ctx].refill
		return rf != nil && rf.consumed > 0
	})
	w.post(vni.Command{Code: vni.CodeCancel, Context: uint16(w.ctx), Size: vni.CancelReceive})
	f.until(time.Second, "the cancel waits for the message", func() bool { return w.entry().recall })
	w.v.SetConsumed(w.ctx, w.v.Produced(w.ctx)+1<<40, 0)
	f.until(time.Second, "the process is thrown out", func() bool { s.refill(); return b.v.Gone() == vni.StatusDetached })
	f.run(2 * limits.RecallPatience)
	b.e.TakeDetached()
	b.exit()
	a.exit()
	f.noLeaks()
}

// A message on its way into a ring stays in its place there, however much is read meanwhile.
func TestAMessageComesToItsPlaceInARingThatIsReadMeanwhile(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	w := b.gather(nil, anything, 256<<10, 0)
	for i, n := range []int{50_000, 40_000} { // as much as stays in the caches
		s := a.send("b/0", 1, 0, pattern(n, byte(i)))
		w.reads(i + 1)
		a.wantSent(s)
	}
	a.wantSent(a.send("b/0", 1, 0, pattern(100, 9)))
	f.until(time.Second, "a short message lies in the ring", func() bool { return w.entry().ring.unread > 0 })
	long := pattern(70_000, 3)
	s := a.send("b/0", 1, 0, long)
	f.until(time.Second, "a long one has its place", func() bool { return w.entry().coming() })
	w.reads(3)
	if err := w.entry().ring.look(); err != nil { // every publish does this if the reader is fast
		t.Fatal(err)
	}
	w.reads(4)
	a.wantSent(s)
	if !bytes.Equal(w.got[3].data, long) {
		t.Errorf("the long message is damaged: it begins with %x", w.got[3].data[:8])
	}
}

// sendRun posts a run by one command and returns its context.
func (p *tester) sendRun(to string, tag uint64, messages [][]byte) int {
	p.f.t.Helper()
	n, err := vni.ParseName(to)
	if err != nil {
		p.f.t.Fatal(err)
	}
	var lengths, data []byte
	for _, m := range messages {
		lengths = append(lengths, byte(len(m)), byte(len(m)>>8))
		data = append(data, m...)
	}
	return p.startSized(vni.CodeSendRun, uint32(len(messages)), &vni.SendContext{Receiver: n, Tag: tag, Flags: vni.WantNotify}, append(lengths, data...))
}

// Within one NIC as between two, a run goes into a ring whole, and its sender learns how many
// messages have left.
func TestARunByOneCommandGoesIntoARing(t *testing.T) { // USNIC-28
	for _, pl := range places {
		t.Run(pl.name, func(t *testing.T) {
			f := newFabric(t, pl.nics, pl.faults)
			a, b := f.rider(0, "a/0"), f.rider(pl.nics-1, "b/0")
			f.met(a, b)
			w := b.gather(nil, 5, 4096, 1<<20)
			messages := assorted()
			for range 3 {
				c := a.finish(false, a.sendRun("b/0", 5, messages))
				if c.Status != vni.StatusOK || c.Len != uint64(len(messages)) {
					t.Fatalf("%d of %d messages have left, %v", c.Len, len(messages), c.Status)
				}
			}
			w.want(slices.Concat(messages, messages, messages)...)
			if w.got[0].from.Name != a.name || w.got[0].tag != 5 {
				t.Errorf("they came as %+v", w.got[0])
			}
			w.close()
			f.noLeaks()
		})
	}
}

func TestMessagesOfSeveralFramesGoInARunByOneCommand(t *testing.T) {
	for _, loss := range []float64{0, 0.3} {
		f := newFabric(t, 2, fault.Config{Seed: 1, Loss: loss})
		a, b := f.riders()
		w := b.gather(nil, 5, 4096, 1<<20)
		var messages [][]byte
		for i := range 6 {
			messages = append(messages, pattern(100, byte(i)), pattern(1500+i*100, byte(i)))
		}
		asked := a.e.Count(vni.NICRequests)
		for range 3 { // more than the initial credit
			c := a.finish(false, a.sendRun("b/0", 5, messages))
			if c.Status != vni.StatusOK || c.Len != uint64(len(messages)) {
				t.Fatalf("%d of %d messages have left, %v", c.Len, len(messages), c.Status)
			}
		}
		w.want(slices.Concat(messages, messages, messages)...)
		if kept, asked := a.e.Ways()[WayRunKept], a.e.Count(vni.NICRequests)-asked; kept != 18 || asked > 0 {
			t.Errorf("%d messages were kept, and %d permissions asked for", kept, asked)
		}
		w.close()
		f.noLeaks()
	}
}

func TestARunThatCannotBeIsRefusedAndNothingOfItLeaves(t *testing.T) { // decision 10
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	for what, c := range map[string]struct {
		count uint32
		mem   []byte
	}{
		"lengths beyond its memory":    {3, []byte{1, 0}},
		"more bytes than it has":       {2, []byte{1, 0, 2, 0, 7, 7}},
		"fewer bytes than it has":      {2, []byte{1, 0, 1, 0, 7, 7, 7}},
		"no message":                   {0, []byte{7}},
		"more messages than one has":   {limits.RunMessages + 1, make([]byte, 2*limits.RunMessages+2)},
		"a message that is not copied": {1, append([]byte{1, 8}, make([]byte, limits.CopiedMessage+1)...)},
	} {
		i := a.startSized(vni.CodeSendRun, c.count, &vni.SendContext{Receiver: b.name, Flags: vni.WantNotify}, c.mem)
		if d := a.finish(false, i); d.Status != vni.StatusBadArgument || d.Len != 0 && d.Len != uint64(len(c.mem)) {
			t.Errorf("a run with %s ends with %v", what, d.Status)
		}
	}
	f.run(time.Millisecond)
	if n := b.way.p.stray.n; n != 0 {
		t.Errorf("%d messages came", n)
	}
	f.noLeaks()
}
