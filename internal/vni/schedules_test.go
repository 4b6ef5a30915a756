package vni

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/weftnet/weft/internal/interleave"
)

// Each test here runs both halves of a segment for a few steps in every order. The package comment
// has the rules of the protocols. The sides below follow them, as proc and nic do.

// scheduledBell wakes a side of a schedule: a wake-up before the wait is not lost.
type scheduledBell struct{ rung bool }

func (b *scheduledBell) ring() { b.rung = true }

func (b *scheduledBell) wait() {
	interleave.Block(func() bool { return b.rung })
	b.rung = false
}

func TestEveryScheduleOfTheCommandQueue(t *testing.T) { // QNIX-29, QNIX-37
	const total = 3
	interleave.Explore(t, interleave.Options{Plain: true, Least: 1000}, func(r *interleave.Run) {
		_, p, n := newSegment(t, Geometry{Commands: 16, Contexts: 2, Descriptors: 2})
		for range 12 { // the queue wraps soon
			p.Post(Command{Code: CodeBarrier})
			n.Next()
		}
		r.Go("process", func() {
			for k := uint32(1); k <= total; k++ {
				if !p.Post(Command{Code: CodeReduce, Context: uint16(k), Group: k, Size: k}) {
					r.Failf("no room for command %d", k)
				}
			}
		})
		r.Go("NIC", func() {
			for k := uint32(1); k <= total; k++ {
				interleave.Block(n.Pending)
				c, ok := n.Next()
				if want := (Command{Code: CodeReduce, Context: uint16(k), Group: k, Size: k}); !ok || c != want {
					r.Failf("command %d came as %+v, %v", k, c, ok)
				}
			}
		})
		r.Check(func() error {
			if n.Pending() || p.Room(16) {
				return fmt.Errorf("a command is left")
			}
			return nil
		})
	})
}

func TestEveryScheduleOfAFullQueue(t *testing.T) { // QNIX-A4
	const total = 12 // 8 of them have room before the head that the process knows moves
	interleave.Explore(t, interleave.Options{Preemptions: 3, Least: 1000}, func(r *interleave.Run) {
		_, p, n := newSegment(t, Geometry{Commands: 16, Contexts: 2, Descriptors: 2})
		for range 11 {
			p.Post(Command{Code: CodeBarrier})
		}
		for range 7 {
			n.Next()
		}
		r.Go("process", func() {
			for k := range uint32(total) {
				for !p.Post(Command{Code: CodeReduce, Group: k}) {
					head := p.KnownHead()
					interleave.Block(func() bool { return p.Head() != head })
				}
			}
		})
		r.Go("NIC", func() {
			for range 4 {
				n.Next()
			}
			for k := range uint32(total) {
				interleave.Block(n.Pending)
				if c, _ := n.Next(); c.Code != CodeReduce || c.Group != k {
					r.Failf("command %d came as %+v", k, c)
				}
			}
		})
	})
}

func TestEveryScheduleOfTheListeningWord(t *testing.T) { // decision 11
	const total = 3 // so that one may follow a command for which the NIC was kicked
	interleave.Explore(t, interleave.Options{Preemptions: 4, Least: 1000}, func(r *interleave.Run) {
		_, p, n := newSegment(t, Geometry{Commands: 16, Contexts: 2, Descriptors: 2})
		n.Listen()
		var bell scheduledBell
		r.Go("process", func() {
			for range total {
				p.Post(Command{Code: CodeBarrier})
				if p.MustKick() {
					bell.ring()
				}
			}
		})
		r.Go("NIC", func() {
			for taken := 0; taken < total; {
				if _, ok := n.Next(); ok {
					taken++
				} else if n.StopListening() {
					bell.wait()
					n.Listen()
				}
			}
		})
	})
}

func TestEveryScheduleOfACompletionAndAParkedProcess(t *testing.T) { // QNIX-32, decision 11
	completionSchedules(t, 1, interleave.Options{Plain: true, Least: 1000})
}

func TestEveryScheduleOfTwoCompletionsAndAParkedProcess(t *testing.T) {
	completionSchedules(t, 2, interleave.Options{Least: 1000})
}

