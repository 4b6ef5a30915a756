package proc

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/weftnet/weft/internal/idle"
	"github.com/weftnet/weft/internal/interleave"
	"github.com/weftnet/weft/internal/vni"
)

// In each test here, callers of a process and its NIC take a few steps in every possible order.
// The NIC is one side of the test, and uses the real NIC half of the segment.

// scheduledWaiter waits as an attached process does: the waiters stand in a list, and the NIC's
// wake-ups go through it.
type scheduledWaiter struct{ idle.Waiters }

func (w *scheduledWaiter) Kick() {}
func (w *scheduledWaiter) Wake() { w.WakeReady() }

// scheduled returns a process of the test's NIC, which always listens to the process's queue.
func scheduled(t *testing.T, g vni.Geometry, direct bool) (*Process, *vni.NIC, *scheduledWaiter) {
	w := &scheduledWaiter{}
	p, q := (&toy{}).join(t, g, direct, func(vp *vni.Process, _ *toyProc) Waiter {
		w.Sleeping = vp.SetSleeping
		return w
	}, Options{})
	return p, q.nic, w
}

// complete ends an operation and wakes sleeping waiters, as an engine does.
func (w *scheduledWaiter) complete(r *interleave.Run, n *vni.NIC, receive bool, i int, c *vni.Completion) {
	if err := n.Complete(receive, i, c, true); err != nil {
		r.Failf("%v", err)
	}
	w.ring(n)
}

func (w *scheduledWaiter) ring(n *vni.NIC) {
	if n.Sleeping() {
		w.WakeReady()
	}
}

// command returns the next command, which must be of the given kind.
func command(r *interleave.Run, n *vni.NIC, code vni.Code) vni.Command {
	interleave.Block(n.Pending)
	c, ok := n.Next()
	if !ok || c.Code != code {
		r.Failf("%v came, expected %v", c.Code, code)
	}
	return c
}

func TestEveryScheduleOfACompletionAndItsWaiter(t *testing.T) {
	interleave.Explore(t, interleave.Options{Preemptions: 2, Least: 500}, func(r *interleave.Run) {
		p, n, w := scheduled(t, vni.Geometry{Commands: 32, Contexts: 1, Descriptors: 1}, true)
		r.Go("caller", func() {
			for k := range uint64(2) {
				m, err := p.Recv(context.Background(), Dest{}, AnyTag, nil)
				if err != nil || m.Tag != k {
					r.Failf("message %d came as %+v, %v", k, m, err)
				}
			}
		})
		r.Go("NIC", func() {
			for k := range uint64(2) {
				c := command(r, n, vni.CodeReceive)
				if err := n.Receive(int(c.Context), new(vni.ReceiveContext)); err != nil {
					r.Failf("%v", err)
				}
				w.complete(r, n, true, int(c.Context), &vni.Completion{Tag: k})
			}
		})
	})
}

// startedReceive begins a receive, which the NIC then reads.
func startedReceive(t *testing.T, p *Process, n *vni.NIC, o *Op) {
	if err := p.StartRecvInto(o, Dest{}, AnyTag, nil); err != nil {
		t.Fatal(err)
	}
	c, _ := n.Next()
	if err := n.Receive(int(c.Context), new(vni.ReceiveContext)); err != nil {
		t.Fatal(err)
	}
}

// One waiter finds the operation done and frees its context while the other reads the doorbell.
func TestEveryScheduleOfTwoThatWaitForOneOp(t *testing.T) {
	interleave.Explore(t, interleave.Options{Delays: 3, Least: 500}, func(r *interleave.Run) {
		p, n, w := scheduled(t, vni.Geometry{Commands: 32, Contexts: 1, Descriptors: 1}, true)
		var o Op
		startedReceive(t, p, n, &o)
		for range 2 {
			r.Go("waiter", func() {
				if m, err := o.Wait(context.Background()); err != nil || m.Tag != 1 {
					r.Failf("it ended with %+v, %v", m, err)
				}
			})
		}
		r.Go("NIC", func() { w.complete(r, n, true, 0, &vni.Completion{Tag: 1}) })
	})
}

// One goroutine reads an operation while another finds it done and begins the next operation with
// the same context.
func TestEveryScheduleOfAnOpWhoseContextIsAnothers(t *testing.T) {
	interleave.Explore(t, interleave.Options{Delays: 3, Least: 500}, func(r *interleave.Run) {
		p, n, w := scheduled(t, vni.Geometry{Commands: 32, Contexts: 1, Descriptors: 1}, true)
		var first, second Op
		startedReceive(t, p, n, &first)
		r.Go("other", func() {
			if done, m, err := first.Test(); done && (err != nil || m.Tag != 1) {
				r.Failf("the first operation ended with %+v, %v", m, err)
			}
		})
		r.Go("caller", func() {
			for done := false; !done; {
				if done, _, _ = first.Test(); !done {
					interleave.Yield()
				}
			}
			// The other goroutine may have settled it without having freed its context yet.
			for p.StartRecvInto(&second, Dest{}, AnyTag, nil) != nil {
				interleave.Yield()
			}
			if m, err := second.Wait(context.Background()); err != nil || m.Tag != 2 {
				r.Failf("the second operation ended with %+v, %v", m, err)
			}
		})
		r.Go("NIC", func() {
			w.complete(r, n, true, 0, &vni.Completion{Tag: 1})
			command(r, n, vni.CodeReceive)
			if err := n.Receive(0, new(vni.ReceiveContext)); err != nil {
				r.Failf("%v", err)
			}
			w.complete(r, n, true, 0, &vni.Completion{Tag: 2})
		})
	})
}

