package nic

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// multicast starts a multicast to some names and returns its context.
func (p *tester) multicast(to []string, tag uint64, data []byte) int {
	p.f.t.Helper()
	list := make([]byte, len(to)*vni.ReceiverBytes)
	for i, s := range to {
		n, err := vni.ParseName(s)
		if err != nil {
			p.f.t.Fatal(err)
		}
		copy(list[i*vni.ReceiverBytes:], n.App[:])
		binary.LittleEndian.PutUint32(list[i*vni.ReceiverBytes+24:], n.Index)
	}
	p.list = list
	return p.startSized(vni.CodeMulticast, uint32(len(to)), &vni.SendContext{Tag: tag, Flags: vni.WantNotify}, list, data)
}

// A NIC falls silent while a multicast waits for the permission of one of its processes, and comes
// back. That process and its neighbour lose the message. The others get it, the multicast ends,
// and later messages arrive.
func TestAMulticastOutlivesTheLossOfANIC(t *testing.T) {
	for _, order := range [][]string{{"b/0", "b/1", "c/0"}, {"b/0", "b/0", "c/0"}, {"c/0", "b/1", "b/0"}} {
		f := newFabric(t, 3, fault.Config{})
		a, b0, b1, c := f.process(0, "a/0"), f.process(1, "b/0"), f.process(1, "b/1"), f.process(2, "c/0")
		f.known("a/0", "b/0", "b/1", "c/0")
		want := pattern(40_000, 1)
		buf := make([]byte, len(want))
		atC := c.recv("a/0", 1, 0, buf)
		m := a.multicast(order, 1, want)
		for range 50 {
			f.step()
		}
		all := f.engines
		f.engines = []*Engine{all[0], all[2]}
		f.until(8*time.Second, "the silence is noticed", func() bool { return !all[0].peerOf(2).ep.Up() })
		f.engines = all
		if s := a.finish(false, m); s.Status != vni.StatusUnreachable || order[s.Tag] != "b/0" && order[s.Tag] != "b/1" {
			t.Errorf("%v: the multicast ended with %v of receiver %d", order, s.Status, s.Tag)
		}
		c.wantReceived(atC, buf, want)
		f.until(8*time.Second, "b is back", func() bool { pr := all[0].peerOf(2); return pr.ep.Up() && pr.names.Synced() })
		f.known("b/0", "b/1")
		for _, p := range []*tester{b0, b1} {
			small := make([]byte, 5)
			r := p.recv("a/0", 2, 0, small)
			a.wantSent(a.send(p.name.String(), 2, 0, []byte("later")))
			p.wantReceived(r, small, []byte("later"))
		}
		f.noLeaks()
	}
}

// A process has at most limits.MulticastCopies copies in flight. Its further commands wait in
// their order until there is room, however long that takes.
func TestMulticastsWaitForOneAnotherRatherThanTakeMoreMemory(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	to := make([]string, limits.MulticastReceivers)
	for i := range to {
		to[i] = "b/0"
	}
	var ms []int
	for tag := range uint64(5) {
		ms = append(ms, a.multicast(to, tag, pattern(20_000, 1))) // no receive asks for them
	}
	f.run(100 * time.Millisecond)
	p := a.e.process(a.slot)
	if n, held := a.e.copies.InUse(), p.held.n; n != limits.MulticastCopies || held != 3 {
		t.Fatalf("%d copies under way, %d multicasts wait", n, held)
	}
	cancel := func(tag int) {
		a.post(vni.Command{Code: vni.CodeCancel, Context: uint16(ms[tag]), Size: vni.CancelSend})
		if c := a.finish(false, ms[tag]); c.Status != vni.StatusCancelled {
			t.Errorf("multicast %d ended with %v", tag, c.Status)
		}
	}
	cancel(3) // it has no copies yet
	cancel(0)
	f.run(100 * time.Millisecond)
	if n, held := a.e.copies.InUse(), p.held.n; n != limits.MulticastCopies || held != 1 {
		t.Fatalf("then %d copies under way, %d multicasts wait", n, held)
	}
	for _, tag := range []int{1, 2, 4} {
		buf := make([]byte, 20_000)
		for range to {
			b.wantReceived(b.recv("a/0", uint64(tag), 0, buf), buf, pattern(20_000, 1))
		}
		a.wantSent(ms[tag])
	}
	f.noLeaks()
}

// A receiver's NIC refuses a copy late, when the multicast is over. The refusal must not fail the
// next send of the context.
func TestALateRefusalOfACopyHitsNobodyElse(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, gone, b := f.process(0, "a/0"), f.process(1, "gone/0"), f.process(1, "b/0")
	f.known("a/0", "b/0", "gone/0")
	gone.recv("a/0", 1, 0, make([]byte, 1))
	// From now on a short message leaves without permission.
	a.wantSent(a.send("gone/0", 1, 0, []byte("x")))
	want := pattern(40_000, 1)
	buf := make([]byte, len(want))
	gone.exit()
	m := a.multicast([]string{"a/0", "gone/0"}, 2, []byte("never"))
	f.engines[0].Poll(f.now)
	a.wantSent(m)
	// So that the next send must use this context.
	for i, _ := a.v.TakeSend(); i != m; i, _ = a.v.TakeSend() {
		defer a.v.GiveBack(false, i)
	}
	a.v.GiveBack(false, m)
	s := a.send("b/0", 3, 0, want) // its token is the next
	f.engines[0].Poll(f.now)
	if s != m {
		t.Fatalf("context %d after %d: this test tests nothing", s, m)
	}
	r := b.recv("a/0", 3, 0, buf)
	a.wantSent(s)
	b.wantReceived(r, buf, want)
	a.wantReceived(a.recv("a/0", 2, 0, buf), buf, []byte("never"))
	f.noLeaks()
}
