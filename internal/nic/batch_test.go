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

// gather posts a receive into a batch.
func (p *rider) gather(from *tester, tag uint64, bytes, messages int) *vni.StraightReceive {
	p.f.t.Helper()
	w := &vni.StraightReceive{Tag: tag, AnyTag: tag == anything, Batch: vni.NewBatch(bytes, messages)}
	if from != nil {
		w.From = from.name
	}
	p.repostBatch(w)
	return w
}

const anything = 1 << 62

func (p *rider) repostBatch(w *vni.StraightReceive) {
	p.f.t.Helper()
	p.f.until(time.Second, "the straight way takes a receive", func() bool { _, ok := p.way.Receive(w); return ok })
}

// wantBatch holds what a batch has against the messages that should be in it.
func wantBatch(t *testing.T, b *vni.Batch, want ...[]byte) {
	t.Helper()
	var got, expected []string
	for i := range b.Items {
		got = append(got, fmt.Sprintf("%d:%x", len(b.Payload(i)), b.Payload(i)[:min(8, len(b.Payload(i)))]))
	}
	for _, w := range want {
		expected = append(expected, fmt.Sprintf("%d:%x", len(w), w[:min(8, len(w))]))
	}
	if !slices.Equal(got, expected) {
		t.Fatalf("the batch has %v, expected %v", got, expected)
	}
	for i, w := range want {
		if !bytes.Equal(b.Payload(i), w) {
			t.Fatalf("message %d of %d bytes is damaged", i, len(w))
		}
	}
}

func TestABatchTakesMessagesInTheirOrderUntilItIsSwapped(t *testing.T) { // USNIC-28
	straightPlaces(t, func(t *testing.T, f *fabric, a, b *rider) {
		w := b.gather(nil, anything, 4096, 100)
		if b.way.Swap(w, vni.NewBatch(4096, 100)) != nil || w.Some() {
			t.Error("an empty batch was swapped")
		}
		var data [][]byte
		for i := range 10 {
			data = append(data, pattern(i*20, byte(i)))
			a.mustRide(b.tester, uint64(100+i), false, data[i])
		}
		packed := func(n int) func() bool { return func() bool { return len(w.Batch.Items) == n } }
		f.until(10*time.Second, "ten messages", packed(10))
		if !w.Some() || w.Done() {
			t.Errorf("some %v, done %v", w.Some(), w.Done())
		}
		other := vni.NewBatch(4096, 100)
		taken := b.way.Swap(w, other)
		wantBatch(t, taken, data...)
		for i, it := range taken.Items {
			if s := taken.Sources[it.Source]; it.Tag != uint64(100+i) || s.From != a.name || s.NIC != 1 || s.Slot != a.slot || s.Gen != a.gen {
				t.Errorf("message %d has tag %d, from %+v", i, it.Tag, s)
			}
		}
		if w.Some() || w.Batch != other {
			t.Errorf("some %v; it goes on with another batch: %v", w.Some(), w.Batch == other)
		}
		a.mustRide(b.tester, 1, false, []byte("more"))
		f.until(10*time.Second, "one more", packed(1))
		wantBatch(t, other, []byte("more"))
		b.way.Cancel(f.now, w)
		if !w.Done() || w.Result.Status != vni.StatusCancelled {
			t.Errorf("done %v, %v", w.Done(), w.Result.Status)
		}
		wantBatch(t, other, []byte("more"))
	})
}

func TestAMessageThatHasNoRoomEndsTheBatchAndComesNext(t *testing.T) { // decision 5
	straightPlaces(t, func(t *testing.T, f *fabric, a, b *rider) {
		w := b.gather(a.tester, 1, 100, 4)
		sizes := []int{40, 50, 30, 100, 1, 1, 1, 1, 1, 100, 101, 3}
		for i, n := range sizes {
			a.mustRide(b.tester, 1, false, pattern(n, byte(i)))
		}
		var got []int
		for len(got) < len(sizes) {
			f.until(10*time.Second, "a batch", func() bool { return w.Done() || len(got)+len(w.Batch.Items) == len(sizes) })
			for i := range w.Batch.Items {
				p := w.Batch.Payload(i)
				if want := pattern(sizes[len(got)], byte(len(got))); !bytes.Equal(p, want[:min(len(want), 100)]) {
					t.Fatalf("after %v came %d bytes, expected %d", got, len(p), len(want))
				}
				got = append(got, len(p))
			}
			if w.Done() {
				if s := w.Result.Status; s != vni.StatusOK && (s != vni.StatusTruncated || w.Result.Full != 101 || got[len(got)-1] != 100) {
					t.Errorf("ended with %+v after %v", w.Result, got)
				}
				b.repostBatch(w)
			}
		}
		b.way.Cancel(f.now, w)
	})
}

