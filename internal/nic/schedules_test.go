package nic

import (
	"bytes"
	"context"
	"testing"

	"github.com/weftnet/weft/internal/interleave"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// Each test here runs a polled engine and a process for a few steps, in every order.

// unkept is a test that keeps no state of a schedule: there are thousands.
type unkept struct{ testing.TB }

func (unkept) Cleanup(func()) {}

// ringSchedules makes one process of a NIC send messages to another. The receiver reads them out
// of a ring of room bytes, and parks when there are none.
func ringSchedules(t *testing.T, o interleave.Options, room int, messages ...[]byte) {
	interleave.Explore(t, o, func(r *interleave.Run) {
		f := newFabric(unkept{t}, 1, fault.Config{})
		a, b := f.process(0, "a/0"), f.process(0, "b/0")
		w := b.gather(nil, anything, len(messages[0]), room)
		for _, m := range messages {
			a.send("b/0", 1, 0, m)
		}
		over := false
		r.Go("NIC", func() {
			for !over {
				f.engines[0].RingAll()
				if work, _ := f.engines[0].Poll(f.now); work == 0 {
					interleave.Block(func() bool { return over || f.engines[0].process(b.slot).vni.Pending() })
				}
			}
		})
		r.Go("process", func() {
			for k, want := range messages {
				if got := w.await(); !bytes.Equal(got, want) {
					r.Failf("message %d came as %d bytes, %.8x; expected %d, %.8x", k, len(got), got, len(want), want)
				}
			}
			over = true
		})
	})
}

// await reads the next message, as an Inbox does, and parks until there is one.
func (b *inbox) await() []byte {
	for {
		data, ok := b.ring.Next()
		switch {
		case ok:
			return data
		case b.ring.Stalled():
			b.v.Post(vni.Command{Code: vni.CodeRefill, Context: uint16(b.ctx), Size: vni.CancelReceive})
			continue
		}
		b.v.SetSleeping(true)
		for woken := b.wakes; !b.ring.Ready(); woken = b.wakes {
			interleave.Block(func() bool { return b.wakes > woken })
		}
		b.v.SetSleeping(false)
	}
}

// A long record is shown in the middle of a poll, and is then complete.
func TestEveryScheduleOfALongRecordThatIsShown(t *testing.T) {
	ringSchedules(t, interleave.Options{Plain: true, Preemptions: 2, Least: 30}, 0, pattern(limits.RingShown+100, 1))
}

func TestEveryScheduleOfARingAndItsParkedReader(t *testing.T) {
	ringSchedules(t, interleave.Options{Preemptions: 1, Least: 30}, 0, pattern(100, 1), pattern(90, 2))
}

// The ring has no room for the last messages until some are read, and its reader then says so.
func TestEveryScheduleOfARingWithoutRoom(t *testing.T) {
	ringSchedules(t, interleave.Options{Preemptions: 2, Least: 30}, 0, pattern(100, 1), pattern(90, 2), pattern(100, 3), pattern(80, 4))
}

// swapping waits like a process that parks.
type swapping struct {
	b    *tester
	half *vni.Process
}

func (w *swapping) Wait(_ context.Context, ready func() bool) error {
	w.half.SetSleeping(true)
	for {
		woken := w.b.wakes
		if ready() {
			w.half.SetSleeping(false)
			return nil
		}
		interleave.Block(func() bool { return w.b.wakes > woken })
	}
}

func (w *swapping) Kick() {} // here the engine hears every ring
func (w *swapping) Wake() { w.b.wakes++ }

// An Inbox is closed after it has read some of the messages, and another takes its place: each
// message arrives once, and in order.
func TestEveryScheduleOfAnInboxThatTakesAnothersPlace(t *testing.T) {
	messages := [][]byte{pattern(100, 1), pattern(90, 2), pattern(80, 3)}
	interleave.Explore(t, interleave.Options{Preemptions: 1, Least: 100}, func(r *interleave.Run) {
		f := newFabric(unkept{t}, 1, fault.Config{})
		a, b := f.process(0, "a/0"), f.process(0, "b/0")
		w := &swapping{b: b, half: b.seg.Process()}
		p, err := proc.New(b.seg, w, nil, proc.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			a.send("b/0", 1, 0, m)
		}
		over := false
		r.Go("process", func() {
			box := p.OpenInbox(proc.Dest{}, proc.AnyTag, 100, 0)
			for k, want := range messages {
				if k > 0 {
					box.Close()
					box = p.OpenInbox(proc.Dest{}, proc.AnyTag, 100, 0)
				}
				if _, got, err := box.Next(t.Context()); err != nil || !bytes.Equal(got, want) {
					r.Failf("message %d came as %d bytes, %.8x, %v; expected %d, %.8x", k, len(got), got, err, len(want), want)
				}
			}
			over = true
		})
		r.Go("NIC", func() {
			for !over {
				f.engines[0].RingAll()
				if work, _ := f.engines[0].Poll(f.now); work == 0 {
					interleave.Block(func() bool { return over || f.engines[0].process(b.slot).vni.Pending() })
				}
			}
		})
	})
}