func completionSchedules(t *testing.T, total int, o interleave.Options) {
	want := func(k int) Completion {
		return Completion{Status: StatusTruncated, Len: uint64(k), Full: uint64(k) + 1, Tag: uint64(k) + 2, Token: uint32(k) + 3, NIC: 4, Slot: 5,
			Gen: 6, From: Name{Index: uint32(k)}}
	}
	interleave.Explore(t, o, func(r *interleave.Run) {
		_, p, n := newSegment(t, Geometry{Commands: 16, Contexts: 2, Descriptors: 2})
		for i := range total {
			p.TakeReceive()
			p.SetReceive(i, &ReceiveContext{PoolIndex: NoPool, Flags: WantNotify})
			if _, err := receiveOf(n, i); err != nil {
				t.Fatal(err)
			}
		}
		var wake scheduledBell
		r.Go("process", func() {
			for i := range total {
				for p.Doorbell(true, i) != Done {
					p.SetSleeping(true)
					if p.Doorbell(true, i) != Done {
						wake.wait()
					}
					p.SetSleeping(false)
				}
				if c := p.Completion(true, i); c != want(i) {
					r.Failf("operation %d ended as %+v", i, c)
				}
				p.Release(true, i)
			}
		})
		r.Go("NIC", func() {
			for i := range total {
				c := want(i)
				if err := n.Complete(true, i, &c, true); err != nil {
					r.Failf("%v", err)
				}
				if n.Sleeping() {
					wake.ring()
				}
			}
		})
	})
}

func TestEveryScheduleOfAContextThatIsTakenAgain(t *testing.T) { // QNIX-30
	const total = 3
	interleave.Explore(t, interleave.Options{Plain: true, Preemptions: 3, Least: 1000}, func(r *interleave.Run) {
		_, p, n := newSegment(t, Geometry{Commands: 16, Contexts: 1, Descriptors: 2})
		r.Go("process", func() {
			for k := range uint64(total) {
				interleave.Block(func() bool { return p.AnyFree(false) })
				i, ok := p.TakeSend()
				if !ok {
					r.Failf("a context that is free cannot be taken")
				}
				p.SetSend(i, &SendContext{Tag: k, Gen: uint32(k), PoolIndex: NoPool, Size: 1, Len: 1})
				p.Inline(i)[0] = byte(k)
				p.Post(Command{Code: CodeSendShort, Context: uint16(i)})
			}
		})
		r.Go("NIC", func() {
			for k := range uint64(total) {
				interleave.Block(n.Pending)
				c, _ := n.Next()
				sc, err := sendOf(n, int(c.Context))
				if err != nil || sc.Tag != k || uint64(sc.Gen) != k || n.Inline(int(c.Context), 1)[0] != byte(k) {
					r.Failf("send %d came as %+v, %v", k, sc, err)
				}
				if err := n.Complete(false, int(c.Context), new(Completion), false); err != nil {
					r.Failf("%v", err)
				}
			}
		})
	})
}

func TestEveryScheduleOfTheDescriptorsOfARefill(t *testing.T) { // QNIX-22
	const total = 4 // in a ring of 2
	interleave.Explore(t, interleave.Options{Plain: true, Preemptions: 3, Least: 1000}, func(r *interleave.Run) {
		_, p, n := newSegment(t, Geometry{Commands: 16, Contexts: 1, Descriptors: 2})
		var refill scheduledBell
		r.Go("process", func() {
			for k := uint32(0); k < total; k++ {
				interleave.Block(func() bool { return k-p.Consumed(false, 0) < 2 })
				p.SetDescriptor(false, 0, k, Descriptor{Region: k + 1, Offset: uint64(k), Len: uint64(k) + 1})
				if p.Taken(false, 0) == k {
					refill.ring()
				}
			}
		})
		r.Go("NIC", func() {
			for taken := uint32(0); taken < total; {
				d, ok, err := n.Descriptor(false, 0, taken)
				if err != nil {
					r.Failf("%v", err)
				}
				if !ok {
					refill.wait()
					continue
				}
				if want := (Descriptor{Region: taken + 1, Flag: DescriptorValid, Offset: uint64(taken), Len: uint64(taken) + 1}); d != want {
					r.Failf("descriptor %d is %+v", taken, d)
				}
				n.Consume(false, 0, taken) // before Took: the next round of the ring finds it empty
				taken++
				n.Took(false, 0)
			}
		})
	})
}

func scheduledEvent(k uint64) Event {
	return Event{Kind: uint32(k), NIC: k, Slot: uint16(k), Gen: uint32(k), Name: Name{Index: uint32(k)}, Count: k}
}

func TestEveryScheduleOfAnEventThatIsAwaited(t *testing.T) {
	const total = 2
	interleave.Explore(t, interleave.Options{Preemptions: 3, Least: 500}, func(r *interleave.Run) {
		_, p, n := newSegment(t, Geometry{Commands: 16, Contexts: 1, Descriptors: 2})
		r.Go("process", func() {
			for k := range uint64(total) {
				interleave.Block(p.EventPending)
				if e, lost, ok := p.NextEvent(); !ok || lost > 0 || e != scheduledEvent(k) {
					r.Failf("event %d came as %+v, %v, with %d lost before it", k, e, ok, lost)
				}
			}
		})
		r.Go("NIC", func() {
			for k := range uint64(total) {
				n.Event(scheduledEvent(k))
			}
		})
	})
}