func TestALongMessageHasABatchToItself(t *testing.T) {
	straightPlaces(t, func(t *testing.T, f *fabric, a, b *rider) {
		for _, first := range []bool{false, true} {
			w := b.gather(nil, anything, 200_000, 100)
			want := [][]byte{}
			if first {
				want = append(want, []byte("short"))
				a.mustRide(b.tester, 1, false, want[0])
			}
			long := pattern(150_000, 3)
			s := a.send("b/0", 2, 0, long)
			a.mustRide(b.tester, 3, false, []byte("behind"))
			if first {
				f.until(10*time.Second, "the batch ends", w.Done)
				wantBatch(t, w.Batch, want...)
				b.repostBatch(w)
			}
			f.until(10*time.Second, "the long message", w.Done)
			wantBatch(t, w.Batch, long)
			if w.Result.Status != vni.StatusOK || w.Batch.Items[0].Tag != 2 {
				t.Errorf("ended with %+v", w.Result)
			}
			b.repostBatch(w)
			f.until(10*time.Second, "the message behind it", w.Some)
			wantBatch(t, w.Batch, []byte("behind"))
			b.way.Cancel(f.now, w)
			a.wantSent(s)
		}
	})
}

func TestABatchTakesWhatWaitedAndWhatComesFromItsOwnNIC(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	c := f.process(1, "c/0")
	f.known("c/0")
	a.mustRide(b.tester, 1, false, []byte("first"))
	f.run(time.Millisecond)
	s := c.send("b/0", 1, 0, []byte("second"))
	c.wantSent(s)
	f.run(time.Millisecond)
	packed := b.e.Count(vni.NICPacked)
	w := b.gather(nil, 1, 4096, 10)
	c.wantSent(c.send("b/0", 1, 0, []byte("third")))
	d := c.send("b/0", 1, vni.WantAccept, []byte("fourth"))
	c.wantSent(d)
	wantBatch(t, w.Batch, []byte("first"), []byte("second"), []byte("third"), []byte("fourth"))
	if n := b.e.Count(vni.NICPacked) - packed; n != 4 {
		t.Errorf("%d were packed", n)
	}
	long := pattern(limits.EagerMessage+1, 1) // which ends the batch
	s = c.send("b/0", 1, 0, long)
	f.until(time.Second, "the batch ends", w.Done)
	wantBatch(t, w.Batch, []byte("first"), []byte("second"), []byte("third"), []byte("fourth"))
	w = b.gather(c, 1, 1<<20, 10)
	f.until(time.Second, "the long one", w.Done)
	wantBatch(t, w.Batch, long)
	c.wantSent(s)
	f.noLeaks()
}

func TestWhatABatchGivesBackIsReceivedBeforeAllThatCameLater(t *testing.T) { // decision 9
	straightPlaces(t, func(t *testing.T, f *fabric, a, b *rider) {
		w := b.gather(nil, anything, 4096, 100)
		send := func(texts ...string) {
			for _, s := range texts {
				a.mustRide(b.tester, 1, false, []byte(s))
			}
		}
		send("0", "1", "2")
		f.until(10*time.Second, "three", func() bool { return len(w.Batch.Items) == 3 })
		reading := b.way.Swap(w, vni.NewBatch(4096, 100))
		send("3", "4")
		f.until(10*time.Second, "two", func() bool { return len(w.Batch.Items) == 2 })
		waiting := b.want(nil, 1, make([]byte, 1)) // behind the batch in the order of posting
		received, returned := b.e.Count(vni.NICMessagesReceived), b.e.Count(vni.NICReturned)
		b.way.Return(f.now, w, 1, reading, w.Batch) // "0" has been read
		if !w.Done() || w.Result.Status != vni.StatusCancelled {
			t.Errorf("done %v, %v", w.Done(), w.Result.Status)
		}
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
	})
}

// begun reports whether a message is on its way into the batch.
func begun(w *vni.StraightReceive) bool {
	r, ok := w.Entry.(*receive)
	return ok && r.state == recvMatched
}