// An Op is used again as soon as it is done. A waiter of its first use wakes late.
func TestEveryScheduleOfAnOpThatIsUsedAgain(t *testing.T) {
	interleave.Explore(t, interleave.Options{Preemptions: 2, Least: 500}, func(r *interleave.Run) {
		p, n, w := scheduled(t, vni.Geometry{Commands: 32, Contexts: 1, Descriptors: 1}, true)
		r.Go("caller", func() {
			var o Op
			for k := range uint64(2) {
				if err := p.StartRecvInto(&o, Dest{}, AnyTag, nil); err != nil {
					r.Failf("%v", err)
				}
				if m, err := o.Wait(context.Background()); err != nil || m.Tag != k {
					r.Failf("use %d of an Op ended with %+v, %v", k, m, err)
				}
			}
		})
		r.Go("NIC", func() {
			for k := range uint64(2) {
				c := command(r, n, vni.CodeReceive)
				if err := n.Receive(int(c.Context), new(vni.ReceiveContext)); err != nil {
					r.Failf("%v", err)
				}
				w.complete(r, n, true, int(c.Context), &vni.Completion{Tag: k})
			}
		})
	})
}

// The NIC takes descriptors as long as it finds some. After that it looks again only when a
// Refill arrives.
func TestEveryScheduleOfASendThatIsRefilled(t *testing.T) { // QNIX-22
	const pieces = 5
	message := pattern(pieces*4096, 1)
	interleave.Explore(t, interleave.Options{Preemptions: 3, Least: 500}, func(r *interleave.Run) {
		p, n, w := scheduled(t, vni.Geometry{Commands: 64, Contexts: 1, Descriptors: 2, PoolPages: pieces - 1}, false)
		req := request{what: "send", code: vni.CodeSend, with: app(t, "app/1"), waits: true}
		parts, err := p.sendRequest(&req, 1, 0, [][]byte{message})
		if err == nil {
			err = p.begin(context.Background(), parts, &req)
		}
		var sc vni.SendContext
		if c, ok := n.Next(); err != nil || !ok || n.Send(int(c.Context), &sc) != nil || sc.Flags&vni.Refilled == 0 {
			t.Fatalf("%+v, %v: not one that is refilled", sc, err)
		}
		r.Go("caller", func() {
			if _, err := p.end(context.Background(), req.op); err != nil {
				r.Failf("%v", err)
			}
		})
		r.Go("NIC", func() { takeRefilled(r, n, w, message) })
		r.Check(func() error {
			if got := p.vp.Doorbell(false, 0); got != vni.Free {
				return fmt.Errorf("the context is %v", got)
			}
			return nil
		})
	})
}

// takeRefilled is the NIC of a send in context 0. It takes and consumes the described bytes,
// until it has the whole message.
func takeRefilled(r *interleave.Run, n *vni.NIC, w *scheduledWaiter, message []byte) {
	pool := n.Segment().Pool()
	var held []vni.Descriptor
	for taken, consumed, at := uint32(0), uint32(0), 0; ; onlyRefill(r, n) {
		for len(held) < 2 {
			d, ok, err := n.Descriptor(false, 0, taken)
			if err != nil {
				r.Failf("%v", err)
			}
			if !ok {
				break
			}
			held = append(held, d)
			taken++
			n.Took(false, 0)
		}
		for _, d := range held {
			if !bytes.Equal(pool[d.Offset:][:d.Len], message[at:][:d.Len]) {
				r.Failf("the piece at byte %d is another", at)
			}
			at += int(d.Len)
			n.Consume(false, 0, consumed)
			consumed++
			w.ring(n)
		}
		if held = held[:0]; at == len(message) {
			break
		}
	}
	for n.Pending() { // posted although its descriptor was already found
		onlyRefill(r, n)
	}
	w.complete(r, n, false, 0, &vni.Completion{Len: uint64(len(message))})
}

// onlyRefill takes a Refill. No other unread Refill may follow it.
func onlyRefill(r *interleave.Run, n *vni.NIC) {
	command(r, n, vni.CodeRefill)
	looked, second := false, false
	interleave.Block(func() bool { // runs at once, before another side runs
		second = second || !looked && n.Pending()
		looked = true
		return true
	})
	if second {
		r.Failf("two Refills of one operation were unread")
	}
}