func TestEveryScheduleOfAnEventThatIsOverwritten(t *testing.T) {
	interleave.Explore(t, interleave.Options{Preemptions: 3, Least: 1000}, func(r *interleave.Run) {
		_, p, n := newSegment(t, Geometry{Commands: 16, Contexts: 1, Descriptors: 2})
		for k := range uint64(Events) {
			n.Event(scheduledEvent(k))
		}
		r.Go("process", func() {
			at := uint64(0)
			for range 2 {
				e, lost, ok := p.NextEvent()
				at += lost
				if !ok || e != scheduledEvent(at) {
					r.Failf("event %d came as %+v, %v, with %d lost before it", at, e, ok, lost)
				}
				at++
			}
		})
		r.Go("NIC", func() {
			n.Event(scheduledEvent(Events))
			n.Event(scheduledEvent(Events + 1))
		})
	})
}

// ringMessages go into a ring of 256 bytes, which has room for two of them.
var ringMessages = [][]byte{bytes.Repeat([]byte{1}, 90), bytes.Repeat([]byte{2}, 70), bytes.Repeat([]byte{3}, 80), bytes.Repeat([]byte{4}, 90)}

// writeRing puts messages into a ring, and waits for a Refill if one does not fit, as nic does.
func writeRing(r *interleave.Run, w *RingWriter, messages [][]byte, refill *scheduledBell) {
	for k, m := range messages {
		need := RingNeeds(len(m), false, false)
		for !w.Fits(need) && (w.Look() != nil || !w.Fits(need)) {
			w.Stall()
			if err := w.Look(); err != nil {
				r.Failf("%v", err)
			}
			if w.Fits(need) {
				break
			}
			refill.wait()
		}
		data := PutRingMessage(w.Place(need), uint64(k), uint32(k), len(m))
		copy(data, m)
		w.Advance(need)
		w.PublishTo(w.Position())
	}
}

// readRing reads messages and answers stalls, as an Inbox does.
func readRing(r *interleave.Run, b *RingReader, messages [][]byte, refill *scheduledBell) {
	for k, want := range messages {
		data, ok := b.Next()
		for ; !ok; data, ok = b.Next() {
			if b.Stalled() {
				refill.ring()
				continue
			}
			interleave.Block(b.Ready)
		}
		if !bytes.Equal(data, want) || b.Tag != uint64(k) || b.Token != uint32(k) {
			r.Failf("message %d came as %d of %d, tag %d, %.4x", k, len(data), len(want), b.Tag, data)
		}
	}
}

func TestEveryScheduleOfARing(t *testing.T) { // USNIC-28
	interleave.Explore(t, interleave.Options{Plain: true, Preemptions: 3, Least: 1000}, func(r *interleave.Run) {
		_, p, n := newSegment(t, Geometry{Commands: 16, Contexts: 1, Descriptors: 2})
		mem := AlignedBytes(256)
		b, w := new(RingReader), n.Ring(0, mem)
		b.Open(p, 0, mem)
		var refill scheduledBell
		r.Go("NIC", func() { writeRing(r, &w, ringMessages, &refill) })
		r.Go("process", func() { readRing(r, b, ringMessages, &refill) })
	})
}

// A ring's receive has ended, and another ring uses its context while messages of the first are
// read.
func TestEveryScheduleOfARingWhoseContextIsAnothers(t *testing.T) { // USNIC-28
	interleave.Explore(t, interleave.Options{Plain: true, Preemptions: 3, Least: 1000}, func(r *interleave.Run) {
		_, p, n := newSegment(t, Geometry{Commands: 16, Contexts: 1, Descriptors: 2})
		one, other := new(RingReader), new(RingReader)
		mem := AlignedBytes(256)
		w := n.Ring(0, mem)
		one.Open(p, 0, mem)
		var unused scheduledBell
		writeRing(r, &w, ringMessages[:2], &unused)
		r.Go("reader", func() {
			readRing(r, one, ringMessages[:2], &unused)
			for range 2 {
				if data, ok := one.Next(); ok {
					r.Failf("%.4x, which was written for another", data)
				}
			}
		})
		r.Go("other", func() {
			one.Freeze()
			mem := AlignedBytes(256)
			w = n.Ring(0, mem)
			other.Open(p, 0, mem)
			for range 2 {
				writeRing(r, &w, ringMessages[:1], &unused)
				readRing(r, other, ringMessages[:1], &unused)
				other.Next() // reports that it has read the message
				if err := w.Look(); err != nil || !w.AllRead() {
					r.Failf("the other has read up to %d of %d, %v", w.Read(), w.Position(), err)
				}
			}
		})
		r.Check(func() error {
			if one.Ready() || !w.AllRead() {
				return errors.New("the reader has a message, or has moved what the other has read")
			}
			return nil
		})
	})
}