func TestAMessageThatIsOnItsWayIntoABatchCanBeGivenBack(t *testing.T) {
	straightPlaces(t, func(t *testing.T, f *fabric, a, b *rider) {
		for _, room := range []int{200_000, 100_000} { // all of it, and a part
			w := b.gather(nil, anything, room, 100)
			long := pattern(150_000, 3)
			s := a.send("b/0", 1, 0, long)
			f.until(10*time.Second, "a part of it", func() bool { return begun(w) && w.Entry.(*receive).inb.got > 0 })
			buf := make([]byte, len(long))
			behind := b.recv("a/0", 1, 0, make([]byte, 1)) // gets nothing of it
			f.until(time.Second, "the command is read", func() bool { return !b.way.p.vni.Pending() })
			b.way.Return(f.now, w, 0, w.Batch)
			if !w.Done() || w.Result.Status != vni.StatusCancelled {
				t.Errorf("done %v, %v", w.Done(), w.Result.Status)
			}
			if c := b.finish(true, behind); c.Status != vni.StatusTruncated || c.Full != uint64(len(long)) {
				t.Errorf("ended with %+v", c)
			}
			a.wantSent(s)
			w = b.gather(nil, anything, room, 100)
			s = a.send("b/0", 1, 0, long)
			f.until(10*time.Second, "a part of it", func() bool { return begun(w) && w.Entry.(*receive).inb.got > 0 })
			b.way.Return(f.now, w, 0, w.Batch)
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

func TestALocalMessageOnItsWayIntoABatchBeginsAgain(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	_, b := f.riders()
	c := f.process(1, "c/0")
	f.known("c/0")
	w := b.gather(nil, anything, 24<<20, 100)
	long := pattern(24<<20, 3) // more than one poll copies
	s := c.send("b/0", 1, 0, long)
	f.until(10*time.Second, "a part of it", func() bool { return begun(w) && w.Entry.(*receive).inb.local.frag.Next > 0 })
	b.way.Return(f.now, w, 0, w.Batch)
	f.run(time.Millisecond)
	buf := make([]byte, len(long))
	b.wantReceived(b.recv("c/0", 1, 0, buf), buf, long)
	c.wantSent(s)
	f.noLeaks()
}

func TestABatchThatIsPostedAgainEndsIfItsSenderHasGone(t *testing.T) { // decision 7
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	w := b.gather(a.tester, anything, 4096, 1)
	a.mustRide(b.tester, 1, false, []byte{1})
	a.mustRide(b.tester, 1, false, []byte{2})
	f.until(time.Second, "the first, and the second behind it", w.Done)
	s := w.Batch.Sources[0]
	w.Life.NIC, w.Life.Slot, w.Life.Gen = s.NIC, s.Slot, s.Gen
	a.exit()
	f.run(5 * time.Second)
	b.repostBatch(w) // takes the second
	wantBatch(t, w.Batch, []byte{2})
	b.way.Cancel(f.now, w)
	b.repostBatch(w)
	f.until(5*time.Second, "the end", w.Done)
	if w.Result.Status != vni.StatusProcessGone {
		t.Errorf("ended with %v", w.Result.Status)
	}
	heir := f.rider(0, "a/0") // another life of the name
	f.met(heir, b)
	b.repostBatch(w)
	heir.mustRide(b.tester, 1, false, []byte{3})
	f.until(time.Second, "a message of the heir", w.Some)
	b.way.Cancel(f.now, w)
	f.noLeaks()
}

func TestWhatIsPutBackIsChargedToItsReceiverAsLongAsThereIsRoom(t *testing.T) { // QNIX-47
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	w := b.gather(nil, anything, 1<<20, 10_000)
	for range 20 {
		a.mustRide(b.tester, 1, false, make([]byte, 1000))
	}
	f.until(time.Second, "all", func() bool { return len(w.Batch.Items) == 20 })
	p := b.way.p
	before := p.staged
	room := 10 * int(stagedCost(1000))
	b.e.cfg.StagingBytes = p.staged + p.credited + room // room for half of them
	b.way.Return(f.now, w, 0, w.Batch)
	if p.staged-before != room || p.stray.n != 20 || b.e.Limits() != nil {
		t.Errorf("%d bytes are charged for %d messages, want %d; %v", p.staged-before, p.stray.n, room, b.e.Limits())
	}
	for range 20 {
		buf := make([]byte, 1000)
		b.wantReceived(b.recv("a/0", 1, 0, buf), buf, make([]byte, 1000))
	}
	if p.staged != before {
		t.Errorf("%d bytes are still charged", p.staged-before)
	}
	f.noLeaks()
}

func TestABatchEndsWithItsSenderAndKeepsWhatItHas(t *testing.T) { // decision 7
	f := newFabric(t, 2, fault.Config{})
	a, b := f.riders()
	w := b.gather(a.tester, anything, 4096, 100)
	a.mustRide(b.tester, 1, false, []byte("the last"))
	f.until(time.Second, "it", w.Some)
	a.exit()
	f.until(5*time.Second, "the end of the receive", w.Done)
	if w.Result.Status != vni.StatusProcessGone {
		t.Errorf("ended with %v", w.Result.Status)
	}
	wantBatch(t, w.Batch, []byte("the last"))
	b.way.Return(f.now, w, 0, w.Batch)
	buf := make([]byte, 8)
	b.wantReceived(b.recv("", 1, 0, buf), buf, []byte("the last"))
	w = b.gather(nil, anything, 4096, 100)
	b.exit()
	f.run(time.Millisecond)
	b.way.Return(f.now, w, 0, w.Batch) // does nothing
	f.noLeaks()
}

func TestABatchAllocatesNothing(t *testing.T) { // decision 16
	for _, pl := range []fault.Config{{}, {Seed: 1}} {
		f := newFabric(t, 2, pl)
		a, b := f.riders()
		w, other := b.gather(a.tester, 1, 4096, 100), vni.NewBatch(4096, 100)
		msg := make([]byte, 64)
		turn := func() {
			for !a.ride(b.tester, 1, false, msg) {
				f.step()
			}
			for !w.Some() {
				f.step()
			}
			other = b.way.Swap(w, other)
		}
		for range 5000 {
			turn()
		}
		if n := testing.AllocsPerRun(1000, turn); n != 0 {
			t.Errorf("%v allocations a message", n)
		}
	}
}

// assorted are a hundred short messages, one of which goes by the other channel.
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
	w := b.gather(nil, anything, 1<<20, 10_000)
	m, messages := &vni.StraightSend{To: b.name, Tag: 5}, assorted()
	frames, sends := a.e.Count(vni.LinkFramesOut), a.e.Count(vni.NICStraightSends)
	var lots []int
	for sent := 0; sent < len(messages); {
		n := a.way.SendFrame(m, messages[sent:])
		if n == 0 {
			t.Fatalf("refused after %v", lots)
		}
		sent += n
		lots = append(lots, n)
	}
	f.until(time.Second, "all of them", func() bool { return len(w.Batch.Items) == len(messages) })
	wantBatch(t, w.Batch, messages...)
	if n := int(a.e.Count(vni.LinkFramesOut) - frames); n < len(lots) || n > len(lots)+10 || len(lots) > 20 || a.e.Count(vni.NICStraightSends)-sends != 100 {
		t.Errorf("%d frames, %v; %d were counted", n, lots, a.e.Count(vni.NICStraightSends)-sends)
	}
	for _, bad := range [][]byte{make([]byte, limits.EagerMessage+1), make([]byte, 1473)} {
		if n := a.way.SendFrame(m, [][]byte{bad}); n != 0 {
			t.Errorf("%d bytes went in a frame of 1,472", len(bad))
		}
	}
	total := 0
	for n := 1; n > 0; total += n { // until credit is spent
		n = a.way.SendFrame(m, messages[:60])
	}
	if total == 0 || total > limits.CreditBytes/limits.StagedOverhead {
		t.Errorf("%d messages went on credit", total)
	}
	b.way.Cancel(f.now, w)
	f.noLeaks()
	lossy := newFabric(t, 2, fault.Config{Seed: 1})
	c, d := lossy.riders()
	if n := c.way.SendFrame(&vni.StraightSend{To: d.name}, messages); n != 0 {
		t.Errorf("%d messages went by a frame of a link that may lose it", n)
	}
}

func TestManyMessagesShareSegmentsOfALinkThatMayLoseThem(t *testing.T) { // USNIC-28, decision 5
	f := newFabric(t, 2, fault.Config{Seed: 1})
	a, b := f.riders()
	w := b.gather(nil, anything, 1<<20, 10_000)
	m, messages := &vni.StraightSend{To: b.name, Tag: 5}, assorted()
	posted, sends := a.e.Count(vni.RelSends), a.e.Count(vni.NICStraightSends)
	var lots []int
	for sent := 0; sent < len(messages); {
		n, enough := a.way.SendSegment(m, messages[sent:])
		if n == 0 || enough != (sent+n >= limits.HeldMessages) {
			t.Fatalf("%d messages went, behind %v; enough: %v", n, lots, enough)
		}
		sent += n
		lots = append(lots, n)
	}
	a.way.Sent()
	f.until(time.Second, "all of them", func() bool { return len(w.Batch.Items) == len(messages) })
	wantBatch(t, w.Batch, messages...)
	if n := int(a.e.Count(vni.RelSends) - posted); n == 0 || n > len(lots)+10 || len(lots) > 20 || a.e.Count(vni.NICStraightSends)-sends != 100 {
		t.Errorf("%d segments, %v; %d messages were counted", n, lots, a.e.Count(vni.NICStraightSends)-sends)
	}
	if n, _ := a.way.SendSegment(m, [][]byte{make([]byte, limits.CopiedMessage+1)}); n != 0 {
		t.Error("a message went by a segment that is too long to copy")
	}
	for lots = nil; ; {
		n, enough := a.way.SendSegment(m, messages[:60])
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
	f.until(time.Second, "the rest", func() bool { return len(w.Batch.Items) == len(messages)+total })
	b.way.Cancel(f.now, w)
	f.noLeaks()
}
